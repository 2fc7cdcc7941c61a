"""The Python and the Node example against the built server."""

import os
import re
import signal
import subprocess
import threading
import time

import harness
import node
from proxy import Proxy

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROTO = os.path.join(REPOSITORY, "proto")
EXAMPLES = os.path.join(REPOSITORY, "examples")
TTL = 2


class Worker:
    """A worker of an example. Its lines, each with the time on the boot clock at which it was read."""

    def __init__(self, command, env):
        self.lines = []
        self.process = subprocess.Popen(command, env={**harness.clean_environment(), **env}, text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append((time.clock_gettime(time.CLOCK_BOOTTIME), line.rstrip("\n")))

    def wait_line(self, start):
        """(time, words) of the first line that begins so."""
        def found():
            for at, line in list(self.lines):
                if line.startswith(start):
                    return at, line.split()
            if self.process.poll() is not None and not self.reader.is_alive():
                raise AssertionError(f"it ended without {start}: {self.lines}")
            return None
        return harness.wait_until(found, f"{start} of {self.lines}")

    def token(self):
        return int(self.wait_line("GRANTED")[1][1])

    def wait(self):
        code = self.process.wait(timeout=harness.DEADLINE)
        self.reader.join()
        return code

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()


class Python:
    @classmethod
    def prepare(cls):
        folder = os.path.join(os.path.dirname(harness.BINARY), "python_example")
        done = subprocess.run([os.path.join(EXAMPLES, "python/generate.sh"), PROTO, folder], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stdout)
        cls.env = {"HOLDFAST_GENERATED": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        # Debian's Python is the one that has Debian's gRPC.
        cls.command = ["/usr/bin/python3", os.path.join(EXAMPLES, "python/worker.py")]


class Node:
    @classmethod
    def prepare(cls):
        cls.env = {}
        cls.command = ["node", os.path.join(node.install(os.path.join(EXAMPLES, "node")), "worker.mjs"),
                       "--proto", PROTO]


class ExampleTest(harness.TestCase):
    example = None

    @classmethod
    def setUpClass(cls):
        if cls is ExampleTest:
            cls.skipTest(cls, "the tests of both examples")
        cls.example.prepare()

    def setUp(self):
        super().setUp()
        self.holdfast = self.server()
        self.holdfast.json("namespace", "create", "jobs", "--protection", "fenced")
        self.store = self.path("store")

    def worker(self, *words, endpoint=None):
        command = [*self.example.command, "orders/7", self.store, "--namespace", "jobs", "--endpoint",
                   endpoint or self.holdfast.address, "--ttl", str(TTL), "--interval", "0.05", *words]
        worker = Worker(command, self.example.env)
        self.addCleanup(worker.close)
        return worker

    def stored(self):
        """(token, text) as the layout of the store says."""
        name = max(name for name in os.listdir(self.store) if name.isdigit())
        with open(os.path.join(self.store, name), encoding="utf-8") as file:
            return int(name), file.read()

    def describe(self):
        return self.holdfast.json("describe", "orders/7", "--namespace", "jobs")


class Both:
    def test_it_writes_and_gives_back(self):
        first = self.worker("--writes", "3", "--owner", "first")
        self.assertEqual(first.wait(), 0, first.lines)
        self.assertEqual(first.lines[-1][1], f"RELEASED {first.token()}")
        self.assertEqual(self.stored(), (first.token(), "first 3"))
        self.assertEqual(self.describe()["state"], "FREE")

    def test_a_held_lock_is_refused(self):
        first, second = self.worker(), None
        first.wait_line("WROTE")
        second = self.worker()
        self.assertEqual(second.wait(), 75)
        self.assertEqual(second.lines[0][1], "REFUSED HELD")

    def test_it_renews_and_stops_when_asked(self):
        first = self.worker("--owner", "first")
        token = first.token()
        harness.wait_until(lambda: self.describe()["holder"]["held_for_ms"] > 2 * TTL * 1000, "two ttl are over")
        self.assertEqual(int(self.describe()["holder"]["fencing_token"]), token)
        first.process.send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(), 0, first.lines)
        self.assertEqual(first.lines[-1][1], f"RELEASED {token}")

    def test_a_lost_connection_stops_it_before_the_next_grant(self):
        proxy = Proxy(self.holdfast.port)
        self.addCleanup(proxy.close)
        first = self.worker("--owner", "first", endpoint=proxy.address)
        first.wait_line("WROTE")
        second = self.worker("--owner", "second", "--wait", "30", "--writes", "1")
        harness.wait_until(lambda: self.describe()["queue_length"] == 1, "the second one waits")
        proxy.cut()
        lost = float(first.wait_line("LOST")[1][2])
        granted, _ = second.wait_line("GRANTED")
        self.assertLess(lost, granted)
        self.assertEqual(first.wait(), 76, first.lines)
        self.assertEqual(second.wait(), 0, second.lines)
        self.assertEqual(self.stored(), (second.token(), "second 1"))

    def test_the_deadline_counts_from_the_sending(self):
        """Answers that are long on their way prove less: counted from their arrival it would be too late."""
        proxy = Proxy(self.holdfast.port)
        self.addCleanup(proxy.close)
        first = self.worker("--owner", "first", "--ttl", "3", endpoint=proxy.address)
        first.wait_line("WROTE")
        proxy.delay = 0.6
        second = self.worker("--owner", "second", "--wait", "30", "--writes", "1")
        harness.wait_until(lambda: self.describe()["holder"]["held_for_ms"] > 2 * TTL * 1000, "slow renewals")
        renewed = self.describe()["holder"]["lease_left_ms"]
        harness.wait_until(lambda: self.describe()["holder"]["lease_left_ms"] > renewed, "one more renewal")
        at = time.clock_gettime(time.CLOCK_BOOTTIME)
        harness.wait_until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > at + proxy.delay, "its answer")
        proxy.cut()
        lost = float(first.wait_line("LOST")[1][2])
        granted, _ = second.wait_line("GRANTED")
        self.assertLess(lost, granted)
        self.assertEqual(first.wait(), 76, first.lines)

    def test_a_paused_worker_is_fenced_off(self):
        first = self.worker("--owner", "first")
        first.wait_line("WROTE")
        first.process.send_signal(signal.SIGSTOP)
        second = self.worker("--owner", "second", "--wait", "30", "--writes", "1")
        self.assertEqual(second.wait(), 0, second.lines)
        first.process.send_signal(signal.SIGCONT)
        self.assertEqual(first.wait(), 76, first.lines)
        self.assertEqual(first.lines[-2][1].split()[:2], ["LOST", str(first.token())])
        self.assertEqual(first.lines[-1][1], f"LATE WRITE REFUSED: token {first.token()}, the store has seen "
                         f"{second.token()}")
        self.assertEqual(self.stored(), (second.token(), "second 1"))

    def test_a_break_ends_it(self):
        first = self.worker("--owner", "first")
        first.wait_line("WROTE")
        answer = self.holdfast.json("break", "orders/7", "--namespace", "jobs", "--reason", "why")
        self.assertEqual(answer["outcome"], "REVOKING_STARTED")
        self.assertEqual(first.wait(), 76, first.lines)
        self.assertIn(f"LOST {first.token()}", first.lines[-2][1])
        harness.wait_until(lambda: self.describe()["state"] == "FREE", "the lease ends")

    def test_without_a_service(self):
        self.holdfast.kill()
        first = self.worker()
        self.assertEqual(first.wait(), 69, first.lines)
        self.assertIn("NO ANSWER", first.lines[-1][1])

    def test_a_release_without_an_answer_is_not_claimed(self):
        proxy = Proxy(self.holdfast.port)
        self.addCleanup(proxy.close)
        first = self.worker("--ttl", "3", endpoint=proxy.address)
        first.wait_line("WROTE")
        proxy.cut()
        first.process.send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(), 0, first.lines)
        self.assertEqual(first.lines[-1][1], f"NOT RELEASED {first.token()}")

    def test_it_asks_again_while_the_service_restarts(self):
        first = self.worker("--owner", "first", "--ttl", "20")
        first.wait_line("WROTE")
        self.holdfast.kill()
        late = self.worker("--owner", "second", "--ttl", "20")
        self.holdfast.start()
        self.assertEqual(late.wait(), 75, late.lines)
        first.process.send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(), 0, first.lines)


class PythonExample(Both, ExampleTest):
    example = Python


class NodeExample(Both, ExampleTest):
    example = Node

    def test_the_lock_file_names_no_registry(self):
        for folder, _, files in os.walk(REPOSITORY):
            if re.search(r"/(build|node_modules|\.git)(/|$)", folder[len(REPOSITORY):]):
                continue
            if "package-lock.json" in files:
                with open(os.path.join(folder, "package-lock.json"), encoding="utf-8") as file:
                    self.assertNotIn('"resolved"', file.read(), folder)


if __name__ == "__main__":
    harness.main()
