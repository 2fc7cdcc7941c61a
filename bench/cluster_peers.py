#!/usr/bin/env python3
"""Holdfast over three etcd members against etcd's own locks on the same cluster, in one run.

usage: bench/cluster_peers.py HOLDFAST [options of `holdfast bench peers`]

Starts three etcd members and three nodes on loopback; all clients go to Holdfast's leader, and to
etcd's. Standard library only.
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "e2e"))

import cluster as clusters  # noqa: E402
import harness  # noqa: E402


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
            [harness.BINARY, "bench", "peers", "--redis", "", "--postgres", "",
             "--running-etcd", port_of(cluster.etcd.clients[cluster.etcd.leader()]),
             "--running-holdfast", port_of(node.address), "--running-resp", port_of(node.resp),
             *sys.argv[2:]], check=False).returncode
    finally:
        cluster.close()


if __name__ == "__main__":
    sys.exit(main())
