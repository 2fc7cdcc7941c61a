#!/usr/bin/env python3
"""How long a replicated cluster does not serve when its leader dies, freezes or hands over.

usage: bench/failover.py HOLDFAST [kill|freeze|hand-over|with-etcd ...] [--times N] [--json FILE]

A client at each node locks and unlocks all the time; the gap is the longest time in which none of
them got a lock. Checks that tokens rise over everything and that a lease that is held from before
is still there after it all. Standard library only.
"""

import argparse
import json
import os
import signal
import statistics
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "e2e"))

import cluster as clusters  # noqa: E402
import harness  # noqa: E402
from prober import Prober, longest_gap, tokens_rise  # noqa: E402


def kill(cluster, leader):
    cluster.nodes[leader].kill()
    return lambda: cluster.nodes[leader].start()


def freeze(cluster, leader):
    cluster.nodes[leader].process.send_signal(signal.SIGSTOP)
    return lambda: cluster.nodes[leader].process.send_signal(signal.SIGCONT)


def hand_over(cluster, leader):
    if cluster.nodes[leader].run("step-down").code != 0:
        raise AssertionError("the leader does not step down")
    return lambda: None


def with_etcd(cluster, leader):
    member = cluster.etcd.leader()
    cluster.etcd.kill(member)
    cluster.nodes[leader].kill()

    def heal():
        cluster.etcd.start(member)
        cluster.nodes[leader].start()
    return heal


FAULTS = {"kill": kill, "freeze": freeze, "hand-over": hand_over, "with-etcd": with_etcd}


def settled(cluster):
    roles = [(cluster.status(number) or {}).get("role") for number in range(3)]
    return sorted(filter(None, roles)) == ["leader", "standby", "standby"]


def measure(cluster, probers, fault, times):
    gaps = []
    for _ in range(times):
        harness.wait_until(lambda: settled(cluster), f"a whole cluster\n{cluster.logged()}", 60)
        threading.Event().wait(1.5)
        leader = cluster.leader()
        begin = time.monotonic()
        heal = fault(cluster, leader)
        harness.wait_until(
            lambda begun=begin, old=leader: any(
                prober.grants and prober.grants[-1][1] > begun + 0.05 and number != old
                for number, prober in enumerate(probers)), "grants go on", 60)
        threading.Event().wait(1.0)
        gaps.append(longest_gap(probers, begin, time.monotonic()))
        heal()
        print(f"{gaps[-1] * 1e3:7.0f} ms", flush=True)
    return {"times": times, "median_ms": statistics.median(gaps) * 1e3, "worst_ms": max(gaps) * 1e3,
            "gaps_ms": [round(gap * 1e3) for gap in gaps]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("holdfast")
    parser.add_argument("faults", nargs="*", help=", ".join(FAULTS) + " (all)")
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--json")
    options = parser.parse_args()
    if unknown := set(options.faults) - set(FAULTS):
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    harness.BINARY = os.path.abspath(options.holdfast)
    cluster = clusters.Cluster()
    probers = []
    try:
        held = cluster.json("acquire", "held", "--ttl", "10m")
        probers = [Prober(node.resp, f"n{number}") for number, node in enumerate(cluster.nodes)]
        results = {}
        for name in options.faults or FAULTS:
            print(name, flush=True)
            results[name] = measure(cluster, probers, FAULTS[name], options.times)
        for prober in probers:
            prober.close()
        results["grants"] = sum(len(prober.grants) for prober in probers)
        results["tokens_rise"] = tokens_rise(probers)
        results["old_lease_still_held"] = cluster.json(
            "renew", "held", "--lease-id", held["lease_id"])["outcome"] == "RENEWED"
    finally:
        cluster.close()
    print(json.dumps(results, indent=2))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=2)
    return 0 if results["tokens_rise"] and results["old_lease_still_held"] else 1


if __name__ == "__main__":
    sys.exit(main())
