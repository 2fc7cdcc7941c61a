"""Trimming of a replicated log, and a node that comes back behind it."""

import unittest

import harness
from cluster import Cluster


class TrimTest(unittest.TestCase):
    def test_the_log_is_trimmed_and_a_late_node_gets_a_snapshot(self):
        cluster = Cluster("--set", "snapshot_bytes=1MiB")
        self.addCleanup(cluster.close)
        late = (cluster.leader() + 1) % 3
        cluster.nodes[late].kill()
        held = cluster.json("acquire", "held", "--ttl", "300s", "--owner", "me")
        leader = cluster.nodes[cluster.leader()]

        def trimmed():
            leader.load("--mode", "shared", "--concurrency", "256", duration="1s")
            return int(cluster.status(cluster.leader())["journal_first_index"]) > 1
        harness.wait_until(trimmed, "the log is trimmed", 60)
        cluster.nodes[late].start()
        harness.wait_until(lambda: (cluster.status(late) or {}).get("role") == "standby",
                           f"the late node follows\n{cluster.nodes[late].logged()}")
        self.assertIn("snapshot received", cluster.nodes[late].logged())
        for number in range(3):
            if number != late:
                cluster.nodes[number].kill()
        cluster.wait_leader()
        described = cluster.nodes[late].json("describe", "held")
        self.assertEqual("me", described["holder"]["owner"])
        self.assertEqual(held["fencing_token"], described["holder"]["fencing_token"])


if __name__ == "__main__":
    harness.main()
