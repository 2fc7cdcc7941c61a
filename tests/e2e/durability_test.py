"""What was answered is there after kill -9, tokens go on rising, and no lease ends early."""

import signal
import threading
import time

import harness

ROUNDS = 3
WORKERS = 4
ACKNOWLEDGED_MIN = 60  # operations of one round, before the server is killed


class Worker(threading.Thread):
    """Acquires, renews and releases until the server is gone, and notes what was answered."""

    def __init__(self, holdfast, prefix):
        super().__init__(daemon=True)
        self.holdfast, self.prefix = holdfast, prefix
        self.stop = threading.Event()
        self.held, self.renewed, self.released, self.tokens = {}, set(), set(), []
        self.acknowledged = 0

    def ask(self, *words):
        answer = self.holdfast.run(*words, "-o", "json", "--timeout", "500ms")
        if answer.code not in (0, 69, 74):
            raise AssertionError(f"{words}: {answer}")
        self.acknowledged += answer.code == 0
        return answer.json if answer.code == 0 else None

    def run(self):
        number = 0
        while not self.stop.is_set():
            number += 1
            name = f"{self.prefix}/{number}"
            grant = self.ask("acquire", name, "--ttl", "10m", "--request-id", name)
            if grant is None:
                continue
            self.held[name] = grant
            self.tokens.append(int(grant["fencing_token"]))
            if number % 3 == 0 and self.ask("renew", name, "--lease-id", grant["lease_id"]):
                self.renewed.add(name)
            if number % 3 == 1:
                del self.held[name]  # from now on the outcome may be unknown
                if self.ask("release", name, "--lease-id", grant["lease_id"]):
                    self.released.add(name)


class Durability(harness.TestCase):
    def test_kill_9_loses_nothing_that_was_answered(self):
        holdfast = self.server("--set", "segment_bytes=64KiB")
        highest = 0
        for number in range(ROUNDS):
            workers = [Worker(holdfast, f"round{number}/{i}") for i in range(WORKERS)]
            for worker in workers:
                worker.start()
            harness.wait_until(lambda: sum(w.acknowledged for w in workers) >= ACKNOWLEDGED_MIN,
                               "enough answered operations")
            holdfast.kill()
            for worker in workers:
                worker.stop.set()
            for worker in workers:
                worker.join(harness.DEADLINE)
            holdfast.start()
            tokens = sorted(token for worker in workers for token in worker.tokens)
            self.assertEqual(len(tokens), len(set(tokens)))
            self.assertGreater(tokens[0], highest)
            highest = self.check_all(holdfast, workers, tokens[-1])

    def check_all(self, holdfast, workers, newest):
        rows = {row["resource"]: row for row in holdfast.json("list", "--limit", "0")["resources"]}
        for worker in workers:
            for name, grant in worker.held.items():
                row = rows[name]
                self.assertEqual((row["state"], row["lease_fp"], row["fencing_token"]),
                                 ("TAKEN", grant["lease_fp"], grant["fencing_token"]))
                self.assertGreater(row["lease_left_ms"], 500_000)  # nothing ended early
            for name in worker.released:
                self.assertNotIn(name, rows)  # free
            name, grant = next(iter(worker.held.items()))
            again = holdfast.json("acquire", name, "--ttl", "10m", "--request-id", name)
            self.assertEqual(again["lease_id"], grant["lease_id"])
            holdfast.json("renew", name, "--lease-id", grant["lease_id"])
        probe = holdfast.json("acquire", f"probe/{newest}")
        self.assertGreater(int(probe["fencing_token"]), newest)
        return int(probe["fencing_token"])

    def test_a_lease_lives_its_time_over_restarts(self):
        holdfast = self.server()
        begin = time.monotonic()
        lease = holdfast.json("acquire", "a", "--ttl", "4s")
        session = holdfast.json("session", "open", "--ttl", "20s")["session_id"]
        on_session = holdfast.json("acquire", "b", "--session", session)
        for _ in range(2):
            holdfast.restart()
        holder = holdfast.json("describe", "a")["holder"]
        self.assertEqual(holder["lease_fp"], lease["lease_fp"])
        holdfast.json("namespace", "set", "default", "--lock-delay", "0s")
        next_one = holdfast.json("acquire", "a", "--wait", "20s")
        self.assertGreaterEqual(time.monotonic() - begin, 4.0)
        self.assertGreater(int(next_one["fencing_token"]), int(on_session["fencing_token"]))
        self.assertIs(holdfast.json("session", "describe", session)["alive"], True)
        self.assertEqual(holdfast.json("describe", "b")["holder"]["lease_fp"], on_session["lease_fp"])

    def test_a_waiter_comes_back_to_its_place(self):
        holdfast = self.server()
        lease = holdfast.json("acquire", "a", "--ttl", "1m")
        waiters = []
        for place in range(2):
            waiters.append(self.background(holdfast, "acquire", "a", "--wait", "1m", "--owner",
                                           f"w{place}", "-o", "json"))
            harness.wait_until(lambda: holdfast.json("status")["waiters"] == len(waiters), "a waiter")
        holdfast.restart()
        harness.wait_until(
            lambda: [(w["owner"], w["detached"]) for w in holdfast.json("describe", "a")["queue"]]
            == [("w0", False), ("w1", False)], "both are attached again, in order")
        holdfast.json("release", "a", "--lease-id", lease["lease_id"])
        first = waiters[0].wait()
        self.assertEqual((first.code, first.json["outcome"]), (0, "GRANTED"), first)

    def test_snapshots_and_trimming_lose_nothing(self):
        holdfast = self.server("--set", "segment_bytes=64KiB", "--set", "snapshot_bytes=1MiB")
        grant = holdfast.json("acquire", "kept", "--ttl", "10m", "--request-id", "kept")
        value = "v" * 1000
        lead = holdfast.json("acquire", "election", "--ttl", "10m")
        harness.wait_until(
            lambda: holdfast.json("proclaim", "election", "--lease-id", lead["lease_id"], "--value",
                                  value) and holdfast.load("--mode", "shared", "--request-ids", "remembered") and
            holdfast.json("status")["journal_first_index"] > 1, "the log is trimmed", 60)
        holdfast.restart()
        again = holdfast.json("acquire", "kept", "--ttl", "10m", "--request-id", "kept")
        self.assertEqual(again["lease_id"], grant["lease_id"])
        self.assertGreater(holdfast.json("status")["snapshot_index"], 1)
        self.assertEqual(harness.run("journal", "verify", holdfast.data_dir).code, 0)

    def test_sigterm_is_graceful(self):
        holdfast = self.server()
        lease = holdfast.json("acquire", "a", "--ttl", "1m")
        waiter = self.background(holdfast, "acquire", "a", "--wait", "1m", "--timeout", "1s", "-o", "json")
        harness.wait_until(lambda: holdfast.json("status")["waiters"] == 1, "a waiter")
        self.assertEqual(holdfast.stop(), 0, holdfast.logged())
        self.assertEqual(harness.run("journal", "verify", holdfast.data_dir).code, 0)
        holdfast.start()
        self.assertEqual(holdfast.json("describe", "a")["holder"]["lease_fp"], lease["lease_fp"])
        waiter.send(signal.SIGKILL)


if __name__ == "__main__":
    harness.main()
