"""`holdfast recover --etcd`: a replicated cluster that has lost its disks, or its etcd."""

import os
import shutil

import harness
from cluster import Cluster


class RecoverTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.cluster = Cluster("--set", "snapshot_bytes=1MiB", "--set", "failover_grace=100ms")
        self.addCleanup(self.cluster.close)
        # Short promises, so that the pause after a recovery is short too.
        self.cluster.json("namespace", "set", "default", "--ttl-default", "2s", "--ttl-min", "100ms",
                          "--ttl-max", "3s", "--lock-delay", "0s")

    def trimmed(self):
        leader = self.cluster.nodes[self.cluster.leader()]

        def trimmed():
            leader.load("--mode", "shared", "--concurrency", "256", "--ttl", "2s", duration="1s")
            return int(self.cluster.status(self.cluster.leader())["journal_first_index"]) > 1
        harness.wait_until(trimmed, "the log is trimmed", 60)

    def stop_all(self):
        for node in self.cluster.nodes:
            node.kill()

    def start_all(self, kept=None):
        for node in self.cluster.nodes:
            if node is not kept:
                shutil.rmtree(node.data_dir)
            node.start(ready=False)
        self.cluster.wait_leader()

    def recover(self, *words, code=0):
        answer = harness.run("recover", *words, "--etcd", ",".join(self.cluster.etcd.clients),
                             "-o", "json", timeout=60)
        self.assertEqual(answer.code, code, answer)
        return answer

    def granted_above(self, token):
        outcomes = []

        def granted():
            answer = self.cluster.run("acquire", "after", "--ttl", "2s", "-o", "json").json
            outcomes.append(answer["outcome"])
            return answer if answer["outcome"] == "GRANTED" else None
        answer = harness.wait_until(granted, "a grant after the block", 60)
        self.assertEqual(outcomes[0], "GRANTS_BLOCKED")
        self.assertGreater(int(answer["fencing_token"]), token)

    def test_with_every_disk_lost_tokens_go_on_above_the_floor_in_etcd(self):
        self.trimmed()
        token = int(self.cluster.json("acquire", "before")["fencing_token"])
        self.assert_error(self.recover(code=69), 69, contains="stop all nodes")
        self.stop_all()
        for node in self.cluster.nodes:
            shutil.rmtree(node.data_dir)
            os.mkdir(node.data_dir)
        self.assert_error(self.recover(code=64), 64, field="block")
        done = self.recover("--block", "5s").json
        self.assertEqual(done["state_index"], 0)
        self.assertGreater(int(done["token_floor"]), token)
        self.start_all()
        self.granted_above(token)

    def test_the_directory_of_one_node_is_the_state_to_go_on_with(self):
        self.trimmed()
        self.cluster.json("namespace", "create", "kept", "--ttl-default", "2s", "--ttl-max", "3s",
                          "--lock-delay", "0s")
        held = self.cluster.json("acquire", "held", "--ttl", "3s")
        self.stop_all()
        with_snapshot = [node for node in self.cluster.nodes
                         if any(name.endswith(".snap") or "snapshot" in name
                                for name in os.listdir(node.data_dir))]
        kept = with_snapshot[0]
        done = self.recover(kept.data_dir).json
        self.assertGreater(done["state_index"], 0)
        self.start_all(kept)
        self.assertIn("kept", [row["namespace"] for row in
                               self.cluster.json("namespace", "list")["namespaces"]])
        self.granted_above(int(held["fencing_token"]))

    def test_nodes_refuse_an_etcd_that_was_replaced_until_it_is_recovered(self):
        held = self.cluster.json("acquire", "held", "--ttl", "3s")
        self.stop_all()
        self.cluster.etcd.replace()
        self.assert_error(self.recover("--block", "5s", code=64), 64, field="token_floor")
        node = self.cluster.nodes[0]
        node.start(ready=False)
        harness.wait_until(lambda: (self.cluster.status(0) or {}).get("role") == "failed",
                           f"the node refuses\n{node.logged()}")
        node.kill()
        self.recover("--block", "5s", "--token-floor", "123456789")
        self.start_all()
        self.granted_above(123456789)
        self.assertGreater(123456789, int(held["fencing_token"]))


if __name__ == "__main__":
    harness.main()
