"""Nodes of a replicated cluster that are slow, stand still, die and come back."""

import signal
import threading
import time

import harness
from cluster_case import REFUSED_OR_UNKNOWN, ClusterCase
from slow_disk import SlowDisk

FSYNC = 5.0      # seconds
STALL_MAX = 4.0  # seconds until a grant, usually milliseconds; below FSYNC


class SlowNode(ClusterCase):
    WORDS = ("--set", "snapshot_bytes=1MiB")

    def test_a_disk_of_the_nodes_that_takes_5_s_to_sync_holds_up_nobody(self):
        """Nodes sync snapshots only: no answer waits for a node's disk."""
        leader = self.cluster.wait_leader()
        disks = []
        for node in self.nodes:
            disks.append(SlowDisk(node.process.pid, FSYNC))
            self.addCleanup(disks[-1].end)

        def snapshot():
            self.nodes[leader].load("--mode", "shared", "--concurrency", "128", duration="500ms")
            return any(disk.delayed() for disk in disks)
        harness.wait_until(snapshot, "a snapshot is synced", 60)
        begun, worst, number = time.monotonic(), 0.0, 0
        while time.monotonic() < begun + FSYNC:
            asked = time.monotonic()
            self.nodes[number % 3].json("acquire", f"meanwhile/{number}", "--ttl", "100s")
            worst = max(worst, time.monotonic() - asked)
            number += 1
        self.assertLess(worst, STALL_MAX)
        self.assertEqual(leader, self.cluster.leader())


class PausedLeader(ClusterCase):
    def test_what_waited_at_a_paused_leader_changes_nothing_and_reads_nothing_old(self):
        """Its sockets are full of requests when it thaws, and others have led meanwhile."""
        held = self.cluster.json("acquire", "held", "--ttl", "100s", "--owner", "first")
        leader = self.cluster.wait_leader()
        other = self.nodes[self.others(leader)[0]]
        process = self.nodes[leader].process
        process.send_signal(signal.SIGSTOP)
        self.addCleanup(process.send_signal, signal.SIGCONT)
        patience = ("--timeout", "60s", "-o", "json")
        looks = [self.background(leader, "describe", "held", *patience) for _ in range(3)]
        grants = [self.background(leader, "acquire", f"queued/{i}", "--ttl", "100s", "--request-id", f"r-{i}",
                                  *patience) for i in range(3)]
        late = self.background(leader, "release", "held", "--lease-id", held["lease_id"], *patience)
        self.wait_served(*self.others(leader))
        other.json("release", "held", "--lease-id", held["lease_id"])
        second = other.json("acquire", "held", "--ttl", "100s", "--owner", "second")
        self.assertGreater(self.token(second), self.token(held))
        process.send_signal(signal.SIGCONT)
        self.wait_role(leader, "standby")
        for look in looks:
            answer = look.wait(60)
            self.assertIn(answer.code, (0, *REFUSED_OR_UNKNOWN), answer)
            if answer.code == 0:
                self.assertEqual("second", answer.json["holder"]["owner"])
        late.wait(60)
        self.assertEqual(second["fencing_token"], other.json("describe", "held")["holder"]["fencing_token"])
        for i, grant in enumerate(grants):
            answer = grant.wait(60)
            self.assertIn(answer.code, (0, *REFUSED_OR_UNKNOWN), answer)
            self.assert_one_effect(f"queued/{i}", f"r-{i}", answer.json if answer.code == 0 else None)
        self.assert_log_is_sound()


class LateNode(ClusterCase):
    WORDS = ("--set", "snapshot_bytes=1MiB")
    DELAY = 0.2     # seconds each way, so that a snapshot takes long enough to lose its source
    BEGUN = 50_000  # bytes of one, which is some 500,000

    def setUp(self):
        super().setUp()
        self.stop = threading.Event()

    def load(self):
        while not self.stop.is_set():
            number = self.cluster.leader()
            if number is not None:
                self.nodes[number].run("bench", "locks", "--mode", "shared", "--concurrency", "64", "--warm-up",
                                       "10ms", "--duration", "1s", "--quiet", "-o", "json")

    def test_a_late_node_gets_a_snapshot_though_its_source_dies_and_the_log_is_written_and_trimmed(self):
        first = self.cluster.wait_leader()
        late, source = self.others(first)
        self.nodes[late].kill()
        self.cluster.json("namespace", "create", "kept", "--ttl-default", "30m", "--ttl-max", "30m")
        held = self.cluster.json("acquire", "held", "--namespace", "kept", "--owner", "me")
        loading = threading.Thread(target=self.load)
        loading.start()
        try:
            harness.wait_until(lambda: int((self.cluster.status(first) or {"journal_first_index": 0})[
                "journal_first_index"]) > 1, f"the log is trimmed\n{self.cluster.logged()}", 60)
            ways = [self.cluster.peer_links[late][number] for number in (first, source)]
            for way in ways:
                self.links.slow(way, self.DELAY)
            self.nodes[late].start(ready=False)
            begun = harness.wait_until(lambda: [way for way in ways if way.delayed > self.BEGUN],
                                       "a snapshot is on its way", 60)[0]
            dead = (first, source)[ways.index(begun)]
            self.nodes[dead].kill()
            for way in ways:
                self.links.heal(way)
            self.wait_role(late, "standby")
        finally:
            self.stop.set()
            loading.join()
        self.assertIn("snapshot received", self.nodes[late].logged())
        self.nodes[dead].start()
        self.wait_role(dead, "standby")
        for number in self.others(late):
            self.nodes[number].kill()
        self.wait_served(late)
        described = self.nodes[late].json("describe", "held", "--namespace", "kept")
        self.assertEqual(("me", held["fencing_token"]),
                         (described["holder"]["owner"], described["holder"]["fencing_token"]))
        self.assert_log_is_sound()


class Failovers(ClusterCase):
    def kill_leader(self):
        number = self.cluster.wait_leader()
        self.nodes[number].kill()
        self.cluster.wait_leader()
        self.nodes[number].start()

    def test_three_failovers_do_not_shorten_a_lease_and_it_ends_all_the_same(self):
        """The holder is dead. `remaining` is never below the truth."""
        ttl, begun = 12.0, time.monotonic()
        held = self.cluster.json("acquire", "held", "--ttl", f"{ttl:.0f}s", "--owner", "dead")
        self.cluster.json("namespace", "set", "default", "--lock-delay", "0s")
        for _ in range(3):
            self.kill_leader()
            asked = time.monotonic()
            described = self.cluster.json("describe", "held")
            if asked < begun + ttl:
                left = described["holder"]["lease_left_ms"] / 1000
                self.assertGreaterEqual(left, begun + ttl - time.monotonic())
        granted = harness.wait_until(lambda: self.granted("held", "next"), "the lease ends", 120)
        self.assertGreaterEqual(time.monotonic() - begun, ttl)
        self.assertGreater(self.token(granted), self.token(held))

    def test_a_lease_ends_under_leaders_that_keep_dying(self):
        ttl, begun = 4.0, time.monotonic()
        self.cluster.json("namespace", "set", "default", "--lock-delay", "0s", "--ttl-min", "1s")
        held = self.cluster.json("acquire", "held", "--ttl", f"{ttl:.0f}s", "--owner", "dead")
        kills = 0
        while (granted := self.granted("held", "next")) is None:
            self.kill_leader()
            kills += 1
            self.assertLess(time.monotonic() - begun, 120, "each failover makes it longer")
        self.assertGreaterEqual(time.monotonic() - begun, ttl)
        self.assertGreaterEqual(kills, 1)
        self.assertGreater(self.token(granted), self.token(held))

    def granted(self, name, owner):
        answer = self.cluster.run("acquire", name, "--owner", owner, "--ttl", "100s", "--timeout", "5s", "-o", "json")
        return answer.json if answer.code == 0 else None

    def test_tokens_rise_over_failovers_and_a_restart_of_every_node(self):
        tokens = []

        def grant():
            harness.wait_until(lambda: tokens.append(self.token(granted)) or True if (
                granted := self.granted(f"rise/{len(tokens)}", "me")) else False, "a grant")
        for _ in range(3):
            grant()
            self.kill_leader()
        grant()
        for node in self.nodes:
            node.kill()
        for node in self.nodes:
            node.start(ready=False)
        self.cluster.wait_leader()
        grant()
        self.assertEqual(sorted(set(tokens)), tokens)


if __name__ == "__main__":
    harness.main()
