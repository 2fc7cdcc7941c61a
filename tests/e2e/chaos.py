"""Faults at random on a replicated cluster of real processes, and a check of everything it answered.

usage: chaos.py HOLDFAST [--seconds N] [--seed S] [--without CLASS,...] [--only CLASS,...] [--json FILE]

Three etcd members and three nodes, with a link between any two that talk: each can be slow, lose
what passes one way or both ways, or be cut. Nodes and members are killed, frozen and partitioned,
disks are slow, etcd's space runs out. Clients at every node acquire, renew and release a few locks,
write to a store that checks tokens, and ask again under the same request id when an answer stays
away. The classes come from a shuffled deck, so each comes once before any comes twice. It fails if

- a token is granted twice, or a grant that was asked for after another had been answered does not
  have a larger one, of whatever resource,
- two leases of a resource overlap: a grant although an earlier holder had neither released nor
  reached the end of what it was promised (I1, I7),
- asking again under a request id gave another lease (I6),
- something that was acknowledged is gone at the end,
- a slot of the log was written twice, or is missing,
- a node failed closed, or a process ended that nobody had killed,
- some node grants nothing any more after the faults have stopped,
- a class of faults was not seen to work. `--without` leaves out classes, by name or its beginning;
  where strace may not trace, a run needs `--without slow_disk`.
"""

import argparse
import json
import os
import random
import sys
import threading
import time
import traceback

import harness
from chaos_faults import QUOTA, Faults
from chaos_history import Client, History, Store, check, check_end, check_log
from cluster import Cluster
from links import Links
from slow_disk import Impossible, check_possible

CLIENTS = 9
HOLD = (0.5, 3.0)   # seconds that a fault lasts
CALM = (0.3, 1.5)   # seconds until the next one
FIRED_DEADLINE = 15.0
TRIES = 3           # for a class to be seen to work
CALM_DEADLINE = 60.0


class Deck:
    """Classes in shuffled order, again and again; one that did not work comes back sooner."""

    def __init__(self, classes, seed):
        self.classes, self.dice = sorted(classes), random.Random(seed)
        self.cards = []
        self.fired = dict.fromkeys(self.classes, 0)
        self.failed = dict.fromkeys(self.classes, 0)

    def draw(self):
        if not self.cards:
            self.cards = self.dice.sample(self.classes, len(self.classes))
        return self.cards.pop()

    def note(self, name, fired):
        if fired:
            self.fired[name] += 1
            return
        self.failed[name] += 1
        if self.fired[name] == 0 and self.failed[name] < TRIES:
            self.cards.insert(0, name)

    @property
    def missing(self):
        return [name for name in self.classes if self.fired[name] == 0]

    @property
    def owed(self):
        """Those that have not worked yet, and still can."""
        return [name for name in self.missing if self.failed[name] < TRIES]


class Run:
    def __init__(self, cluster, seed, without=(), only=()):
        self.cluster, self.seed = cluster, seed
        self.history, self.store = History(), Store()
        self.faults = Faults(cluster, lambda: len(self.history.grants))
        self.deck = Deck(choose(self.faults.classes, without, only), seed)
        self.clients = []
        self.begun = time.monotonic()
        self.turn = 0

    def say(self, text):
        print(f"{time.monotonic() - self.begun:8.2f} s  {text}", flush=True)

    def go(self, seconds):
        self.cluster.json("namespace", "set", "default", "--protection", "fenced", "--lock-delay", "0s")
        self.clients = [Client(self.cluster.nodes[number % 3], f"c{number}", f"{self.seed}-{number}",
                               self.history, self.store) for number in range(CLIENTS)]
        self.begun = time.monotonic()
        while time.monotonic() < self.begun + seconds or self._owes(seconds):
            self._fault()
        self.say("no more faults")
        self._calm()
        self._check()

    def _owes(self, seconds):
        """A slow machine gets twice the time, so that each class has its turn."""
        return self.deck.owed and time.monotonic() < self.begun + 2 * seconds

    def _fault(self):
        name = self.deck.draw()
        self.turn += 1
        dice = random.Random(f"{self.seed}/{self.turn}/{name}")
        before = len(self.history.grants)
        harm = self.faults.begin(name, dice)
        self.say(f"{name}: {harm.what}")
        fired = False
        try:
            threading.Event().wait(dice.uniform(*HOLD))
            try:
                fired = bool(harness.wait_until(harm.fired, name, FIRED_DEADLINE))
            except AssertionError:
                self.say(f"{name}: DID NOT FIRE")
        finally:
            harm.undo()
        self.deck.note(name, fired)
        self.say(f"{name}: over, {len(self.history.grants) - before} grants meanwhile")
        self._look_for_the_dead()
        threading.Event().wait(dice.uniform(*CALM))

    def _look_for_the_dead(self):
        named = [(f"n{i}", node.process) for i, node in enumerate(self.cluster.nodes)]
        named += [(f"e{i}", process) for i, process in enumerate(self.cluster.etcd.processes)]
        for name, process in named:
            if process.poll() is not None:
                raise AssertionError(f"{name} ended by itself with {process.returncode}")

    def _calm(self):
        """Every node serves again."""
        calm = len(self.history.grants)

        def served():
            nodes = [row["node"] for row in self.history.grants[calm:]]
            return all(nodes.count(node) >= 10 for node in self.cluster.nodes)
        harness.wait_until(served, "grants at each node after the faults", CALM_DEADLINE)
        for client in self.clients:
            client.close()

    def _check(self):
        check(self.history)
        check_log(self.history, self.cluster.etcd.entries())
        check_end(self.cluster, self.history)
        for number in range(3):
            if (self.cluster.status(number) or {}).get("role") == "failed":
                self.history.violated(f"n{number} failed")

    def result(self, seconds):
        return {"seed": self.seed, "seconds": seconds, "grants": len(self.history.grants),
                "asked_again": self.history.unknown, "old_tokens_refused": self.store.refused,
                "faults": {name: count for name, count in self.deck.fired.items() if count > 0},
                "not_fired": self.deck.missing, "violations": self.history.violations}


def choose(classes, without, only):
    """The classes of a run; a word is a name or its beginning. ValueError for a word that is none."""
    for word in (*without, *only):
        if not any(name.startswith(word) for name in classes):
            raise ValueError(f"there is no class {word}: {', '.join(sorted(classes))}")
    return [name for name in classes if not any(name.startswith(word) for word in without)
            and (not only or any(name.startswith(word) for word in only))]


def run(seconds, seed, without=(), only=()):
    """The report of a run. It was good if it has neither `violations` nor classes `not_fired`."""
    cluster = Cluster("--set", "snapshot_bytes=1MiB", links=Links(),
                      etcd_words=("--quota-backend-bytes", str(QUOTA)))
    this = None
    try:
        this = Run(cluster, seed, without, only)
        try:
            if any(name.startswith("slow_disk") for name in this.deck.classes):
                check_possible()
            this.go(seconds)
        except Impossible as error:
            this.history.violated(f"slow_disk is impossible on this machine: {error}")
        except (AssertionError, OSError) as error:
            traceback.print_exc()
            this.history.violated(str(error))
            print(cluster.logged(), flush=True)
        return this.result(seconds)
    finally:
        for client in this.clients if this else ():
            client.stop.set()
        cluster.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("holdfast")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--without", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    options = parser.parse_args()
    harness.BINARY = os.path.abspath(options.holdfast)
    seed = random.randrange(1 << 31) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    without, only = ([word for word in text.split(",") if word] for text in (options.without, options.only))
    try:
        result = run(options.seconds, seed, without, only)
    except ValueError as error:
        parser.error(str(error))
    print(json.dumps(result, indent=2))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=2)
    for name in result["not_fired"]:
        print(f"chaos: no fault of the class {name} was seen to work", file=sys.stderr)
    return 1 if result["violations"] or result["not_fired"] else 0


if __name__ == "__main__":
    sys.exit(main())
