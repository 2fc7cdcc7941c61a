"""Servers that are killed again and again, tokens over everything that can happen to a log, crashes of
holders, leases that end all at once: scenarios of docs/FAULTS.md, on real processes."""

import json
import os
import signal

import harness
from faults_test import INTERVAL, SLACK, FaultCase, boot_time, reply_of
from journal_test import SECTOR

TOKEN_MAX = 2**53 - 1


class KilledServer(FaultCase):
    GRACE = 1.0

    def start_one(self):
        self.holdfast = self.server("--set", f"failover_grace={self.GRACE:.0f}s")
        self.holdfast.json("namespace", "set", "default", "--ttl-min", "100ms", "--lock-delay", "0s")
        self.lost = 0.0

    def kill_at(self, moment):
        """State time stands still from the last batch before it to the first one of the new server."""
        harness.wait_until(lambda: boot_time() >= moment, "the next kill")
        killed = boot_time()
        self.holdfast.restart()
        self.lost += boot_time() - killed + INTERVAL

    def test_three_kills_do_not_shorten_a_lease(self):
        self.start_one()
        ttl, begin = 3.0, boot_time()
        lease = self.holdfast.json("acquire", "a", "--ttl", "3s")
        for moment in (0.5, 1.2, 1.9):
            self.kill_at(begin + moment)
            holder = self.holdfast.json("describe", "a")["holder"]
            self.assertEqual(holder["lease_fp"], lease["lease_fp"])
            self.assertGreaterEqual(holder["lease_left_ms"] / 1000, begin + ttl - boot_time() - 0.001)
        following = self.holdfast.json("acquire", "a", "--wait", "20s")
        lasted = boot_time() - begin
        self.assertTrue(ttl <= lasted <= ttl + self.GRACE + INTERVAL + self.lost + SLACK, (lasted, self.lost))
        self.assertGreater(int(following["fencing_token"]), int(lease["fencing_token"]))

    def test_a_dead_holder_ends_under_a_server_that_keeps_dying(self):
        self.start_one()
        ttl, begin = 2.0, boot_time()
        self.holdfast.json("acquire", "a", "--ttl", "2s")
        kills = 0
        while self.holdfast.run("acquire", "a").code != 0:
            self.kill_at(boot_time() + 0.5)
            kills += 1
            self.assertLessEqual(boot_time() - begin, ttl + self.GRACE + INTERVAL + self.lost + SLACK)
        self.assertGreaterEqual(boot_time() - begin, ttl)
        self.assertGreaterEqual(kills, 3)


class Tokens(FaultCase):
    def setUp(self):
        super().setUp()
        self.highest = 0

    GRACE = ("--set", "failover_grace=500ms")
    SHORT = ("--ttl-default", "1s", "--ttl-max", "1s", "--lock-delay", "0s")

    def start_short(self):
        """Short leases and a short grace, so that the pause after a recovery is short too."""
        self.holdfast = self.server(*self.GRACE)
        self.holdfast.json("namespace", "set", "default", *self.SHORT)

    def grant(self, name, *words):
        granted = self.holdfast.json("acquire", name, *words)
        self.assertGreater(int(granted["fencing_token"]), self.highest)
        self.highest = int(granted["fencing_token"])
        return granted

    def recovered(self, floor):
        """The server is killed, recovered with this floor, and grants nothing for a while."""
        self.holdfast.kill()
        done = harness.run("recover", self.holdfast.data_dir, "--token-floor", str(floor), "-o", "json")
        self.assertEqual(done.code, 0, done)
        self.holdfast.start()
        self.unblocked()

    def unblocked(self):
        self.assertEqual(self.holdfast.json("acquire", "early", code=75)["outcome"], "GRANTS_BLOCKED")
        harness.wait_until(lambda: self.holdfast.json("status")["grants_blocked_for_ms"] == 0, "the pause is over")

    def tear(self):
        """Takes the end from the newest append, a tick, as a crash in the middle of it does."""
        index = self.holdfast.json("status")["index"]
        harness.wait_until(lambda: self.holdfast.json("status")["index"] > index, "a tick")
        self.holdfast.kill()
        listed = harness.run("journal", "inspect", self.holdfast.data_dir, "-o", "json").out.splitlines()
        last = json.loads(listed[-2])
        with open(os.path.join(self.holdfast.data_dir, last["file"]), "r+b") as file:
            file.seek(last["offset"] + 70)
            file.write(bytes(SECTOR - (last["offset"] + 70) % SECTOR))
        self.holdfast.start()
        self.assertIn("cut an append", self.holdfast.logged())

    def test_tokens_never_go_back(self):
        self.start_short()
        for _ in range(3):  # the last key is gone each time
            self.holdfast.json("release", "a", "--lease-id", self.grant("a")["lease_id"])
        for _ in range(2):
            self.holdfast.json("namespace", "create", "n", *self.SHORT)
            lease = self.grant("a", "--namespace", "n")["lease_id"]
            self.holdfast.json("release", "a", "--namespace", "n", "--lease-id", lease)
            self.holdfast.json("namespace", "delete", "n")
        backup = self.path("backup")
        self.assertEqual(harness.run("backup", self.holdfast.data_dir, backup).code, 0)
        self.holdfast.load("--resources", "100000", "--ttl", "1s", duration="300ms")
        self.highest = max(self.highest, int(self.holdfast.json("status")["fencing_token"]))
        self.grant("b")
        self.holdfast.restart()
        self.grant("c")
        self.tear()
        self.grant("d")
        self.holdfast.kill()

        # An old backup does not know how far the tokens were: whoever restores it must say.
        unknown = self.path("unknown")
        self.assertEqual(harness.run("restore", backup, unknown).code, 0)
        refused = self.server(name="unknown", ready=False)
        self.assertEqual(refused.ended(), 77, refused.logged())
        self.assertIn("--token-floor", refused.logged())
        self.assertEqual(harness.run("restore", backup, self.path("new"), "--token-floor", str(self.highest)).code, 0)
        self.holdfast = self.server(*self.GRACE, name="new")
        self.unblocked()
        self.grant("e")

    def test_tokens_beyond_the_numbers_of_other_systems(self):
        self.start_short()
        for floor in (2**31 - 2, 2**32 - 2, TOKEN_MAX - 2):
            self.recovered(floor)
            for following in (1, 2):
                self.grant(f"a/{floor}/{following}")
                self.assertEqual(self.highest, floor + following)
        # There is no token after the last one, so there is no grant either.
        self.assertEqual(self.holdfast.json("acquire", "b", code=75)["outcome"], "STATE_FULL")
        self.holdfast.restart()
        self.assertEqual(self.holdfast.json("acquire", "c", code=75)["outcome"], "STATE_FULL")


class HandOver(FaultCase):
    DELAY = 1.0

    def waiting(self, name="main"):
        other = self.connect(3)
        other.call("HOLDFAST.ACQUIRE", name, "OWNER", "other", "WAIT", 60000, "ASYNC")
        self.wait_queued(name, 1)
        return other

    def test_who_lets_go_is_followed_at_once(self):
        self.start(delay="10s")
        held = self.acquire("a", "TTL", 60000)
        session = self.admin.outcome("HOLDFAST.SESSION.OPEN", "TTL", 60000)["session_id"]
        on_session = self.acquire("b", "SESSION", session)
        for name, token, words in (("a", held["fencing_token"], ("HOLDFAST.RELEASE", "a", held["lease_id"])),
                                   ("b", on_session["fencing_token"], ("HOLDFAST.SESSION.CLOSE", session))):
            other = self.waiting(name)
            begin = boot_time()
            self.admin.outcome(*words)
            grant = other.push()[2]
            self.assertLess(boot_time() - begin, SLACK)
            self.assertEqual(grant["outcome"], "GRANTED")
            self.assertGreater(grant["fencing_token"], token)

    def test_a_killed_leader_is_followed_after_the_delay(self):
        self.start(delay="1s")
        leader, lead = self.elect("--ttl", "1s")
        other = self.waiting()
        leader.send(signal.SIGKILL)
        leader.process.wait()
        end = self.lease_end("main")
        self.assertEqual(self.admin.outcome("HOLDFAST.DESCRIBE", "main")["state"], "TAKEN")
        delayed = harness.wait_until(
            lambda: (seen := self.holdfast.json("describe", "main"))["state"] != "TAKEN" and seen, "its lease is over")
        self.assertEqual(delayed["state"], "IN_DELAY")
        self.assertTrue(0 < delayed["delay_left_ms"] <= self.DELAY * 1000, delayed)
        self.assertEqual(self.holdfast.json("acquire", "main", code=75)["outcome"], "DELAYED")
        grant = other.push()[2]
        granted = boot_time()
        self.assertEqual(grant["outcome"], "GRANTED", grant)
        self.assertTrue(end + self.DELAY <= granted <= end + self.DELAY + INTERVAL + SLACK, (end, granted))
        self.assertGreater(grant["fencing_token"], int(lead["fencing_token"]))
        causes = [row["cause"] for row in self.holdfast.json("describe", "main")["transitions"]]
        self.assertIn("EXPIRED", causes)

    def test_a_break_tells_the_leader_and_waits_for_its_promise(self):
        self.start(delay="1s", words=("--audit-log", self.path("audit")))
        leader, lead = self.elect("--ttl", "3s")
        other, watcher = self.waiting(), self.connect(3)
        watcher.call("HOLDFAST.WATCH", "EXACT", "main")
        begin = boot_time()
        self.holdfast.json("break", "main", "--reason", "maintenance")
        told = watcher.push()[2]
        self.assertEqual((told["kind"], told["reason"]), ("REVOKING", "maintenance"))
        self.assertLess(boot_time() - begin, SLACK)
        line = json.loads(leader.wait_line(lambda line: "REVOKING" in line, "REVOKING"))
        self.assertLess(boot_time() - begin, 1.0 + SLACK)  # its next renewal is refused
        self.assertEqual(line["reason"], "maintenance")
        end = self.lease_end("main")
        lost = json.loads(leader.wait_line(lambda line: "LOST" in line or "RESIGNED" in line, "its end"))
        self.assertLess(boot_time(), end)
        self.assertEqual(leader.wait().code, 76, lost)
        grant = other.push()[2]
        self.assertGreaterEqual(boot_time(), end + self.DELAY)
        self.assertGreater(grant["fencing_token"], int(lead["fencing_token"]))
        with open(self.path("audit"), encoding="utf-8") as file:
            self.assertTrue(any(line.get("verb") == "BREAK" and line.get("reason") == "maintenance"
                                for line in map(json.loads, file)))

    def test_a_break_at_once(self):
        self.start("--protection", "fenced")
        leader, lead = self.elect("--ttl", "3s")
        other = self.waiting()
        begin = boot_time()
        self.holdfast.json("break", "main", "--reason", "now", "--now")
        self.assertGreater(other.push()[2]["fencing_token"], int(lead["fencing_token"]))
        self.assertLess(boot_time() - begin, SLACK)
        leader.wait_line(lambda line: "LOST" in line, "LOST")
        self.assertLess(boot_time() - begin, 1.0 + SLACK)  # its next renewal is refused


class MassExpiry(FaultCase):
    COUNT = 20000

    def test_many_leases_that_end_at_once(self):
        self.start()
        before = self.sockets()
        live = self.acquire("live", "TTL", 60000)
        filler = self.connect()
        for begin in range(0, self.COUNT, 1000):
            sent = boot_time()
            for i in range(begin, begin + 1000):
                filler.send("HOLDFAST.ACQUIRE", f"m/{i}", "TTL", 3000)
            for _ in range(1000):
                self.assertEqual(reply_of(filler)["outcome"], "GRANTED")
        end = boot_time() + 3.0
        self.assertGreater(self.holdfast.json("status")["holds"], 0)
        slowest = 0.0
        while self.holdfast.json("status")["holds"] > 1:
            begin = boot_time()
            pair = self.acquire("pair")
            self.admin.outcome("HOLDFAST.RELEASE", "pair", pair["lease_id"])
            slowest = max(slowest, boot_time() - begin)
            self.assertEqual(self.admin.outcome("HOLDFAST.RENEW", "live", live["lease_id"])["outcome"], "RENEWED")
            self.assertLess(begin, end + INTERVAL + SLACK, "they are not over")
        self.assertGreater(boot_time(), sent + 3.0)
        self.assertLess(slowest, 1.0)
        self.assertEqual(self.holdfast.json("status")["expiry_lag_ms"], 0)
        self.acquire(f"m/{self.COUNT - 1}")
        filler.close()
        harness.wait_until(lambda: self.sockets() <= before + 1, "no connection is left")

    def sockets(self):
        folder = f"/proc/{self.holdfast.process.pid}/fd"
        return sum(os.readlink(os.path.join(folder, name)).startswith("socket:") for name in os.listdir(folder))


if __name__ == "__main__":
    harness.main()
