"""Faults at random on a replicated cluster of real processes, and a check of everything it answered.

usage: chaos.py HOLDFAST [--seconds N] [--seed S] [--json FILE]

Three etcd members, three nodes, a link from each node to each member that can be slow, deaf in one
direction or cut. Nodes and members are killed and frozen. Clients at every node acquire, renew and
release a few locks, write to a store that checks tokens, and ask again under the same request id
when an answer stays away. It fails if

- a later grant of a resource does not have a larger token,
- two leases of a resource overlap: a grant although an earlier holder had neither released nor
  reached the end of what it was promised (I1, I7),
- the store took a token below one that it had seen (I3),
- asking again under a request id gave another lease (I6),
- something that was acknowledged is gone at the end,
- a class of faults did not come, or nothing is granted again after the faults have stopped.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import sys
import threading
import time

import harness
from cluster import Cluster
from links import Links
from prober import command, parse

RESOURCES = 12
TTL_MS = 3000


class Store:
    """The protected resource: takes no token below one that it has seen."""

    def __init__(self):
        self.lock = threading.Lock()
        self.highest = {}
        self.refused = 0

    def write(self, resource, token):
        with self.lock:
            if token < self.highest.get(resource, 0):
                self.refused += 1
                return False
            self.highest[resource] = token
            return True


class History:
    """What clients know: grants with the times in which they were asked for and answered."""

    def __init__(self):
        self.lock = threading.Lock()
        self.grants = []
        self.violations = []
        self.unknown = 0

    def grant(self, row):
        with self.lock:
            self.grants.append(row)

    def violated(self, text):
        with self.lock:
            self.violations.append(text)


class Client:
    """Works on random resources at one node until it is stopped."""

    def __init__(self, node, name, seed, history, store):
        self.node, self.name = node, name
        self.random = random.Random(seed)
        self.history, self.store = history, store
        self.stop = threading.Event()
        self.link = None
        self.sequence = 0
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def close(self):
        self.stop.set()
        self.thread.join()

    def _ask(self, *words, patience=1.0):
        """The answer's fields; None if it is not known what became of it."""
        try:
            if self.link is None:
                host, _, port = self.node.resp.rpartition(":")
                self.link = socket.create_connection((host, int(port)), patience)
            self.link.settimeout(patience)
            self.link.sendall(command(*(str(word).encode() for word in words)))
            data = b""
            while True:
                if not (more := self.link.recv(65536)):
                    raise OSError("closed")
                data += more
                with contextlib.suppress(IndexError):
                    items, _ = parse(data)
                    return {items[i].decode(): items[i + 1] for i in range(0, len(items), 2)}
        except ValueError as error:  # an error reply: the connection is still good
            return {"error": str(error)}
        except OSError:
            if self.link is not None:
                self.link.close()
                self.link = None
            return None

    def _until_known(self, *words):
        """Asks again, with the same request id, until there is an answer."""
        while not self.stop.is_set():
            answer = self._ask(*words)
            if answer is not None and "error" not in answer:
                return answer
            self.history.unknown += 1
            self.stop.wait(0.05)
        return None

    def _run(self):
        while not self.stop.is_set():
            self._work()
            self.stop.wait(self.random.random() * 0.05)

    def _work(self):
        self.sequence += 1
        resource = f"chaos/{self.random.randrange(RESOURCES)}"
        request = f"{self.name}-{self.sequence}"
        words = ("HOLDFAST.ACQUIRE", resource, "TTL", TTL_MS, "OWNER", self.name, "REQUEST", request)
        first = time.monotonic()
        while not self.stop.is_set():
            sent = time.monotonic()
            answer = self._ask(*words)
            if answer is not None and "error" not in answer:
                break
            self.history.unknown += 1
            self.stop.wait(0.05)
        else:
            return
        if answer["outcome"] != b"GRANTED":
            return
        row = {"resource": resource, "request": request, "owner": self.name, "asked": first,
               "answered": time.monotonic(), "token": int(answer["fencing_token"]),
               "lease": answer["lease_id"].decode(),
               "until": sent + int(answer["remaining_ms"]) / 1000, "released": None}
        self.history.grant(row)
        self._hold(row)

    def _hold(self, row):
        """Writes while the lease is safe; renews it sometimes; releases it, or forgets to."""
        end = time.monotonic() + self.random.random() * 1.5
        while time.monotonic() < min(end, row["until"]) and not self.stop.is_set():
            self.store.write(row["resource"], row["token"])
            self.stop.wait(0.02)
            if self.random.random() < 0.05:
                sent = time.monotonic()
                answer = self._ask("HOLDFAST.RENEW", row["resource"], row["lease"])
                if answer is not None and answer.get("outcome") == b"RENEWED":
                    row["until"] = sent + int(answer["remaining_ms"]) / 1000
        if self.random.random() < 0.1:
            # A paused client: it writes after its lease is over, and the store has to decide.
            self.stop.wait(TTL_MS / 1000 + 0.5)
            self.store.write(row["resource"], row["token"])
            return
        row["released"] = time.monotonic()
        self._until_known("HOLDFAST.RELEASE", row["resource"], row["lease"])


class Faults:
    """Each is a function that does harm and gives the function that undoes it."""

    def __init__(self, cluster, links, dice):
        self.cluster, self.links, self.dice = cluster, links, dice
        self.count = {}

    def any(self):
        kinds = [self.kill_node, self.freeze_node, self.kill_member, self.freeze_member,
                 self.cut_node, self.deaf_node, self.slow_link, self.hand_over, self.kill_leaders]
        kind = self.dice.choice(kinds)
        self.count[kind.__name__] = self.count.get(kind.__name__, 0) + 1
        return kind()

    def _node(self):
        leader = self.cluster.leader()
        return leader if leader is not None and self.dice.random() < 0.6 else self.dice.randrange(3)

    def kill_node(self):
        number = self._node()
        self.cluster.nodes[number].kill()
        return lambda: self.cluster.nodes[number].start(ready=False)

    def freeze_node(self):
        process = self.cluster.nodes[self._node()].process
        process.send_signal(signal.SIGSTOP)
        return lambda: process.send_signal(signal.SIGCONT)

    def kill_member(self):
        number = self.dice.randrange(3)
        self.cluster.etcd.kill(number)
        return lambda: self.cluster.etcd.start(number)

    def freeze_member(self):
        process = self.cluster.etcd.processes[self.dice.randrange(3)]
        process.send_signal(signal.SIGSTOP)
        return lambda: process.send_signal(signal.SIGCONT)

    def cut_node(self):
        mine = self.links[self._node()]
        for link in mine:
            self.cluster.links.cut(link)
        return lambda: [self.cluster.links.heal(link) for link in mine]

    def deaf_node(self):
        mine = self.links[self._node()]
        direction = self.dice.choice(["in", "out"])
        for link in mine:
            self.cluster.links.deafen(link, direction)
        return lambda: [self.cluster.links.heal(link) for link in mine]

    def slow_link(self):
        link = self.dice.choice(self.links[self._node()])
        self.cluster.links.slow(link, self.dice.choice([0.02, 0.1, 0.5]))
        return lambda: self.cluster.links.heal(link)

    def hand_over(self):
        leader = self.cluster.leader()
        if leader is not None:
            self.cluster.nodes[leader].run("step-down", "--timeout", "2s")
        return lambda: None

    def kill_leaders(self):
        """Of etcd and of Holdfast, together."""
        member, leader = self.cluster.etcd.leader(), self.cluster.leader()
        member = 0 if member is None else member
        leader = 0 if leader is None else leader
        self.cluster.etcd.kill(member)
        self.cluster.nodes[leader].kill()

        def undo():
            self.cluster.etcd.start(member)
            self.cluster.nodes[leader].start(ready=False)
        return undo


def check(history):
    by_resource = {}
    for row in history.grants:
        by_resource.setdefault(row["resource"], []).append(row)
    for resource, rows in by_resource.items():
        rows.sort(key=lambda row: row["token"])
        for earlier, later in zip(rows, rows[1:]):
            if earlier["token"] == later["token"] and earlier["lease"] != later["lease"]:
                history.violated(f"{resource}: token {later['token']} twice")
            if later["answered"] < earlier["asked"]:
                history.violated(f"{resource}: token {later['token']} was granted before "
                                 f"{earlier['token']} was asked for")
            over = earlier["until"] if earlier["released"] is None else min(
                earlier["until"], earlier["released"])
            if later["answered"] < over:
                history.violated(
                    f"{resource}: token {later['token']} was granted {over - later['answered']:.3f} s "
                    f"before the lease of {earlier['token']} was over")


def check_end(cluster, history):
    """What was acknowledged is there: each request id still gives its lease, or says that it ended."""
    for row in history.grants[-200:]:
        answer = cluster.run("acquire", row["resource"], "--owner", row["owner"], "--request-id",
                             row["request"], "--ttl", f"{TTL_MS}ms", "-o", "json").json
        if answer.get("outcome") == "GRANTED" and answer["lease_id"] != row["lease"]:
            history.violated(f"request {row['request']} got a second lease")
        elif answer.get("outcome") not in ("GRANTED", "ENDED"):
            history.violated(f"request {row['request']} is forgotten: {answer}")


def run(seconds, seed):
    dice = random.Random(seed)
    cluster = Cluster(links=Links())
    clients = []
    try:
        cluster.json("namespace", "set", "default", "--protection", "fenced", "--lock-delay", "0s")
        history, store = History(), Store()
        faults = Faults(cluster, cluster.node_links, dice)
        clients = [Client(cluster.nodes[number % 3], f"c{number}", f"{seed}-{number}", history, store)
                   for number in range(9)]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            heal = faults.any()
            threading.Event().wait(0.5 + dice.random() * 4)
            heal()
            threading.Event().wait(0.5 + dice.random() * 3)
        calm = len(history.grants)
        harness.wait_until(lambda: len(history.grants) > calm + 50,
                           f"grants after the faults\n{cluster.logged()}", 60)
        for client in clients:
            client.close()
        check(history)
        check_end(cluster, history)
        if any((cluster.status(number) or {}).get("role") == "failed" for number in range(3)):
            history.violated("a node failed: " + cluster.logged())
        return {"seed": seed, "seconds": seconds, "grants": len(history.grants),
                "asked_again": history.unknown, "old_tokens_refused": store.refused,
                "faults": faults.count, "violations": history.violations}
    finally:
        for client in clients:
            client.stop.set()
        cluster.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("holdfast")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--json")
    options = parser.parse_args()
    harness.BINARY = os.path.abspath(options.holdfast)
    seed = random.randrange(1 << 31) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    result = run(options.seconds, seed)
    print(json.dumps(result, indent=2))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=2)
    return 1 if result["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
