"""Holders that are paused, waiters that die, replies that are lost, endpoints that are silent: the
scenarios of docs/FAULTS.md that need no restart, on real processes."""

import contextlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import harness
from fenced_store import Store
from proxy import Proxy
from resp_test import RespTest

FOLDER = os.path.dirname(os.path.abspath(__file__))
INTERVAL = 1.0  # longest interval between two batches, docs/SEMANTICS.md
SLACK = 1.0     # of a loaded machine, between a grant and our look at it


def boot_time():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def family(pid):
    """The process and everything below it, parents first."""
    found = [pid]
    for process in found:
        with contextlib.suppress(OSError):
            with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as file:
                found += [int(child) for child in file.read().split()]
    return found


def reply_of(connection):
    """The next of pipelined answers in version 2."""
    reply = connection.reply()
    return dict(zip(reply[::2], reply[1::2]))


class FaultCase(RespTest):
    def start(self, *policy, delay="0s", words=()):
        self.holdfast = self.resp_server(*words)
        self.holdfast.json("namespace", "set", "default", "--ttl-min", "100ms", "--lock-delay", delay,
                           *policy)
        self.admin = self.connect()

    def lease_end(self, name):
        """The earliest moment at which another can be granted, as things are now."""
        before = boot_time()
        return before + self.admin.outcome("HOLDFAST.DESCRIBE", name)["holder_left_ms"] / 1000

    def holder(self, name):
        described = self.admin.outcome("HOLDFAST.DESCRIBE", name)
        return described.get("holder_owner"), described.get("holder_fencing_token")

    def queue_length(self, name):
        return self.admin.outcome("HOLDFAST.DESCRIBE", name)["queue_length"]

    def wait_queued(self, name, count):
        harness.wait_until(lambda: self.queue_length(name) == count, f"{count} wait for {name}")

    def acquire(self, name, *words):
        granted = self.admin.outcome("HOLDFAST.ACQUIRE", name, *words)
        self.assertEqual(granted["outcome"], "GRANTED", granted)
        return granted

    def elect(self, *options, name="main", endpoints=None):
        call = harness.Background(["elect", name, "--value", "v", "--endpoints",
                                   endpoints or self.holdfast.address, "-o", "json", *options])
        self.addCleanup(call.close)
        line = call.wait_line(lambda line: "LEADING" in line, "LEADING")
        return call, json.loads(line)


class PausedHolder(FaultCase):
    def test_a_paused_holder_is_fenced(self):
        self.start("--protection", "fenced")
        store = Store(self.path("store"))
        paused, lead = self.elect("--ttl", "1s")
        first = int(lead["fencing_token"])
        self.assertTrue(store.write(first))
        other = self.connect(3)
        other.call("HOLDFAST.ACQUIRE", "main", "OWNER", "other", "WAIT", 30000, "ASYNC", "REQUEST", "r")
        self.wait_queued("main", 1)
        paused.send(signal.SIGSTOP)
        end = self.lease_end("main")
        grant = other.push()[2]
        granted = boot_time()
        self.assertEqual(grant["outcome"], "GRANTED", grant)
        self.assertTrue(end <= granted <= end + INTERVAL + SLACK, (end, granted))
        second = grant["fencing_token"]
        self.assertGreater(second, first)
        self.assertEqual(other.outcome("HOLDFAST.RENEW", "main", grant["lease_id"])["outcome"], "RENEWED")
        self.assertTrue(store.write(second))

        self.assertFalse(store.write(first))
        self.assertEqual(self.admin.outcome("HOLDFAST.CHECK", "main", first)["verdict"], "OLD")
        self.assertEqual(self.holdfast.run("check-token", "main", str(first)).code, 76)
        renewed = self.admin.outcome("HOLDFAST.RENEW", "main", lead["lease_id"])
        self.assertEqual((renewed["outcome"], renewed["cause"]), ("NOT_RENEWED", "EXPIRED"))
        released = self.admin.outcome("HOLDFAST.RELEASE", "main", lead["lease_id"])
        self.assertEqual((released["outcome"], released["cause"]), ("NOT_RELEASED", "EXPIRED"))
        self.assertEqual(self.holder("main"), ("other", second))
        paused.send(signal.SIGCONT)
        self.assertEqual(paused.wait().code, 76)
        self.assertEqual(self.holder("main"), ("other", second))

    def test_a_holder_that_wakes_after_its_ttl_is_lost_at_once(self):
        """Nobody but its own clock can tell it: the server is stopped before it wakes."""
        self.start()
        paused, _ = self.elect("--ttl", "1s")
        paused.send(signal.SIGSTOP)
        end = self.lease_end("main")
        harness.wait_until(lambda: boot_time() > end, "the lease is over")
        self.holdfast.process.send_signal(signal.SIGSTOP)
        self.addCleanup(self.holdfast.process.send_signal, signal.SIGCONT)
        woken = boot_time()
        paused.send(signal.SIGCONT)
        line = json.loads(paused.wait_line(lambda line: "LEADING" not in line and "CAMPAIGNING" not in line,
                                           "what it says next"))
        self.assertEqual((line["state"], line["cause"]), ("LOST", "EXPIRED"))
        self.assertLess(boot_time() - woken, SLACK)
        self.assertEqual(paused.wait().code, 76)

    def test_a_paused_command_writes_nothing_that_the_store_takes(self):
        """All processes of `holdfast lock` stand still, as in a paused machine."""
        self.start("--protection", "fenced")
        store = Store(self.path("store"))
        call = harness.Background(["lock", "main", "--ttl", "1s", "--endpoints", self.holdfast.address, "--",
                                   sys.executable, os.path.join(FOLDER, "fenced_store.py"), store.path])
        self.addCleanup(call.close)
        harness.wait_until(store.attempts, "it writes")
        first = self.holder("main")[1]
        processes = family(call.process.pid)
        self.assertGreaterEqual(len(processes), 3)
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        grant = self.connect().outcome("HOLDFAST.ACQUIRE", "main", "OWNER", "other", "WAIT", 30000)
        self.assertEqual(grant["outcome"], "GRANTED", grant)
        # The writer may have been stopped with the lock of the file in its hands.
        os.kill(processes[-1], signal.SIGKILL)
        self.assertTrue(store.write(grant["fencing_token"]))
        late = subprocess.Popen([sys.executable, os.path.join(FOLDER, "fenced_store.py"), store.path],
                                env={**os.environ, "HOLDFAST_FENCING_TOKEN": str(first)})
        self.addCleanup(late.wait)
        self.addCleanup(late.kill)
        for process in processes[:-1]:
            os.kill(process, signal.SIGCONT)
        self.assertEqual(call.wait().code, 76)
        harness.wait_until(lambda: (first, False) in store.attempts(), "a late write")
        accepted = [token for token, taken in store.attempts() if taken]
        self.assertEqual(accepted, sorted(accepted))


class DeadWaiter(FaultCase):
    VERBS = {"lock": ("HOLDFAST.ACQUIRE",), "election": ("HOLDFAST.CAMPAIGN",)}

    def test_a_waiter_whose_session_died_never_wins(self):
        self.start()
        for name, (verb,) in self.VERBS.items():
            value = ("VALUE", "v") if name == "election" else ()
            held = self.admin.outcome(verb, name, *value, "OWNER", "a", "TTL", 60000)
            sent = boot_time()
            session = self.admin.outcome("HOLDFAST.SESSION.OPEN", "TTL", 500)["session_id"]
            dead, alive = self.connect(3), self.connect(3)
            dead.call(verb, name, *value, "OWNER", "b", "SESSION", session, "WAIT", 60000, "ASYNC")
            self.wait_queued(name, 1)
            alive.call(verb, name, *value, "OWNER", "c", "WAIT", 60000, "ASYNC")
            refused = dead.push()[2]
            self.assertEqual(refused["outcome"], "SESSION_ENDED", refused)
            self.assertTrue(sent + 0.5 <= boot_time() <= sent + 0.5 + INTERVAL + SLACK)
            self.assertEqual((self.holder(name)[0], self.queue_length(name)), ("a", 1))
            self.admin.outcome("HOLDFAST.RELEASE", name, held["lease_id"])
            granted = alive.push()[2]
            self.assertEqual((granted["outcome"], granted["fencing_token"]),
                             ("GRANTED", held["fencing_token"] + 1))
            owners = [row["owner"] for row in self.holdfast.json("describe", name)["transitions"]]
            self.assertNotIn("b", owners)

    def test_sessions_that_end_around_the_release(self):
        """What was known to be over before a release was sent is never granted by it."""
        self.start()
        count, ttl, step = 300, 1.0, 0.004
        waiters = self.connect(3)
        ends = []
        for i in range(count):
            self.admin.send("HOLDFAST.ACQUIRE", f"l/{i}", "OWNER", "a", "TTL", 60000)
        held = [reply_of(self.admin)["lease_id"] for _ in range(count)]
        opened = boot_time()
        for i in range(count):
            self.admin.send("HOLDFAST.SESSION.OPEN", "TTL", int((ttl + i * step) * 1000))
            ends.append(opened + ttl + i * step)
        sessions = [reply_of(self.admin)["session_id"] for _ in range(count)]
        for i in range(count):
            waiters.send("HOLDFAST.ACQUIRE", f"l/{i}", "SESSION", sessions[i], "OWNER", "b", "WAIT", 60000,
                         "ASYNC", "REQUEST", f"b/{i}")
            waiters.send("HOLDFAST.ACQUIRE", f"l/{i}", "OWNER", "c", "WAIT", 60000, "ASYNC", "REQUEST", f"c/{i}")
        for _ in range(2 * count):
            self.assertEqual(waiters.reply()["outcome"], "PENDING")
        alive = {}
        # Some milliseconds before or after its end; both happen, see the end of the test.
        queue = sorted((end + random.uniform(-0.05, 0.02), i) for i, end in enumerate(ends))
        while queue:
            due = [i for at, i in queue if at <= boot_time()]
            queue = queue[len(due):]
            for i in due:
                self.admin.send("HOLDFAST.SESSION.DESCRIBE", sessions[i])
            for i in due:
                alive[i] = reply_of(self.admin)["alive"]
            for i in due:
                self.admin.send("HOLDFAST.RELEASE", f"l/{i}", held[i])
            for i in due:
                self.assertEqual(reply_of(self.admin)["outcome"], "RELEASED")
            self.admin.call("PING")
        outcomes = self.outcomes(waiters, count)
        for i in range(count):
            b, c = outcomes.get(f"b/{i}"), outcomes.get(f"c/{i}")
            if b == "GRANTED":
                self.assertEqual(alive[i], 1, f"l/{i} was granted to a session that was over")
            else:
                self.assertEqual((b, c), ("SESSION_ENDED", "GRANTED"))
        self.assertGreater(list(outcomes.values()).count("SESSION_ENDED"), 10)
        self.assertGreater(sum(outcomes[f"b/{i}"] == "GRANTED" for i in range(count)), 10)

    @staticmethod
    def outcomes(connection, count):
        """Until everybody called b has an answer, and c where b was refused."""
        found, missing = {}, {f"b/{i}" for i in range(count)}
        while missing:
            _, request, outcome = connection.push()
            found[request] = outcome["outcome"]
            missing.discard(request)
            if request.startswith("b/") and outcome["outcome"] != "GRANTED":
                if "c" + request[1:] not in found:
                    missing.add("c" + request[1:])
        return found


class LostReply(FaultCase):
    def deaf(self):
        """A connection on which commands arrive, and no answer comes back."""
        proxy = Proxy(int(self.resp_address.rsplit(":", 1)[1]))
        self.addCleanup(proxy.close)
        proxy.delay = 3600
        real, self.resp_address = self.resp_address, proxy.address
        try:
            return self.connect()
        finally:
            self.resp_address = real

    ASK = ("HOLDFAST.ACQUIRE", "a", "OWNER", "one", "TTL", 60000, "REQUEST", "r")
    CLI = ("acquire", "a", "--owner", "one", "--ttl", "60s", "--request-id", "r")

    def test_an_acquire_whose_reply_was_lost(self):
        self.start()
        self.deaf().send(*self.ASK)
        harness.wait_until(lambda: self.holder("a")[0] == "one", "it was granted")
        token = self.holder("a")[1]
        again = self.admin.outcome(*self.ASK)
        self.assertEqual((again["outcome"], again["fencing_token"]), ("GRANTED", token))
        self.holdfast.restart()
        harness.wait_until(self.answers, "the RESP listener")
        self.admin = self.connect()
        # Through another front, too.
        self.assertEqual(self.holdfast.json(*self.CLI)["lease_id"], again["lease_id"])
        self.assertEqual(self.admin.outcome(*self.ASK)["fencing_token"], token)

        for words in (("HOLDFAST.ACQUIRE", "other", "OWNER", "one", "TTL", 60000, "REQUEST", "r"),
                      (*self.ASK[:5], 50000, "REQUEST", "r"), (*self.ASK, "WAIT", 100),
                      (*self.ASK[:3], "two", *self.ASK[4:])):
            self.assertEqual(self.admin.outcome(*words)["outcome"], "REQUEST_ID_REUSED", words)
        self.admin.outcome("HOLDFAST.RELEASE", "a", again["lease_id"])
        following = self.acquire("a", "OWNER", "two")
        self.assertEqual(following["fencing_token"], token + 1)
        ended = self.admin.outcome(*self.ASK)
        self.assertEqual((ended["outcome"], ended["cause"]), ("ENDED", "RELEASED"))
        self.assertEqual(self.holdfast.json(*self.CLI, code=76)["outcome"], "ENDED")
        self.assertEqual(self.holder("a"), ("two", token + 1))

    def test_a_session_that_holds_is_told_so(self):
        self.start()
        session = self.admin.outcome("HOLDFAST.SESSION.OPEN", "TTL", 60000)["session_id"]
        held = self.acquire("a", "SESSION", session, "REQUEST", "r1")
        second = self.admin.outcome("HOLDFAST.ACQUIRE", "a", "SESSION", session, "REQUEST", "r2", "WAIT", 60000)
        self.assertEqual(second["outcome"], "ALREADY_HELD")
        self.assertEqual(self.holder("a")[1], held["fencing_token"])

    def test_a_release_whose_reply_was_lost(self):
        self.start()
        held = self.acquire("a", "OWNER", "one")
        self.deaf().send("HOLDFAST.RELEASE", "a", held["lease_id"])
        harness.wait_until(lambda: self.holder("a")[0] is None, "it was released")
        following = self.acquire("a", "OWNER", "two")
        for _ in range(2):
            self.assertEqual(self.admin.outcome("HOLDFAST.RELEASE", "a", held["lease_id"])["outcome"],
                             "RELEASED")
        self.holdfast.restart()
        self.assertIs(self.holdfast.json("release", "a", "--lease-id", held["lease_id"])["released"], True)
        harness.wait_until(self.answers, "the RESP listener")
        self.admin = self.connect()
        self.assertEqual(self.holder("a"), ("two", following["fencing_token"]))

    def test_a_release_by_others_changes_nothing(self):
        self.start(words=("--audit-log", self.path("audit")))
        self.holdfast.json("namespace", "create", "other")
        held, another = self.acquire("a", "OWNER", "one"), self.acquire("b", "OWNER", "two")
        lease = held["lease_id"]
        flipped = ("1" if lease[0] != "1" else "2") + lease[1:]
        for words in (("a", flipped), ("a", "0" * 31 + "1"), ("a", another["lease_id"]), ("never", lease),
                      ("a", lease, "NAMESPACE", "other")):
            refused = self.admin.outcome("HOLDFAST.RELEASE", *words)
            self.assertEqual((refused["outcome"], refused["cause"]), ("NOT_RELEASED", "NEVER_HELD"), words)
        for wrong in (held["fencing_token"], "", "x"):
            self.assertIn("INVALIDARG", str(self.admin.call("HOLDFAST.RELEASE", "a", wrong)))
        self.assertEqual(self.holder("a"), ("one", held["fencing_token"]))
        with open(self.path("audit"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        refused = [line for line in lines if line.get("verb") == "RELEASE" and line["outcome"] != "RELEASED"]
        self.assertEqual(len(refused), 5, lines)


class Queue(FaultCase):
    COUNT, CLIENTS = 1000, 20

    def test_a_thousand_waiters(self):
        """In order of arrival without four of them, and nobody hears of a grant but the one who gets it."""
        self.start()
        held = self.acquire("a", "OWNER", "first", "TTL", 600000)
        watcher = self.connect(3)
        watcher.call("HOLDFAST.WATCH", "EXACT", "a")
        clients = [self.connect(3) for _ in range(self.CLIENTS)]
        session = self.admin.outcome("HOLDFAST.SESSION.OPEN", "TTL", 3000)["session_id"]
        owner = dict(enumerate(clients))
        self.ask(clients, range(699), ())
        self.wait_queued("a", 699)
        self.ask(clients, [699], ("SESSION", session))
        self.wait_queued("a", 700)
        self.ask(clients, range(700, self.COUNT), ())
        self.wait_queued("a", self.COUNT)
        full = self.admin.outcome("HOLDFAST.ACQUIRE", "a", "WAIT", 60000)
        self.assertEqual(full["outcome"], "QUEUE_FULL", full)
        arrived = [watcher.push()[2]["owner"] for _ in range(self.COUNT)]
        self.assertEqual(sorted(arrived), sorted(f"w{i}" for i in range(self.COUNT)))
        gone = {arrived[100]: "CANCELLED", arrived[500]: "CANCELLED", arrived[501]: "CANCELLED",
                "w699": "SESSION_ENDED"}
        self.assertEqual(arrived[699], "w699")
        for name in list(gone)[:3]:
            self.assertEqual(self.admin.outcome("HOLDFAST.CANCEL", "a", f"r{name[1:]}", "OWNER", name)["outcome"],
                             "WAITER_REMOVED")
        self.wait_queued("a", self.COUNT - len(gone))

        expected = [name for name in arrived if name not in gone]
        lease, token, granted = held["lease_id"], held["fencing_token"], []
        messages = dict.fromkeys(arrived, 0)
        for left, name in reversed(list(enumerate(reversed(expected)))):
            client = owner[int(name[1:]) % self.CLIENTS]
            self.admin.outcome("HOLDFAST.RELEASE", "a", lease)
            grant = self.granted(client, messages, gone)
            self.assertEqual(grant["request_id"], f"r{name[1:]}")
            token += 1
            self.assertEqual(grant["fencing_token"], token)
            lease = grant["lease_id"]
            granted.append(name)
            if left % 100 == 0:
                self.assertEqual(self.queue_length("a"), left)
        self.assertEqual(granted, expected)
        for client in clients:  # what else came, if anything did, came before this answer
            client.call("PING")
            for push in client.pushes:
                messages["w" + push[1][1:]] += 1
            client.pushes.clear()
        self.assertEqual(set(messages.values()), {1})

    def ask(self, clients, numbers, words):
        for i in numbers:
            clients[i % self.CLIENTS].send("HOLDFAST.ACQUIRE", "a", "OWNER", f"w{i}", *words, "WAIT", 600000,
                                           "ASYNC", "REQUEST", f"r{i}")
        for i in numbers:
            self.assertEqual(clients[i % self.CLIENTS].reply()["outcome"], "PENDING")

    def granted(self, client, messages, gone):
        while True:
            _, request, outcome = client.push()
            name = "w" + request[1:]
            messages[name] += 1
            if name not in gone:
                return outcome
            self.assertEqual(outcome["outcome"], gone[name])


class VanishedWaiters(FaultCase):
    def test_however_waiters_end_nothing_of_them_is_left(self):
        self.start("--detach-grace", "300ms",
                   words=("--set", "keepalive.time=1s", "--set", "keepalive.timeout=500ms"))
        held = self.acquire("a", "OWNER", "first", "TTL", 600000)
        session = self.admin.outcome("HOLDFAST.SESSION.OPEN", "TTL", 500)["session_id"]
        before = len(os.listdir(f"/proc/{self.holdfast.process.pid}/fd"))
        blackhole = Proxy(self.holdfast.port)
        self.addCleanup(blackhole.close)
        calls = [self.wait_for_a("--endpoints", self.holdfast.address) for _ in range(4)]
        calls.append(self.wait_for_a("--endpoints", blackhole.address))
        self.wait_for_a("--endpoints", self.holdfast.address, wait="500ms")
        reset, half_closed = self.connect(), self.connect()
        on_session = self.connect(3)
        for connection in (reset, half_closed):
            connection.send("HOLDFAST.ACQUIRE", "a", "WAIT", 600000)
        on_session.call("HOLDFAST.ACQUIRE", "a", "SESSION", session, "WAIT", 600000, "ASYNC")
        harness.wait_until(lambda: self.queue_length("a") >= 7, "they wait")
        live = self.connect(3)
        live.call("HOLDFAST.ACQUIRE", "a", "OWNER", "live", "WAIT", 600000, "ASYNC")

        for call, number in zip(calls, (signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGSTOP)):
            call.send(number)
        blackhole.cut()
        reset.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        reset.close()
        half_closed.close()
        harness.wait_until(lambda: [row["owner"] for row in self.holdfast.json("describe", "a")["queue"]] ==
                           ["live"], "only the live one waits")
        self.assertEqual(self.holdfast.json("status")["waiters"], 1)
        self.assertEqual(on_session.push()[2]["outcome"], "SESSION_ENDED")
        self.admin.outcome("HOLDFAST.RELEASE", "a", held["lease_id"])
        self.assertEqual(live.push()[2]["fencing_token"], held["fencing_token"] + 1)
        for connection in (on_session, live):
            connection.close()
        # Those of the status calls may still be closing.
        harness.wait_until(lambda: len(os.listdir(f"/proc/{self.holdfast.process.pid}/fd")) <= before + 1,
                           "no connection is left")

    def wait_for_a(self, *words, wait="10m"):
        call = harness.Background(["acquire", "a", "--wait", wait, *words])
        self.addCleanup(call.close)
        return call


class Races(FaultCase):
    ROUNDS, LOCKS = 20, 100

    def test_no_renewal_after_a_release(self):
        self.start()
        renewer = subprocess.Popen([sys.executable, os.path.join(FOLDER, "renewer.py"), self.resp_address],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(renewer.stdout.close)
        self.addCleanup(renewer.wait)
        self.addCleanup(renewer.stdin.close)
        renewed = 0
        for number in range(self.ROUNDS):
            names = [f"{number}/{i}" for i in range(self.LOCKS)]
            for name in names:
                self.admin.send("HOLDFAST.ACQUIRE", name, "TTL", 60000)
            leases = {name: reply_of(self.admin)["lease_id"] for name in names}
            renewer.stdin.write(json.dumps(leases) + "\n")
            renewer.stdin.flush()
            self.assertEqual(renewer.stdout.readline(), "renewing\n")
            released = {}
            random.shuffle(names)
            for few in (names[i:i + 4] for i in range(0, len(names), 4)):
                for name in few:
                    self.admin.send("HOLDFAST.RELEASE", name, leases[name])
                for name in few:
                    self.assertEqual(reply_of(self.admin)["outcome"], "RELEASED")
                    released[name] = boot_time()
            for name, history in json.loads(renewer.stdout.readline()).items():
                outcomes = [outcome for _, outcome, _ in history]
                first = outcomes.index("NOT_RENEWED")
                renewed += first
                self.assertEqual(set(outcomes[:first]) | {"RENEWED"}, {"RENEWED"})
                self.assertEqual({tuple(row[1:]) for row in history[first:]}, {("NOT_RENEWED", "RELEASED")})
                late = [row for row in history[:first] if row[0] > released[name]]
                self.assertEqual(late, [], "renewed, though asked after the release was answered")
            self.assertEqual(self.admin.outcome("HOLDFAST.LIST")["items"], [])
        self.assertGreater(renewed, self.ROUNDS * self.LOCKS)

    def test_a_client_renews_nothing_after_its_release(self):
        """Leaders resign at any moment between two renewals; the audit log has the order of the log."""
        self.start(words=("--audit-log", self.path("audit"), "--set", "audit_renewals=true"))
        for wave in range(2):
            leaders = [self.elect("--ttl", "400ms", name=f"{wave}/{i}")[0] for i in range(10)]
            for leader in leaders:
                until = boot_time() + random.uniform(0, 0.15)
                harness.wait_until(lambda: boot_time() >= until, "the moment")
                leader.send(signal.SIGTERM)
            for leader in leaders:
                self.assertEqual(leader.wait().code, 0)
        histories = {}
        with open(self.path("audit"), encoding="utf-8") as file:
            for line in map(json.loads, file):
                if line.get("verb") in ("RENEW", "RELEASE"):
                    histories.setdefault(line["lease_fp"], []).append((line["verb"], line["outcome"]))
        self.assertEqual(len(histories), 20)
        for history in histories.values():
            self.assertEqual(history[-1], ("RELEASE", "RELEASED"))
            self.assertEqual(set(history[:-1]) | {("RENEW", "RENEWED")}, {("RENEW", "RENEWED")})
        self.assertGreater(sum(map(len, histories.values())), 40)


class SilentEndpoint(FaultCase):
    """The first of two endpoints accepts connections, and never answers."""

    BOUND = 3.0 + 3 * SLACK  # one attempt, then the second endpoint

    def setUp(self):
        super().setUp()
        self.start()
        self.accepted = []
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.addCleanup(listener.close)
        self.silent = f"127.0.0.1:{listener.getsockname()[1]}"
        threading.Thread(target=self.accept, args=(listener,), daemon=True).start()
        self.addCleanup(lambda: [one.close() for one in self.accepted])
        self.both = f"{self.silent},{self.holdfast.address}"

    def accept(self, listener):
        with contextlib.suppress(OSError):
            while True:
                self.accepted.append(listener.accept()[0])

    def test_each_verb_goes_on_with_the_second(self):
        begin = boot_time()
        calls = [harness.Background(harness.with_options(words, "--endpoints", self.both))
                 for words in (("acquire", "a"), ("lock", "b", "--", "true"), ("describe", "c"))]
        for call in calls:
            self.addCleanup(call.close)
        _, lead = self.elect("--ttl", "1s", endpoints=self.both)
        for call in calls:
            answer = call.wait()
            self.assertEqual(answer.code, 0, answer)
        leading = boot_time()
        self.assertLess(leading - begin, self.BOUND)
        self.assertGreaterEqual(len(self.accepted), 4, "the silent one was asked first")
        harness.wait_until(lambda: boot_time() > leading + 2, "two leases")
        self.assertEqual(self.holder("main")[1], int(lead["fencing_token"]))

    def test_alone_it_is_unavailable_within_the_timeout(self):
        begin = boot_time()
        answer = harness.run("acquire", "a", "--endpoints", self.silent, "--timeout", "1s", "-o", "json")
        self.assertIn(answer.code, (69, 74), answer)
        self.assertLess(boot_time() - begin, 1 + SLACK)

    def test_an_endpoint_that_falls_silent_loses_no_lease(self):
        """The connection that a holder renews on goes dead; it renews on the other endpoint in time."""
        first = Proxy(self.holdfast.port)
        self.addCleanup(first.close)
        both = f"{first.address},{self.holdfast.address}"
        leader, lead = self.elect("--ttl", "2s", endpoints=both)
        call = harness.Background(["lock", "b", "--ttl", "2s", "--endpoints", both, "--", "sh", "-c",
                                   "echo working; exec tail -f /dev/null"])
        self.addCleanup(call.close)
        call.wait_line(lambda line: line == "working", "the command")
        token = self.holder("b")[1]
        first.cut()
        cut = boot_time()
        harness.wait_until(lambda: boot_time() > cut + 4, "two leases")
        self.assertEqual(self.holder("main")[1], int(lead["fencing_token"]))
        self.assertEqual((self.holder("b")[1], call.process.poll()), (token, None))
        self.assertEqual([line for line in leader.lines if "LOST" in line], [])

    def test_a_distant_service_can_be_reached(self):
        """Each answer takes 300 ms, the handshake of a connection more."""
        distant = Proxy(self.holdfast.port)
        self.addCleanup(distant.close)
        distant.delay = 0.3
        begin = boot_time()
        answer = harness.run("acquire", "a", "--endpoints", distant.address)
        self.assertEqual(answer.code, 0, answer)
        self.assertLess(boot_time() - begin, 1 + SLACK)
        _, lead = self.elect("--ttl", "3s", endpoints=distant.address)
        leading = boot_time()
        harness.wait_until(lambda: boot_time() > leading + 4, "two leases")
        self.assertEqual(self.holder("main")[1], int(lead["fencing_token"]))


if __name__ == "__main__":
    harness.main()
