"""Three etcd members and three Holdfast nodes on loopback, for tests and for development.

usage: cluster.py HOLDFAST    runs one until it is interrupted (`./dev cluster`)
"""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import harness


class Etcd:
    """A cluster of real etcd members."""

    def __init__(self, folder, size=3, links=None, words=()):
        """`links`: each member reaches each other one over a link, `peer_links[from][to]`."""
        self.folder, self.words = folder, words
        ports = []
        while len(ports) < 2 * size:
            port = harness.free_port()
            if port not in ports:
                ports.append(port)
        self.clients = [f"127.0.0.1:{port}" for port in ports[:size]]
        self.listens = [f"127.0.0.1:{port}" for port in ports[size:]]
        self.processes = [None] * size
        self.peers, self.peer_links = self.listens, []
        self.token = folder
        if links is not None:
            fans = [links.fan(address, {i: f"e{i}->e{number}" for i in range(size)}, self._numbers)
                    for number, address in enumerate(self.listens)]
            self.peers = [fan.address for fan in fans]
            self.peer_links = [[fan.links[number] for fan in fans] for number in range(size)]
        for number in range(size):
            self.start(number)
        harness.wait_until(lambda: self.leader() is not None, "a leader of etcd")

    def _numbers(self):
        return {process.pid: number for number, process in enumerate(self.processes) if process is not None}

    def data_dir(self, number):
        return os.path.join(self.folder, f"etcd{number}")

    def initial_cluster(self):
        return ",".join(f"e{i}=http://{peer}" for i, peer in enumerate(self.peers))

    def start(self, number):
        client = f"http://{self.clients[number]}"
        with open(os.path.join(self.folder, f"etcd{number}.log"), "ab") as log:
            self.processes[number] = subprocess.Popen(
                ["etcd", "--name", f"e{number}", "--data-dir", self.data_dir(number),
                 "--listen-client-urls", client, "--advertise-client-urls", client,
                 "--listen-peer-urls", f"http://{self.listens[number]}",
                 "--initial-advertise-peer-urls", f"http://{self.peers[number]}",
                 "--initial-cluster", self.initial_cluster(), "--initial-cluster-token", self.token,
                 "--snapshot-count", "10000", "--heartbeat-interval", "50",
                 "--election-timeout", "500", *self.words], stdout=log, stderr=log)

    def call(self, number, path, body=None, timeout=5):
        """The answer of a member's JSON gateway. OSError also if etcd refuses; its text is etcd's."""
        request = urllib.request.Request(f"http://{self.clients[number]}/v3/{path}",
                                         json.dumps(body or {}).encode())
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise OSError(error.read().decode(errors="replace")) from error

    def leader(self):
        """The number of the member that leads, as the others see it."""
        members = {}
        leaders = []
        for number in range(len(self.clients)):
            with contextlib.suppress(OSError, ValueError, KeyError):
                status = self.call(number, "maintenance/status", timeout=1)
                members[status["header"]["member_id"]] = number
                leaders.append((int(status["raftTerm"]), status["leader"]))
        return members.get(max(leaders)[1]) if leaders else None

    def revision(self):
        """Of a member that answers."""
        for number in range(len(self.clients)):
            with contextlib.suppress(OSError, ValueError, KeyError):
                return int(self.call(number, "maintenance/status", timeout=1)["header"]["revision"])
        raise OSError("no member of etcd answers")

    def entries(self, prefix="/holdfast/log/"):
        """The keys below `prefix` in order, each as etcd gives it, without the values."""
        def code(text):
            return base64.b64encode(text.encode()).decode()
        # "0" is the character after "/".
        wanted = {"key": code(prefix), "range_end": code(prefix[:-1] + "0"), "keys_only": True}

        def listed():
            with contextlib.suppress(OSError, ValueError):  # such as in an election
                return [self.call(0, "kv/range", wanted).get("kvs", [])]
            return None
        return harness.wait_until(listed, "etcd lists the log")[0]

    def kill(self, number):
        self.processes[number].kill()
        self.processes[number].wait()

    def replace(self):
        """By an empty cluster at the same addresses."""
        for number in range(len(self.processes)):
            self.kill(number)
            shutil.rmtree(self.data_dir(number))
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

    def __init__(self, *words, size=3, links=None, etcd_words=()):
        """`links`: every node reaches every member and every other node over a link of its own,
        `store_links[node][member]` and `peer_links[from][to]`, and etcd's members reach each other so."""
        self.folder = tempfile.mkdtemp(prefix="holdfast-cluster-")
        self.etcd = Etcd(self.folder, links=links, words=etcd_words)
        self.links = links
        self.store_links, fans = [], []
        self.nodes = []
        for number in range(size):
            listen = f"127.0.0.1:{harness.free_port()}"
            members, own = self.etcd.clients, ()
            if links is not None:
                ways = [links.add(member, f"n{number}->e{i}") for i, member in enumerate(members)]
                self.store_links.append([way.links[None] for way in ways])
                members = [way.address for way in ways]
                fans.append(links.fan(listen, {i: f"n{i}->n{number}" for i in range(size)}, self._numbers))
                own = ("--set", f"node.address={fans[-1].address}")
            resp = f"127.0.0.1:{harness.free_port()}"
            node = harness.Server(
                os.path.join(self.folder, f"node{number}"), "--etcd", ",".join(members),
                "--node", f"n{number}", "--zone", f"zone{number}",
                "--node-listen", listen, "--resp", resp, *own, *words,
                log=os.path.join(self.folder, f"node{number}.log"))
            node.resp = resp
            self.nodes.append(node)
        self.peer_links = [[fan.links[number] for fan in fans] for number in range(size)]
        self.wait_leader()

    def _numbers(self):
        return {node.process.pid: number for number, node in enumerate(self.nodes)}

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
