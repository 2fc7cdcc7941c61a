"""Three etcd members and three Holdfast nodes on loopback, for tests and for development.

usage: cluster.py HOLDFAST    runs one until it is interrupted (`./dev cluster`)
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import harness


class Etcd:
    """A cluster of real etcd members."""

    def __init__(self, folder, size=3):
        self.folder = folder
        self.token = folder  # tells this cluster from others
        self.ports = []
        while len(self.ports) < 2 * size:
            port = harness.free_port()
            if port not in self.ports:
                self.ports.append(port)
        self.clients = [f"127.0.0.1:{port}" for port in self.ports[:size]]
        self.peers = [f"http://127.0.0.1:{port}" for port in self.ports[size:]]
        self.processes = [None] * size
        for number in range(size):
            self.start(number)
        harness.wait_until(lambda: self.leader() is not None, "a leader of etcd")

    def start(self, number):
        client, peer = f"http://{self.clients[number]}", self.peers[number]
        others = ",".join(f"e{i}={peer}" for i, peer in enumerate(self.peers))
        with open(os.path.join(self.folder, f"etcd{number}.log"), "ab") as log:
            self.processes[number] = subprocess.Popen(
                ["etcd", "--name", f"e{number}",
                 "--data-dir", os.path.join(self.folder, f"etcd{number}"),
                 "--listen-client-urls", client, "--advertise-client-urls", client,
                 "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                 "--initial-cluster", others, "--initial-cluster-token", self.token,
                 "--snapshot-count", "10000",
                 "--heartbeat-interval", "50", "--election-timeout", "500"], stdout=log, stderr=log)

    def leader(self):
        """The number of the member that leads, as the others see it."""
        for client in self.clients:
            with contextlib.suppress(OSError, ValueError):
                request = urllib.request.Request(f"http://{client}/v3/maintenance/status", b"{}")
                with urllib.request.urlopen(request, timeout=1) as answer:
                    status = json.load(answer)
                if not status.get("leader"):
                    continue
                for number, other in enumerate(self.clients):
                    with contextlib.suppress(OSError, ValueError):
                        ask = urllib.request.Request(f"http://{other}/v3/maintenance/status", b"{}")
                        with urllib.request.urlopen(ask, timeout=1) as answer:
                            if json.load(answer)["header"]["member_id"] == status["leader"]:
                                return number
        return None

    def kill(self, number):
        self.processes[number].kill()
        self.processes[number].wait()

    def replace(self):
        """By an empty cluster at the same addresses."""
        for number in range(len(self.processes)):
            self.kill(number)
            shutil.rmtree(os.path.join(self.folder, f"etcd{number}"))
        self.token += "+"
        for number in range(len(self.processes)):
            self.start(number)
        harness.wait_until(lambda: self.leader() is not None, "a leader of etcd")

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


class Cluster:
    """Holdfast nodes over an etcd cluster. Somebody leads when the constructor returns."""

    def __init__(self, *words, size=3, links=None):
        """`links`: each node reaches each etcd member over a link of its own."""
        self.folder = tempfile.mkdtemp(prefix="holdfast-cluster-")
        self.etcd = Etcd(self.folder)
        self.links = links
        self.node_links = []
        self.words = words
        self.nodes = []
        for number in range(size):
            resp = f"127.0.0.1:{harness.free_port()}"
            members = self.etcd.clients
            if links is not None:
                self.node_links.append([links.add(member) for member in members])
                members = [link.address for link in self.node_links[-1]]
            node = harness.Server(
                os.path.join(self.folder, f"node{number}"), "--etcd", ",".join(members),
                "--node", f"n{number}", "--zone", f"zone{number}",
                "--node-listen", f"127.0.0.1:{harness.free_port()}", "--resp", resp, *words,
                log=os.path.join(self.folder, f"node{number}.log"))
            node.resp = resp
            self.nodes.append(node)
        self.wait_leader()

    @property
    def endpoints(self):
        return ",".join(node.address for node in self.nodes)

    def run(self, *words, **options):
        return harness.run(*harness.with_options(words, "--endpoints", self.endpoints), **options)

    def json(self, *words, code=0):
        answer = self.run(*harness.with_options(words, "-o", "json"))
        if answer.code != code:
            raise AssertionError(f"{words}: exit {answer.code}, expected {code}\n{answer}\n{self.logged()}")
        return answer.json

    def status(self, number):
        answer = self.nodes[number].run("status", "-o", "json", "--timeout", "500ms")
        return answer.json if answer.code == 0 else None

    def leader(self):
        """The number of the node that leads in the newest epoch; None if nobody does."""
        best, epoch = None, -1
        for number, node in enumerate(self.nodes):
            if node.process.poll() is None and (status := self.status(number)):
                if status["role"] == "leader" and int(status["epoch"]) > epoch:
                    best, epoch = number, int(status["epoch"])
        return best

    def wait_leader(self, but=None):
        def other():
            leader = self.leader()
            return None if leader is None or leader == but else leader + 1
        return harness.wait_until(other, f"a leader\n{self.logged()}") - 1

    def gap(self, provoke):
        """Seconds from provoke() until a new lock is granted at some node again."""
        name = f"gap-{time.monotonic_ns()}"
        provoke()
        begun = time.monotonic()
        while self.run("acquire", name, "--timeout", "20s").code != 0:
            if time.monotonic() - begun > harness.DEADLINE:
                raise AssertionError(f"nothing is granted any more\n{self.logged()}")
        return time.monotonic() - begun

    def logged(self):
        return "\n".join(f"--- {node.log}\n{node.logged()[-2000:]}" for node in self.nodes)

    def close(self):
        for node in self.nodes:
            if node.process.poll() is None:
                node.process.kill()
            node.process.wait()
        self.etcd.close()
        if self.links is not None:
            self.links.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    harness.BINARY = os.path.abspath(sys.argv[1])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    cluster = Cluster()
    try:
        print(f"etcd: {','.join(cluster.etcd.clients)}\nlogs: {cluster.folder}")
        for number, node in enumerate(cluster.nodes):
            print(f"n{number}: {node.address}, process {node.process.pid}")
        print(f"export HOLDFAST_ENDPOINTS={cluster.endpoints}\nEnds with Ctrl-C.", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
