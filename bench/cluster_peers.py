#!/usr/bin/env python3
"""Holdfast over three etcd members against other replicated locks, in one run: etcd's own on the
same cluster, ZooKeeper on three servers, Redlock over five durable Redis.

usage: bench/cluster_peers.py HOLDFAST [options of `holdfast bench peers`]

Starts three etcd members and three nodes on loopback, `holdfast bench peers` the other servers. All
clients go to the leader: Holdfast's, etcd's, ZooKeeper's. `--zookeeper ''` and `--redlock ''` leave
these out. Standard library only.
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "e2e"))

import cluster as clusters  # noqa: E402
import harness  # noqa: E402


PEERS = {"--redis": "", "--postgres": "", "--zookeeper": "/usr/share/java/zookeeper.jar",
         "--redlock": "redis-server"}


def defaults(words, work_dir):
    """Options that the caller has not given. All servers keep their data on one disk."""
    named = {word.partition("=")[0] for word in words}
    return [word for option, value in {**PEERS, "--work-dir": work_dir}.items()
            if option not in named for word in (option, value)]


def port_of(address):
    return address.rpartition(":")[2]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    harness.BINARY = os.path.abspath(sys.argv[1])
    cluster = clusters.Cluster()
    try:
        node = cluster.nodes[cluster.leader()]
        return subprocess.run(
            [harness.BINARY, "bench", "peers", *defaults(sys.argv[2:], cluster.folder),
             "--running-etcd", port_of(cluster.etcd.clients[cluster.etcd.leader()]),
             "--running-holdfast", port_of(node.address), "--running-resp", port_of(node.resp),
             *sys.argv[2:]], check=False).returncode
    finally:
        cluster.close()


if __name__ == "__main__":
    sys.exit(main())
