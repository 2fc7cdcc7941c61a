"""What etcd can do to the nodes above it: slow disks, compaction, no space, deaths, restored backups,
damage."""

import os
import shutil
import signal
import subprocess
import threading

import harness
from chaos_faults import QUOTA, alarms, fill_space, free_space
from cluster_case import REFUSED_OR_UNKNOWN, ClusterCase
from slow_disk import SlowDisk

FSYNC = 10.0     # seconds
GAP_MAX = 15.0   # seconds without a grant: etcd's election and a takeover, usually below 4, on a busy machine
ENTRIES = 10     # two seconds of ticks


class Stalls(ClusterCase):
    def test_a_disk_of_the_etcd_leader_that_takes_10_s_to_sync_costs_an_election(self):
        held = self.cluster.json("acquire", "held", "--ttl", "100s")
        member = self.etcd.leader()
        disk = None

        def stall():
            nonlocal disk
            disk = SlowDisk(self.etcd.processes[member].pid, FSYNC)
            self.addCleanup(disk.end)
            harness.wait_until(disk.delayed, "a sync is held up")
        gap = self.cluster.gap(stall)
        self.assertLess(gap, GAP_MAX)
        for number in range(3):
            self.assertEqual("RENEWED", self.nodes[number].json(
                "renew", "held", "--lease-id", held["lease_id"])["outcome"])
        disk.end()
        self.wait_served()
        self.assert_log_is_sound()

    def test_etcd_and_its_client_lose_their_leaders_together(self):
        held = self.cluster.json("acquire", "held", "--ttl", "100s", "--request-id", "r")
        member, leader = self.etcd.leader(), self.cluster.wait_leader()

        def kill():
            self.etcd.kill(member)
            self.nodes[leader].kill()
        gap = self.cluster.gap(kill)
        self.assertLess(gap, GAP_MAX, "nobody waits for a lease of the dead leader")
        self.etcd.start(member)
        self.nodes[leader].start()
        self.assert_one_effect("held", "r", held)
        self.assert_log_is_sound()


class Compaction(ClusterCase):
    def test_a_standby_behind_a_compaction_of_etcd_lists_the_log_and_needs_no_snapshot(self):
        late = self.others(self.cluster.wait_leader())[0]
        for link in self.cluster.store_links[late]:
            self.links.cut(link)
        held = self.nodes[self.cluster.wait_leader()].json("acquire", "held", "--ttl", "100s")
        self.wait_entries(ENTRIES)
        self.etcd.call(0, "kv/compaction", {"revision": str(self.etcd.revision()), "physical": True})
        self.heal(self.cluster.store_links[late])
        self.wait_role(late, "standby")
        self.wait_served(late)
        self.assertIn("the log is listed again", self.nodes[late].logged())
        self.assertNotIn("snapshot received", self.nodes[late].logged())
        for number in self.others(late):
            self.nodes[number].kill()
        self.wait_served(late)
        self.assertEqual(held["fencing_token"],
                         self.nodes[late].json("describe", "held")["holder"]["fencing_token"])
        self.assert_log_is_sound()


class NoSpace(ClusterCase):
    WRITERS = 4
    ETCD_WORDS = ("--quota-backend-bytes", str(QUOTA // 4))

    def setUp(self):
        super().setUp()
        self.stop = threading.Event()
        self.granted = {}

    def write(self, writer):
        """Acquires at one node under one request id after the other; each until it is known."""
        number = 0
        while not self.stop.is_set():
            number += 1
            request = f"w-{writer}-{number}"
            answer = self.nodes[writer % 3].run("acquire", request, "--request-id", request, "--ttl", "100s", "-o",
                                                "json", "--timeout", "2s")
            self.granted[request] = answer.json if answer.code == 0 else None

    def test_no_space_stops_writes_and_they_come_back_without_a_restart(self):
        writers = [threading.Thread(target=self.write, args=(writer,)) for writer in range(self.WRITERS)]
        for writer in writers:
            writer.start()
        try:
            self.no_space()
        finally:
            self.stop.set()
            for writer in writers:
                writer.join()
        for request in [name for name, answer in self.granted.items() if answer is None][-10:] + list(
                self.granted)[-3:]:
            self.assert_one_effect(request, request, self.granted[request])
        self.assert_log_is_sound()

    def no_space(self):
        held = self.cluster.json("acquire", "held", "--ttl", "300s")
        epoch = self.epoch()
        pids = [node.process.pid for node in self.nodes]
        fill_space(self.etcd, 0)
        self.assertIn("NOSPACE", [alarm["alarm"] for alarm in alarms(self.etcd)])

        def refused():
            answers = [node.run("acquire", "refused", "--timeout", "1s") for node in self.nodes]
            return all(answer.code in REFUSED_OR_UNKNOWN for answer in answers)
        harness.wait_until(refused, "no node grants")
        free_space(self.etcd)
        self.wait_served()
        self.assertEqual(pids, [node.process.pid for node in self.nodes if node.process.poll() is None])
        self.assertLessEqual(self.epoch(), epoch + 3, "no storm of takeovers")
        self.assertEqual("RENEWED", self.cluster.json("renew", "held", "--lease-id", held["lease_id"])["outcome"])


class Restored(ClusterCase):
    def setUp(self):
        super().setUp()
        self.cluster.json("acquire", "before", "--ttl", "300s")

    def stop_etcd(self):
        for number in range(3):
            self.etcd.kill(number)

    def start_etcd(self):
        for number in range(3):
            self.etcd.start(number)
        harness.wait_until(lambda: self.etcd.leader() is not None, "a leader of etcd")

    def etcdctl(self, *words):
        done = subprocess.run(["etcdctl", *words], env={**os.environ, "ETCDCTL_API": "3"}, text=True,
                              capture_output=True, timeout=harness.DEADLINE, check=False)
        self.assertEqual(0, done.returncode, done)

    def refuses(self, number):
        answer = self.nodes[number].run("acquire", "after", "--timeout", "1s")
        self.assertIn(answer.code, REFUSED_OR_UNKNOWN, answer)

    def assert_all_failed(self, reason):
        for number in range(3):
            self.wait_role(number, "failed")
            self.assertIn(reason, self.nodes[number].logged())
            self.refuses(number)

    def test_an_etcd_that_was_restored_from_a_backup_is_refused(self):
        """`etcdctl snapshot restore` makes a new cluster, in which tokens would begin again from the old one."""
        backup = os.path.join(self.etcd.folder, "backup")
        self.etcdctl("--endpoints", self.etcd.clients[0], "snapshot", "save", backup)
        self.cluster.json("acquire", "lost", "--ttl", "300s")
        self.stop_etcd()
        for number in range(3):
            shutil.rmtree(self.etcd.data_dir(number))
            self.etcdctl("snapshot", "restore", backup, "--name", f"e{number}", "--data-dir",
                         self.etcd.data_dir(number), "--initial-cluster", self.etcd.initial_cluster(),
                         "--initial-cluster-token", "restored", "--initial-advertise-peer-urls",
                         f"http://{self.etcd.peers[number]}")
        self.start_etcd()
        self.assert_all_failed("it was restored or replaced")
        for node in self.nodes:
            node.kill()
            node.start()
        self.assert_all_failed("it was restored or replaced")

    def freeze(self):
        """No node notices what happens until thaw()."""
        for node in self.nodes:
            node.process.send_signal(signal.SIGSTOP)
            self.addCleanup(node.process.send_signal, signal.SIGCONT)

    def thaw(self):
        for node in self.nodes:
            node.process.send_signal(signal.SIGCONT)

    def test_nobody_is_granted_anything_by_an_etcd_whose_old_files_were_copied_back(self):
        """The same cluster id and epoch, and a log that is shorter than what the nodes have applied."""
        self.freeze()
        self.stop_etcd()
        for number in range(3):
            shutil.copytree(self.etcd.data_dir(number), self.etcd.data_dir(number) + ".old")
        self.start_etcd()
        self.thaw()
        self.wait_served()
        self.wait_entries(ENTRIES)
        self.freeze()
        self.stop_etcd()
        for number in range(3):
            shutil.rmtree(self.etcd.data_dir(number))
            os.rename(self.etcd.data_dir(number) + ".old", self.etcd.data_dir(number))
        self.start_etcd()
        entries = [entry["key"] for entry in self.etcd.entries()]
        self.thaw()

        for number in range(3):
            self.wait_role(number, "failed")
        for number in range(3):
            self.refuses(number)
        self.assertEqual(entries, [entry["key"] for entry in self.etcd.entries()], "nothing is appended")


class Corrupt(ClusterCase):
    def test_a_corrupt_member_stops_the_service(self):
        """The alarm that etcd raises when its members disagree. Every node fails closed and says why."""
        self.cluster.json("acquire", "held", "--ttl", "300s")
        member = self.etcd.call(0, "maintenance/status")["header"]["member_id"]
        self.etcd.call(0, "maintenance/alarm", {"action": "ACTIVATE", "memberID": member, "alarm": "CORRUPT"})
        for number in range(3):
            self.wait_role(number, "failed")
            self.assertIn("etcd reports damage", self.nodes[number].logged())
            answer = self.nodes[number].run("acquire", "after", "--timeout", "3s")
            self.assertIn(answer.code, REFUSED_OR_UNKNOWN, answer)
        self.assertIsNone(self.cluster.leader())


if __name__ == "__main__":
    harness.main()
