"""The faults of chaos.py: each class is a method of Faults that does harm and gives a Harm."""

import base64
import contextlib
import os
import signal
import threading

import harness
from slow_disk import SlowDisk

QUOTA = 64 << 20  # bytes of etcd's space in a cluster that quota_full can fill
JUNK = 1_000_000  # bytes of each key that fills it
LINK_KINDS = ("store", "peer", "raft")  # node to member, node to node, member to member


class Harm:
    """What was done, how to undo it, and whether it was seen to work."""

    def __init__(self, what, undo, fired):
        self.what, self.undo, self.fired = what, undo, fired


def state_of(process):
    """The letter of the kernel: T is stopped."""
    try:
        with open(f"/proc/{process.pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def fill_space(etcd, number):
    """Foreign keys until etcd has no space left: until it has said so and raised the alarm."""
    value = base64.b64encode(os.urandom(JUNK)).decode()
    for piece in range(2 * QUOTA // JUNK):
        key = base64.b64encode(b"/junk/%06d" % piece).decode()
        try:
            etcd.call(number, "kv/put", {"key": key, "value": value}, timeout=harness.DEADLINE)
        except OSError as error:
            if "space exceeded" in str(error):
                return
            if isinstance(error, TimeoutError):
                continue
            raise
    raise AssertionError(f"etcd took {2 * QUOTA} bytes without an alarm")


def alarms(etcd):
    """Those that stand, each with the id of its member. OSError if no member answers."""
    for number in range(len(etcd.clients)):
        with contextlib.suppress(OSError, ValueError):
            return etcd.call(number, "maintenance/alarm", {"action": "GET"}).get("alarms", [])
    raise OSError("no member of etcd tells its alarms")


def disarm(etcd):
    for alarm in alarms(etcd):
        etcd.call(0, "maintenance/alarm", {**alarm, "action": "DEACTIVATE"})
    return not alarms(etcd)


def free_space(etcd):
    """As an operator would: delete, compact, defragment each member, disarm."""
    def retried(path, body, number=0):
        def done():
            with contextlib.suppress(OSError, ValueError):
                etcd.call(number, path, body, timeout=harness.DEADLINE)
                return True
            return False
        harness.wait_until(done, f"etcd does {path}")
    retried("kv/deleterange", {"key": base64.b64encode(b"/junk/").decode(),
                               "range_end": base64.b64encode(b"/junk0").decode()})

    def compacted():
        try:
            etcd.call(0, "kv/compaction", {"revision": str(etcd.revision()), "physical": True},
                      timeout=harness.DEADLINE)
        except OSError as error:
            return "compacted" in str(error)  # by a try that had no answer
        return True
    harness.wait_until(compacted, "etcd compacts")
    for number in range(len(etcd.clients)):
        retried("maintenance/defragment", {}, number)
    harness.wait_until(lambda: disarm(etcd), "no alarm stands")


class Faults:
    """Of one cluster with links. `grants()` is how many grants there were so far."""

    def __init__(self, cluster, grants):
        self.cluster, self.etcd, self.links = cluster, cluster.etcd, cluster.links
        self.grants = grants
        self.dice = None
        self.classes = {name: getattr(self, name) for name in (
            "kill_node", "freeze_node", "hand_over", "kill_member", "freeze_member", "kill_leaders",
            "partition_node", "partition_member", "partition_zone", "slow_disk_node",
            "slow_disk_member", "quota_full")}
        for kind in LINK_KINDS:
            for harm in (self.delay, self.drop, self.one_way, self.cut):
                self.classes[f"{harm.__name__}_{kind}"] = lambda h=harm, k=kind: h(k)

    def begin(self, name, dice):
        self.dice = dice
        return self.classes[name]()

    # Which.

    def _leader(self):
        leader = self.cluster.leader()
        return 0 if leader is None else leader

    def _node(self):
        leader = self.cluster.leader()
        return leader if leader is not None and self.dice.random() < 0.6 else self.dice.randrange(3)

    def _member(self):
        leader = self.etcd.leader()
        return leader if leader is not None and self.dice.random() < 0.6 else self.dice.randrange(3)

    def _busy(self, links):
        """Those over which something passes; all of them, if nothing does."""
        before = [link.passed for link in links]

        def used():
            return [link for link, passed in zip(links, before) if link.passed > passed]
        with contextlib.suppress(AssertionError):
            return harness.wait_until(used, "a link is used", 2)
        return links

    def _links(self, kind):
        """The ways out of one node to etcd, the ways to the leader, or those between two members."""
        if kind == "store":
            links = self.cluster.store_links[self._node()]
        elif kind == "peer":
            leader = self._leader()
            links = [self.cluster.peer_links[number][leader] for number in range(3) if number != leader]
        else:
            one = self._member()
            other = (one + 1 + self.dice.randrange(2)) % 3
            return [self.etcd.peer_links[one][other], self.etcd.peer_links[other][one]]
        return links if self.dice.random() < 0.6 else [self.dice.choice(self._busy(links))]

    # Links.

    def _on_links(self, what, links, act, count):
        before = sum(count(link) for link in links)
        for link in links:
            act(link)
        names = ", ".join(link.name for link in links)
        return Harm(f"{what} on {names}", lambda: [self.links.heal(link) for link in links],
                    lambda: sum(count(link) for link in links) > before)

    def delay(self, kind):
        delay = self.dice.choice([0.02, 0.1, 0.5])
        return self._on_links(f"delay of {delay} s each way", self._links(kind),
                              lambda link: self.links.slow(link, delay), lambda link: link.delayed)

    def drop(self, kind):
        return self._drop(self._links(kind), "loss both ways")

    def _drop(self, links, what):
        return self._on_links(what, links, lambda link: self.links.deafen(link, "in", "out"),
                              lambda link: link.lost)

    def one_way(self, kind):
        direction = self.dice.choice(["in", "out"])
        what = {"in": "loss of answers", "out": "loss of what is sent"}[direction]
        return self._on_links(what, self._links(kind), lambda link: self.links.deafen(link, direction),
                              lambda link: link.lost)

    def cut(self, kind):
        return self._cut(self._links(kind), "cut")

    def _cut(self, links, what):
        return self._on_links(what, links, self.links.cut, lambda link: link.ended)

    def _partition(self, links, what):
        act = self.dice.choice([self._cut, self._drop])
        harm = act(links, what)
        harm.what = f"{what}: {'connections end' if act == self._cut else 'nothing passes'}"
        return harm

    def partition_node(self):
        number = self._node()
        return self._partition(self._of_node(number), f"partition of n{number}")

    def partition_member(self):
        number = self._member()
        return self._partition(self._of_member(number), f"partition of e{number}")

    def partition_zone(self):
        """A node and its member: they have each other, and nobody else."""
        number = self._node()
        own = self.cluster.store_links[number][number]
        links = self._of_node(number) + self._of_member(number)
        return self._partition([link for link in links if link is not own], f"partition of zone {number}")

    def _of_node(self, number):
        return self.cluster.store_links[number] + self._both_ways(self.cluster.peer_links, number)

    def _of_member(self, number):
        return [links[number] for links in self.cluster.store_links] + self._both_ways(
            self.etcd.peer_links, number)

    @staticmethod
    def _both_ways(links, number):
        others = [other for other in range(3) if other != number]
        return [links[number][other] for other in others] + [links[other][number] for other in others]

    # Processes.

    def kill_node(self):
        number = self._node()
        node = self.cluster.nodes[number]
        node.kill()
        dead = node.process
        return Harm(f"kill -9 of n{number}", lambda: node.start(ready=False),
                    lambda: dead.returncode == -signal.SIGKILL)

    def kill_member(self):
        number = self._member()
        dead = self.etcd.processes[number]
        self.etcd.kill(number)
        return Harm(f"kill -9 of e{number}", lambda: self.etcd.start(number),
                    lambda: dead.returncode == -signal.SIGKILL)

    def kill_leaders(self):
        """Of etcd and of Holdfast, together."""
        member, leader = self.etcd.leader() or 0, self._leader()
        dead = [self.etcd.processes[member], self.cluster.nodes[leader].process]
        self.etcd.kill(member)
        self.cluster.nodes[leader].kill()

        def undo():
            self.etcd.start(member)
            self.cluster.nodes[leader].start(ready=False)
        return Harm(f"kill -9 of e{member} and n{leader}", undo,
                    lambda: all(process.returncode == -signal.SIGKILL for process in dead))

    def _freeze(self, process, what):
        process.send_signal(signal.SIGSTOP)
        return Harm(f"SIGSTOP of {what}", lambda: process.send_signal(signal.SIGCONT),
                    lambda: state_of(process) == "T")

    def freeze_node(self):
        number = self._node()
        return self._freeze(self.cluster.nodes[number].process, f"n{number}")

    def freeze_member(self):
        number = self._member()
        return self._freeze(self.etcd.processes[number], f"e{number}")

    def hand_over(self):
        leader = self._leader()
        code = self.cluster.nodes[leader].run("step-down", "--timeout", "2s").code
        return Harm(f"step-down of n{leader}: exit {code}", lambda: None, lambda: code == 0)

    # Disks.

    def slow_disk_member(self):
        number, seconds = self._member(), self.dice.choice([0.1, 0.5, 2.0])
        disk = SlowDisk(self.etcd.processes[number].pid, seconds)
        return Harm(f"each fsync of e{number} takes {seconds} s", disk.end, disk.delayed)

    def slow_disk_node(self):
        """A node syncs snapshots only, so it gets something to make one of."""
        leader, seconds = self._leader(), self.dice.choice([0.5, 2.0])
        number = (leader + 1 + self.dice.randrange(2)) % 3
        disk = SlowDisk(self.cluster.nodes[number].process.pid, seconds)
        stop = threading.Event()

        def load():
            while not stop.is_set() and not disk.delayed():
                self.cluster.nodes[leader].run(
                    "bench", "locks", "--mode", "shared", "--concurrency", "64", "--warm-up", "10ms",
                    "--duration", "1s", "--quiet", "-o", "json")
        loading = threading.Thread(target=load, daemon=True)
        loading.start()

        def undo():
            stop.set()
            loading.join()
            disk.end()
        return Harm(f"each fsync of n{number} takes {seconds} s", undo, disk.delayed)

    def quota_full(self):
        pids = [node.process.pid for node in self.cluster.nodes]
        fill_space(self.etcd, self._member())

        def undo():
            free_space(self.etcd)
            before = self.grants()
            harness.wait_until(lambda: self.grants() > before + 10, "grants after the quota was healed")
            if pids != [node.process.pid for node in self.cluster.nodes]:
                raise AssertionError("a node was started anew while etcd had no space")
        return Harm("etcd has no space", undo, lambda: any(
            alarm.get("alarm") == "NOSPACE" for alarm in alarms(self.etcd)))
