#!/usr/bin/env python3
"""How long a snapshot stops the engine: the longest time without a completion, with and without one.

usage: bench/snapshot_gap.py HOLDFAST [--runs 3] [--duration 20] [--request-ids 1200000] [--json FILE]

A server of its own gets 100,000 resources and 1,200,000 remembered request ids; then 64 connections
work while 20,000 further leases are held and renewed. Runs with snapshots (several in each run) and
without take turns. Standard library only.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def free_port():
    with socket.socket() as probe:
        for port in range(21000, 32000):
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    sys.exit("no free port")


class Server:
    def __init__(self, binary, folder, snapshot_bytes):
        self.binary, self.address = binary, f"127.0.0.1:{free_port()}"
        self.log = open(os.path.join(folder, "server.log"), "wb")
        self.process = subprocess.Popen(
            [binary, "server", "--data-dir", os.path.join(folder, "data"), "--listen", self.address,
             "--set", f"snapshot_bytes={snapshot_bytes}"], stdout=self.log, stderr=self.log)
        end = time.monotonic() + 30
        while subprocess.run([binary, "status", "--endpoints", self.address, "--timeout", "1s"],
                             capture_output=True, check=False).returncode != 0:
            if time.monotonic() > end or self.process.poll() is not None:
                sys.exit("the server does not start; see " + self.log.name)

    def call(self, *words):
        done = subprocess.run([self.binary, *words, "--endpoints", self.address, "-o", "json"],
                              stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout)

    def threads(self):
        """CPU seconds by name of thread."""
        seconds = {}
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{task}/stat", encoding="ascii") as file:
                name, rest = file.read().split("(", 1)[1].rsplit(")", 1)
            fields = rest.split()
            seconds[name] = seconds.get(name, 0) + (int(fields[11]) + int(fields[12])) / CLOCK_TICKS
        return seconds

    def resident_mb(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * PAGE / 1e6

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


def measure(options, snapshots):
    with tempfile.TemporaryDirectory(dir=options.work_dir) as folder:
        os.mkdir(os.path.join(folder, "data"), 0o700)
        server = Server(options.holdfast, folder, "16MiB" if snapshots else "1024GiB")
        server.call("namespace", "set", "default", "--request-bytes-per-tenant", str(1 << 30))
        while (status := server.call("status"))["request_ids"] < options.request_ids:
            server.call("bench", "locks", "--mode", "shared", "--concurrency", "256", "--quiet",
                        "--request-ids", "remembered", "--resources", "100000",
                        "--choice", "round-robin", "--warm-up", "0s", "--duration", "2s")
        before = server.threads()
        began = time.monotonic()
        report = server.call("bench", "locks", "--mode", "stream", "--resources", "100000", "--quiet",
                             "--choice", "round-robin", "--holds", "20000", "--warm-up", "2s",
                             "--duration", f"{options.duration}s")
        took = time.monotonic() - began
        shadow = (server.threads()["shadow"] - before["shadow"]) / took * 100
        after = server.call("status")
        row = {"snapshots": snapshots, "pairs_per_s": report["pairs_per_s"],
               "gap_p50_ms": report["window_gap"]["p50_ms"],
               "gap_p999_ms": report["window_gap"]["p999_ms"],
               "longest_gap_ms": report["longest_gap_ms"], "request_ids": after["request_ids"],
               "resources": after["resources"], "shadow_cpu_percent": shadow,
               "resident_mb": server.resident_mb(),
               "snapshot_moved": after["snapshot_index"] > status["snapshot_index"]}
        server.stop()
        if row["snapshot_moved"] != snapshots:
            sys.exit(f"this run should{'' if snapshots else ' not'} have made a snapshot: {row}")
        return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("holdfast")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--duration", type=int, default=20, help="seconds")
    parser.add_argument("--request-ids", type=int, default=1_200_000)
    parser.add_argument("--work-dir", default=".", help="on a disk")
    parser.add_argument("--json", help="file for the rows")
    options = parser.parse_args()
    options.holdfast = os.path.abspath(options.holdfast)
    rows = []
    for _ in range(options.runs):
        for snapshots in (False, True):
            row = measure(options, snapshots)
            rows.append(row)
            print("{} snapshots: gap p50 {gap_p50_ms:.1f} ms, p99.9 {gap_p999_ms:.1f} ms; "
                  "{pairs_per_s:.0f} pairs/s; shadow {shadow_cpu_percent:.0f} % of a core; "
                  "{resident_mb:.0f} MB; {request_ids} request ids".format(
                      "with   " if snapshots else "without", **row), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=2)


if __name__ == "__main__":
    main()
