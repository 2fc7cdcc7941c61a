"""Clients that work on a few locks, what they were told, and whether that can be true."""

import base64
import contextlib
import random
import socket
import threading
import time

from prober import command, parse

RESOURCES = 12
TTL_MS = 3000
ASKED_AT_END = 100


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

    def asked_again(self):
        with self.lock:
            self.unknown += 1

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
        if self.link is not None:
            self.link.close()

    def _ask(self, *words, patience=1.0):
        """The answer's fields, or its error; None if it is not known what became of it."""
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
        """Asks the same again until there is an answer: when the last was sent, and the answer or None."""
        while not self.stop.is_set():
            sent = time.monotonic()
            answer = self._ask(*words)
            if answer is not None and "error" not in answer:
                return sent, answer
            self.history.asked_again()
            self.stop.wait(0.05)
        return None, None

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
        sent, answer = self._until_known(*words)
        if answer is None or answer["outcome"] != b"GRANTED":
            return
        row = {"resource": resource, "request": request, "owner": self.name, "asked": first,
               "answered": time.monotonic(), "token": int(answer["fencing_token"]),
               "lease": answer["lease_id"].decode(),
               "until": sent + int(answer["remaining_ms"]) / 1000, "released": None,
               "node": self.node}
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


def check(history):
    """Adds what cannot be to history.violations."""
    check_tokens(history)
    by_resource = {}
    for row in history.grants:
        by_resource.setdefault(row["resource"], []).append(row)
    for resource, rows in by_resource.items():
        rows.sort(key=lambda row: row["token"])
        for earlier, later in zip(rows, rows[1:]):
            if later["answered"] < earlier["asked"]:
                history.violated(f"{resource}: token {later['token']} was granted before "
                                 f"{earlier['token']} was asked for")
            over = earlier["until"] if earlier["released"] is None else min(
                earlier["until"], earlier["released"])
            if later["answered"] < over:
                history.violated(
                    f"{resource}: token {later['token']} was granted {over - later['answered']:.3f} s "
                    f"before the lease of {earlier['token']} was over")


def check_tokens(history):
    """One counter for the log: no token twice, and who asked after an answer has a larger one."""
    seen = {}
    for row in history.grants:
        other = seen.setdefault(row["token"], row)
        if (other["resource"], other["lease"]) != (row["resource"], row["lease"]):
            history.violated(f"token {row['token']} twice: of {other['resource']} and of {row['resource']}")
    by_answer = sorted(history.grants, key=lambda row: row["answered"])
    highest, at = None, 0
    for row in sorted(history.grants, key=lambda row: row["asked"]):
        while by_answer[at]["answered"] < row["asked"]:
            if highest is None or by_answer[at]["token"] > highest["token"]:
                highest = by_answer[at]
            at += 1
        if highest is not None and row["token"] <= highest["token"]:
            history.violated(f"{row['resource']}: token {row['token']} was asked for after "
                             f"{highest['token']} of {highest['resource']} had been granted")


def check_log(history, entries):
    """Each slot of the log was written once, and none is missing between the first and the last."""
    names = [base64.b64decode(entry["key"]).decode().rpartition("/")[2] for entry in entries]
    indexes = [int(name, 16) for name in names]
    if not indexes or indexes != list(range(indexes[0], indexes[0] + len(indexes))):
        history.violated(f"the log has holes: {names}")
    for entry, name in zip(entries, names):
        if entry["version"] != "1":
            history.violated(f"slot {name} was written {entry['version']} times")


def check_end(cluster, history):
    """What was acknowledged is there: each request id still gives its lease, or says that it ended."""
    for row in history.grants[-ASKED_AT_END:]:
        answer = cluster.run("acquire", row["resource"], "--owner", row["owner"], "--request-id",
                             row["request"], "--ttl", f"{TTL_MS}ms", "-o", "json").json
        if answer.get("outcome") == "GRANTED" and answer["lease_id"] != row["lease"]:
            history.violated(f"request {row['request']} got a second lease")
        elif answer.get("outcome") not in ("GRANTED", "ENDED"):
            history.violated(f"request {row['request']} is forgotten: {answer}")
