#!/usr/bin/env python3
"""Figures that need a server under a special load: queues, mass expiry, leaks, a steady open loop.

usage: bench/figures.py HOLDFAST [steady|waiters|expiry|leak ...] [--json FILE]

Each figure starts a server of its own with small limits lifted. Standard library only; the load goes
over RESP, or is `holdfast bench locks`.
"""

import argparse
import json
import os
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from snapshot_gap import free_port

LEASE = re.compile(rb"lease_id\r\n\$32\r\n([0-9a-f]{32})\r\n")
ANSWER = re.compile(rb"outcome\r\n\$\d+\r\n([A-Z_]+)\r\n")
PUSH = re.compile(rb"holdfast\.outcome\r\n\$\d+\r\n(\w+)\r\n.*?outcome\r\n\$\d+\r\n([A-Z_]+)\r\n"
                  rb".*?lease_id\r\n\$32\r\n([0-9a-f]{32})\r\n", re.S)
PAGE = os.sysconf("SC_PAGE_SIZE")


class Server:
    """All fronts on ports of their own."""

    def __init__(self, binary, folder, *settings):
        self.binary = binary
        self.ports = []
        for _ in range(3):
            while (port := free_port() + len(self.ports)) in self.ports:
                pass
            self.ports.append(port)
        self.grpc, self.http, self.resp = (f"127.0.0.1:{port}" for port in self.ports)
        os.mkdir(os.path.join(folder, "data"), 0o700)
        words = [word for setting in settings for word in ("--set", setting)]
        with open(os.path.join(folder, "log"), "wb") as log:
            self.process = subprocess.Popen(
                [binary, "server", "--data-dir", os.path.join(folder, "data"), "--listen", self.grpc,
                 "--http", self.http, "--resp", self.resp, *words], stdout=log, stderr=log)
        end = time.monotonic() + 30
        while subprocess.run([binary, "status", "--endpoints", self.grpc, "--timeout", "1s"],
                             capture_output=True, check=False).returncode != 0:
            if time.monotonic() > end or self.process.poll() is not None:
                sys.exit("the server does not start")
        self.call("namespace", "set", "default", "--protection", "fenced", "--lock-delay", "0s",
                  "--holds-per-tenant", "1000000", "--waiters-per-resource", "10000",
                  "--waiters-per-tenant", "100000", "--request-bytes-per-tenant", str(1 << 30))

    def words(self, *words):
        return [self.binary, *words, "--endpoints", self.grpc, "-o", "json"]

    def call(self, *words):
        return json.loads(subprocess.run(self.words(*words), stdout=subprocess.PIPE,
                                         check=True).stdout)

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.http}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)
                if not name.startswith("#")}

    def resident_mb(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * PAGE / 1e6

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


class Connection:
    def __init__(self, server, version=2):
        self.socket = socket.create_connection(("127.0.0.1", server.ports[2]))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.sequence = 0
        if version == 3:
            self.send(b"HELLO", b"3")
            self.until(lambda data: b"proto" in data and data.endswith(b"\r\n"))
            self.buffer = b""

    @staticmethod
    def encode(*words):
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)

    def send(self, *words):
        self.socket.sendall(self.encode(*words))

    def until(self, done):
        while not done(self.buffer):
            if not (data := self.socket.recv(1 << 20)):
                sys.exit("the server closed the connection")
            self.buffer += data

    def all_of(self, pattern, commands):
        """Sends the commands in pieces that the pipeline takes, and finds one match for each."""
        found = []
        for at in range(0, len(commands), 500):
            piece = commands[at:at + 500]
            self.socket.sendall(b"".join(piece))
            matches = []
            while len(matches) < len(piece):
                self.buffer += self.socket.recv(1 << 20)
                matches = pattern.findall(self.buffer)
            self.buffer = b""
            found += matches
        return found

    def acquire(self, name, ttl_ms):
        """As a client that acknowledges its answers."""
        self.sequence += 1
        return self.encode(b"HOLDFAST.ACQUIRE", name, b"TTL", b"%d" % ttl_ms, b"REQUEST",
                           b"%d" % self.sequence, b"CLIENT", b"figures",
                           b"%d" % self.sequence, b"%d" % max(1, self.sequence - 1000))


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def steady(binary, folder):
    """20,000 leases renewed each 10 s, and 2,000 acquires and releases a second, open loop."""
    rows = {}
    for name, size in (("without snapshots", "1024GiB"), ("with snapshots", "16MiB")):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            server = Server(binary, place, f"snapshot_bytes={size}")
            ids = ("--request-ids", "remembered", "--resources", "100000", "--quiet")
            while server.metrics()["holdfast_request_ids"] < 1_200_000:  # 10 minutes of 2,000/s
                server.call("bench", "locks", "--mode", "shared", "--concurrency", "256", *ids,
                            "--warm-up", "0s", "--duration", "5s")
            before, cpu = server.metrics(), server.cpu_seconds()
            # The warm-up is long enough to take the 20,000 leases and to work off what they delayed.
            report = server.call("bench", "locks", "--mode", "stream", "--rate", "2000",
                                 "--concurrency", "256", "--holds", "20000", *ids, "--warm-up", "25s", "--duration", "30s")
            after, spent = server.metrics(), server.cpu_seconds() - cpu
            done = sum(after[f'holdfast_operations_total{{kind="{kind}"}}'] -
                       before[f'holdfast_operations_total{{kind="{kind}"}}']
                       for kind in ("command", "read"))
            grown = {key: after[key] - before[key] for key in after if key in before}
            rows[name] = {
                "acquire_p50_ms": report["acquire"]["p50_ms"],
                "acquire_p99_ms": report["acquire"]["p99_ms"],
                "acquire_p999_ms": report["acquire"]["p999_ms"],
                "errors": report["errors"], "refusals": report["refusals"],
                "operations": done, "cpu_us_per_operation": spent / done * 1e6,
                "log_bytes_per_operation": grown["holdfast_journal_bytes_total"] / done,
                "syncs_per_operation": grown["holdfast_journal_syncs_total"] / done,
                "resident_mb": server.resident_mb(), "request_ids": after["holdfast_request_ids"],
                "snapshots": after["holdfast_snapshot_index"] > before["holdfast_snapshot_index"]}
            server.stop()
    return rows


def waiters(binary, folder):
    """1,000 waiters on one lock, each of which releases at once."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        server = Server(binary, place)
        connection = Connection(server, version=3)
        lease = connection.all_of(LEASE, [connection.acquire(b"hot", 60000)])[0]
        for number in range(1000):
            connection.send(b"HOLDFAST.ACQUIRE", b"hot", b"TTL", b"60000", b"WAIT", b"600000",
                            b"ASYNC", b"REQUEST", b"w%d" % number)
        connection.until(lambda data: data.count(b"PENDING") == 1000)
        connection.buffer = b""
        order, took, pushes = [], [], 0
        before = server.metrics()
        for _ in range(1000):
            began = time.monotonic()
            connection.send(b"HOLDFAST.RELEASE", b"hot", lease)
            connection.until(lambda data: PUSH.search(data) and b"RELEASED" in data)
            took.append((time.monotonic() - began) * 1e3)
            request, outcome, lease = PUSH.search(connection.buffer).groups()
            pushes += connection.buffer.count(b"holdfast.outcome")
            order.append((request, outcome))
            connection.buffer = b""
        after = server.metrics()
        server.stop()
        grown = after['holdfast_operations_total{kind="command"}'] - before[
            'holdfast_operations_total{kind="command"}']
        return {"in_order": order == [(b"w%d" % n, b"GRANTED") for n in range(1000)],
                "messages_to_waiters": pushes, "commands": grown,
                "hand_over_p50_ms": statistics.median(took), "hand_over_p99_ms": quantile(took, .99),
                "first_100_p50_ms": statistics.median(took[:100]),
                "last_100_p50_ms": statistics.median(took[-100:])}


def expiry(binary, folder, leases=100_000, clients=1000):
    """100,000 leases that end within the same second, while 1,000 clients work."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        server = Server(binary, place)
        load = ("bench", "locks", "--mode", "stream", "--concurrency", str(clients), "--quiet",
                "--warm-up", "2s", "--duration", "10s")
        calm = server.call(*load)
        connection = Connection(server)
        end = time.monotonic() + 22
        for at in range(0, leases, 500):
            left = int((end - time.monotonic()) * 1000)
            connection.all_of(LEASE, [connection.acquire(b"mass/%d" % n, left)
                                      for n in range(at, at + 500)])
        loading = subprocess.Popen(server.words(*load[:-2], "--duration", "15s"),
                                   stdout=subprocess.PIPE)
        held, lag = leases, 0.0
        while held > 2 * clients:
            now = server.metrics()
            held, lag = now["holdfast_holds"], max(lag, now["holdfast_expiry_lag_seconds"])
        gone = time.monotonic() - end
        busy = json.loads(loading.communicate()[0])
        server.stop()
        return {"all_gone_after_s": gone, "expiry_lag_max_s": lag,
                "calm": {key: calm["pair"][key] for key in ("p50_ms", "p99_ms", "p999_ms")},
                "during": {key: busy["pair"][key] for key in ("p50_ms", "p99_ms", "p999_ms")},
                "longest_gap_ms": {"calm": calm["longest_gap_ms"], "during": busy["longest_gap_ms"]},
                "pairs_per_s": {"calm": calm["pairs_per_s"], "during": busy["pairs_per_s"]},
                "errors": busy["errors"]}


def leak(binary, folder, names=1_000_000, waits=10_000):
    """Locks under new names, then waiters that come and go."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        server = Server(binary, place, "snapshot_bytes=64MiB")
        # Ids are remembered for so long: what they take is given back within the run.
        server.call("namespace", "set", "default", "--request-memory", "30s")
        connection = Connection(server)
        streams = [key for key in server.metrics() if key.startswith("holdfast_front_open_")]

        def cycle(label, count):
            for at in range(0, count, 500):
                keys = [b"%b/%d" % (label, n) for n in range(at, min(count, at + 500))]
                got = connection.all_of(LEASE, [connection.acquire(key, 30000) for key in keys])
                connection.all_of(ANSWER, [connection.encode(b"HOLDFAST.RELEASE", key, lease)
                                           for key, lease in zip(keys, got)])

        def look():
            now = server.metrics()
            return {"resident_mb": server.resident_mb(), "descriptors": server.descriptors(),
                    "holds": now["holdfast_holds"], "waiters": now["holdfast_waiters"],
                    "resources": now["holdfast_resources"],
                    "request_ids": now["holdfast_request_ids"],
                    "open": sum(now[key] for key in streams)}

        cycle(b"first", 600_000)  # what is bounded is full after this: history, snapshots, arenas
        begin = look()
        cycle(b"second", names)
        between = look()
        connection.all_of(LEASE, [connection.acquire(b"hot", 300_000)])
        for round_number in range(waits // 1000):
            others = [Connection(server, version=3) for _ in range(100)]
            for number, other in enumerate(others):
                for wait in range(10):
                    other.send(b"HOLDFAST.ACQUIRE", b"hot", b"TTL", b"30000", b"WAIT", b"600000",
                               b"ASYNC", b"REQUEST", b"r%d-%d-%d" % (round_number, number, wait))
            for other in others:
                other.until(lambda data: data.count(b"PENDING") == 10)
                other.socket.close()
        end = time.monotonic() + 180
        while (((after := look())["waiters"] > 0 or after["request_ids"] > begin["request_ids"] + 2000)
               and time.monotonic() < end):
            time.sleep(0.2)
        server.stop()
        return {"begin": begin, "after_names": between, "after_waiters": after,
                "resident_growth_percent": (after["resident_mb"] / begin["resident_mb"] - 1) * 100}


FIGURES = {"steady": steady, "waiters": waiters, "expiry": expiry, "leak": leak}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("holdfast")
    parser.add_argument("figures", nargs="*", help=", ".join(FIGURES) + " (all)")
    parser.add_argument("--work-dir", default=".", help="on a disk")
    parser.add_argument("--json", help="file for the results")
    options = parser.parse_args()
    if unknown := set(options.figures) - set(FIGURES):
        parser.error(f"no such figure: {', '.join(sorted(unknown))}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 20_000)), hard))
    results = {}
    for name in options.figures or FIGURES:
        results[name] = FIGURES[name](os.path.abspath(options.holdfast), options.work_dir)
        print(name, json.dumps(results[name], indent=2), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=2)


if __name__ == "__main__":
    main()
