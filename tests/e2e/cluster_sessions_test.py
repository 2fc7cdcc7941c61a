"""20,000 sessions of the client library: all reconnect after a failover, and all are closed and
opened again (a mass redeployment) while two standbys are behind. Nothing expires, nothing storms.
"""

import json
import os
import signal
import subprocess
import threading
import time
import unittest

import harness
from cluster import Cluster

SESSIONS, CLIENTS, TTL_MS = 20_000, 40, 30_000
P99_MS = 5_000          # of an attempt, in the worst ten seconds, on two cores for everything
MEMORY_MB = 400         # of a node, above what it had without sessions
ATTEMPTS_EACH = 3       # of a session in the ten seconds around a failover


def resident_mb(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class Herd:
    def __init__(self, cluster):
        program = os.path.join(os.path.dirname(harness.BINARY), "session_herd")
        self.process = subprocess.Popen(
            [program, cluster.endpoints, str(SESSIONS), str(CLIENTS), str(TTL_MS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._expect("open")

    def _expect(self, line):
        got = self.process.stdout.readline().strip()
        if got != line:
            raise AssertionError(f"the herd says {got!r}, expected {line!r}")

    def _tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def report(self):
        self._tell("report")
        return json.loads(self.process.stdout.readline())

    def reopen(self, seconds):
        self._tell(f"reopen {int(seconds * 1000)}")
        self._expect("reopened")

    def close(self):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class SessionsTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.close)
        self.cluster.json("namespace", "set", "default", "--sessions-per-tenant", "100000",
                          "--request-bytes-per-tenant", str(1 << 30))
        self.memory = [resident_mb(node.process.pid) for node in self.cluster.nodes]
        self.herd = Herd(self.cluster)
        self.addCleanup(self.herd.close)

    def all_safe(self, what, reports):
        def safe():
            reports.append(self.herd.report())
            return reports[-1]["safe"] == SESSIONS
        try:
            harness.wait_until(safe, what, 90)
        except AssertionError as error:
            raise AssertionError(f"{error}: {reports[-3:]}\n{self.cluster.logged()}") from None

    def check(self, reports):
        self.assertEqual(0, reports[-1]["expired"], reports)
        self.assertEqual(0, reports[-1]["not_opened"], reports)
        self.assertEqual(0, reports[-1]["jeopardy"], reports)
        self.assertLess(max(report["p99_ms"] for report in reports), P99_MS, reports)
        for number, node in enumerate(self.cluster.nodes):
            if node.process.poll() is None:
                grown = resident_mb(node.process.pid) - self.memory[number]
                self.assertLess(grown, MEMORY_MB, f"node {number}")

    def watch(self, seconds):
        """One report for each ten seconds."""
        reports = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            threading.Event().wait(10)  # the interval that is reported
            reports.append(self.herd.report())
        return reports

    def test_all_sessions_reconnect_after_a_failover_and_none_expires(self):
        self.herd.report()
        dead = self.cluster.leader()
        self.cluster.nodes[dead].kill()
        reports = self.watch(TTL_MS / 1000 + 10)  # whoever was not kept would have expired
        self.all_safe("all sessions are safe", reports)
        print(json.dumps(reports))
        self.check(reports)
        storm = max(report["answered"] + report["failed"] for report in reports)
        self.assertLess(storm, ATTEMPTS_EACH * SESSIONS, reports)

    def test_a_mass_redeployment_while_two_standbys_are_behind(self):
        leader = self.cluster.leader()
        behind = [node.process for number, node in enumerate(self.cluster.nodes) if number != leader]
        for process in behind:
            process.send_signal(signal.SIGSTOP)
        try:
            self.herd.report()
            self.herd.reopen(25)
        finally:
            for process in behind:
                process.send_signal(signal.SIGCONT)
        reports = []
        self.all_safe("the new sessions are safe", reports)
        reports += self.watch(TTL_MS / 1000 + 10)
        print(json.dumps(reports))
        self.check(reports)
        status = self.cluster.status(self.cluster.leader())
        harness.wait_until(lambda: int(self.cluster.status(self.cluster.leader())["sessions"]) == SESSIONS,
                           f"the old sessions are closed: {status['sessions']}")


if __name__ == "__main__":
    harness.main()
