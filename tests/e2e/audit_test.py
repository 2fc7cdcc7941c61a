"""The audit log tells who did what, rotates on SIGHUP, and like the log holds no capability."""

import os
import signal

import harness


class Audit(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.audit = self.path("audit.jsonl")
        self.holdfast = self.server("--audit-log", self.audit, "--log-level", "debug")
        self.secrets = []

    def lines(self, path=None):
        with open(path or self.audit, encoding="utf-8") as file:
            return [harness.json.loads(line) for line in file]

    def wait_line(self, matches, what, path=None):
        return harness.wait_until(
            lambda: next((line for line in self.lines(path) if matches(line)), None), what)

    def use_every_verb(self):
        run = self.holdfast.json
        grant = run("acquire", "a", "--owner", "me", "--ttl", "1s", "--request-id", "secret-request-1")
        run("acquire", "a", "--request-id", "secret-request-2", code=75)
        run("renew", "a", "--lease-id", grant["lease_id"])
        session = run("session", "open", "--request-id", "secret-request-3")["session_id"]
        held = run("acquire", "b", "--session", session, "--request-id", "secret-request-4")
        run("break", "b", "--reason", "because")
        run("release", "b", "--lease-id", held["lease_id"])
        run("session", "close", session)
        run("namespace", "create", "n")
        run("cancel", "c", "--request-id", "secret-request-5")
        self.secrets += [grant["lease_id"], held["lease_id"], session]
        self.secrets += [f"secret-request-{i}" for i in range(1, 6)]
        return grant, held

    def test_lines(self):
        grant, held = self.use_every_verb()
        acquired = self.wait_line(lambda l: l.get("verb") == "ACQUIRE" and l.get("resource") == "a" and
                                  l.get("outcome") == "GRANTED", "the grant")
        self.assertEqual((acquired["principal"], acquired["namespace"], acquired["owner"]),
                         ("anonymous", "default", "me"))
        self.assertEqual(acquired["token"], grant["fencing_token"])
        self.assertEqual(acquired["lease_fp"], grant["lease_fp"])
        self.wait_line(lambda l: l.get("outcome") == "HELD", "the refusal")
        broken = self.wait_line(lambda l: l.get("verb") == "BREAK", "the break")
        self.assertEqual((broken["resource"], broken["reason"]), ("b", "because"))
        released = self.wait_line(lambda l: l.get("verb") == "RELEASE", "the release")
        self.assertEqual(released["lease_fp"], held["lease_fp"])
        self.wait_line(lambda l: l.get("resource") == "a" and l.get("cause") == "EXPIRED", "the expiry")

    def test_no_capability_in_audit_and_log(self):
        self.use_every_verb()
        self.holdfast.run("acquire", "BAD NAME", "--request-id", "secret-request-6")
        self.secrets.append("secret-request-6")
        self.holdfast.restart()
        self.assertEqual(self.holdfast.stop(), 0)
        with open(self.audit, encoding="utf-8") as file:
            text = file.read() + self.holdfast.logged()
        self.assertIn('"verb"', text)
        for secret in self.secrets:
            self.assertNotIn(secret, text)

    def test_sighup_opens_a_new_file(self):
        self.holdfast.json("acquire", "before")
        self.wait_line(lambda line: line.get("resource") == "before", "a line")
        moved = self.audit + ".1"
        os.rename(self.audit, moved)
        self.holdfast.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: os.path.exists(self.audit), "a new file")
        self.holdfast.json("acquire", "after")
        self.wait_line(lambda line: line.get("resource") == "after", "a line in the new file")
        self.assertFalse(any(line.get("resource") == "after" for line in self.lines(moved)))
        self.assertFalse(any(line.get("resource") == "before" for line in self.lines()))
        self.assertEqual(os.stat(self.audit).st_mode & 0o777, 0o600)


if __name__ == "__main__":
    harness.main()
