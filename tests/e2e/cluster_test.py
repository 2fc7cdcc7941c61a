"""A replicated cluster on real processes: three etcd members, three nodes."""

import os
import signal
import time
import unittest

import harness
from cluster import Cluster


class ClusterTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.close)

    def token(self, granted):
        return int(granted["fencing_token"])

    def test_any_node_answers_any_client(self):
        tokens = []
        for number, node in enumerate(self.cluster.nodes):
            granted = node.json("acquire", f"lock/{number}")
            tokens.append(self.token(granted))
            for other in self.cluster.nodes:
                self.assertEqual("TAKEN", other.json("describe", f"lock/{number}")["state"])
            self.assertTrue(self.cluster.nodes[(number + 1) % 3].json(
                "release", f"lock/{number}", "--lease-id", granted["lease_id"])["released"])
        self.assertEqual(sorted(set(tokens)), tokens)

    def test_a_watch_on_a_standby_sees_what_is_done_elsewhere(self):
        leader = self.cluster.leader()
        standby = self.cluster.nodes[(leader + 1) % 3]
        watch = standby.background("watch", "seen/", "-o", "json")
        self.addCleanup(watch.close)
        # The watch has no line that says that it has begun.
        harness.wait_until(
            lambda: self.cluster.nodes[leader].run("acquire", f"seen/{time.monotonic_ns()}").code == 0
            and any("GRANTED" in line for line in watch.lines), "an event")

    def test_the_death_of_the_leader_loses_nothing(self):
        held = self.cluster.json("acquire", "held", "--ttl", "60s", "--request-id", "r-1")
        dead = self.cluster.leader()
        gap = self.cluster.gap(self.cluster.nodes[dead].kill)
        self.assertLess(gap, 5, "usually below 1 s; the rest is a loaded machine")
        again = self.cluster.json("acquire", "held", "--ttl", "60s", "--request-id", "r-1")
        self.assertEqual(held["lease_id"], again["lease_id"])
        self.assertEqual("HELD", self.cluster.json("acquire", "held", code=75)["outcome"])
        self.assertEqual("RENEWED", self.cluster.json(
            "renew", "held", "--lease-id", held["lease_id"])["outcome"])
        self.assertGreater(self.token(self.cluster.json("acquire", "new")), self.token(held))
        self.cluster.nodes[dead].start()
        harness.wait_until(lambda: (self.cluster.status(dead) or {}).get("role") == "standby",
                           "the dead node follows")

    def test_a_frozen_leader_is_replaced_and_follows_when_it_thaws(self):
        frozen = self.cluster.leader()
        process = self.cluster.nodes[frozen].process
        others = [node for number, node in enumerate(self.cluster.nodes) if number != frozen]
        process.send_signal(signal.SIGSTOP)
        try:
            harness.wait_until(lambda: others[0].run("acquire", "meanwhile", "--timeout", "1s").code == 0,
                               "another leader")
            before = self.token(others[1].json("acquire", "one"))
        finally:
            process.send_signal(signal.SIGCONT)
        harness.wait_until(lambda: (self.cluster.status(frozen) or {}).get("role") == "standby",
                           "the thawed node follows")
        self.assertGreater(self.token(self.cluster.nodes[frozen].json("acquire", "two")), before)
        self.assertEqual("TAKEN", self.cluster.nodes[frozen].json("describe", "one")["state"])

    def test_sigterm_hands_over_at_once(self):
        leader = self.cluster.leader()
        node = self.cluster.nodes[leader]

        def stop():
            node.process.send_signal(signal.SIGTERM)
            node.process.wait(timeout=harness.DEADLINE)
        gap = self.cluster.gap(stop)
        self.assertLess(gap, 2)
        self.assertEqual(0, node.process.returncode)
        self.assertIn("hands over", node.logged())
        self.assertNotIn("is silent", self.cluster.logged(), "no detector was needed")

    def test_every_node_stops_in_good_order(self):
        for node in self.cluster.nodes:
            node.json("acquire", f"stop-{node.port}")  # over the links between them
        for node in self.cluster.nodes:
            self.assertEqual(0, node.stop())

    def test_waiters_keep_their_place_over_a_failover(self):
        held = self.cluster.json("acquire", "queue", "--ttl", "60s")
        waiters = []
        for number in range(3):
            waiter = harness.Background(
                ["acquire", "queue", "--wait", "60s", "--owner", f"w{number}", "-o", "json",
                 "--endpoints", self.cluster.endpoints])
            self.addCleanup(waiter.close)
            waiters.append(waiter)
            harness.wait_until(lambda n=number: len(
                self.cluster.json("describe", "queue")["queue"]) == n + 1, "one more waits")
        self.cluster.nodes[self.cluster.leader()].kill()
        harness.wait_until(
            lambda: [w["owner"] for w in self.cluster.json("describe", "queue")["queue"]
                     if not w["detached"]] == ["w0", "w1", "w2"], "all wait again, in order")
        self.cluster.json("release", "queue", "--lease-id", held["lease_id"])
        self.assertEqual("GRANTED", waiters[0].wait().json["outcome"])

    def test_an_etcd_election_costs_nobody_anything(self):
        held = self.cluster.json("acquire", "held", "--ttl", "60s")
        epoch = int(self.cluster.status(self.cluster.leader())["epoch"])
        gap = self.cluster.gap(lambda: self.cluster.etcd.kill(self.cluster.etcd.leader()))
        self.assertLess(gap, 10)
        self.assertEqual("RENEWED", self.cluster.json(
            "renew", "held", "--lease-id", held["lease_id"])["outcome"])
        status = self.cluster.status(self.cluster.wait_leader())
        self.assertLessEqual(int(status["epoch"]), epoch + 1)

    def test_without_a_majority_of_etcd_it_refuses_and_comes_back(self):
        held = self.cluster.json("acquire", "held", "--ttl", "60s")
        for number in (0, 1):
            self.cluster.etcd.kill(number)
        answer = self.cluster.run("acquire", "other", "--timeout", "4s")
        self.assertIn(answer.code, (69, 74), "unavailable, or unknown")
        for number in (0, 1):
            self.cluster.etcd.start(number)
        harness.wait_until(lambda: self.cluster.run("acquire", "other", "--timeout", "2s").code == 0
                           or self.cluster.run("acquire", "another", "--timeout", "2s").code == 0,
                           "it serves again")
        self.assertEqual("RENEWED", self.cluster.json(
            "renew", "held", "--lease-id", held["lease_id"])["outcome"])

    def test_a_second_node_of_the_same_directory_is_refused(self):
        node = self.cluster.nodes[0]
        answer = harness.run("server", "--data-dir", node.data_dir, "--listen", "127.0.0.1:0",
                             "--etcd", self.cluster.etcd.clients[0], "--node", "x",
                             "--node-listen", f"127.0.0.1:{harness.free_port()}")
        self.assertEqual(69, answer.code)
        self.assertIn("in use", answer.err)

    def test_a_directory_of_another_log_is_refused(self):
        node = self.cluster.nodes[0]
        node.kill()
        with open(os.path.join(node.data_dir, "log-id"), "w", encoding="ascii") as file:
            file.write("00" * 15 + "01")
        node.start()
        harness.wait_until(lambda: (self.cluster.status(0) or {}).get("role") == "failed", "it stops")
        self.assertIn("another log", node.logged())

    def test_the_demonstration_runs_against_a_cluster(self):
        answer = self.cluster.run("demo", timeout=120)
        self.assertEqual(0, answer.code, answer)


if __name__ == "__main__":
    harness.main()
