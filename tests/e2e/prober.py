"""Clients that lock and unlock all the time, one for each node, and remember when it worked."""

import contextlib
import socket
import threading
import time

def command(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)


def parse(data, at=0):
    """(value, end) of the RESP2 value at `at`; IndexError if it is not complete."""
    end = data.index(b"\r\n", at) if b"\r\n" in data[at:] else None
    if end is None:
        raise IndexError
    kind, line, at = data[at:at + 1], data[at + 1:end], end + 2
    if kind == b"-":
        raise ValueError(line)
    if kind == b"$" and int(line) >= 0:
        end = at + int(line)
        if len(data) < end + 2:
            raise IndexError
        return data[at:end], end + 2
    if kind == b"*":
        items = []
        for _ in range(int(line)):
            item, at = parse(data, at)
            items.append(item)
        return items, at
    return line, at


class Prober:
    """One client of the RESP front at `address`; names are its own."""

    def __init__(self, address, name, pause=0.005, patience=0.3):
        self.address, self.name = address, name.encode()
        self.pause, self.patience = pause, patience
        self.grants = []  # (sent, answered, token)
        self.sequence = 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.stop.is_set():
            with contextlib.suppress(OSError, ValueError, KeyError):
                host, _, port = self.address.rpartition(":")
                with socket.create_connection((host, int(port)), self.patience) as link:
                    link.settimeout(self.patience)
                    while not self.stop.is_set():
                        self._pair(link)
                        self.stop.wait(self.pause)
            self.stop.wait(self.pause)

    @staticmethod
    def _ask(link, *words):
        """The fields of the answer."""
        link.sendall(command(*words))
        data = b""
        while True:
            if not (more := link.recv(65536)):
                raise OSError("closed")
            data += more
            with contextlib.suppress(IndexError):
                items, _ = parse(data)
                return dict(zip(items[::2], items[1::2]))

    def _pair(self, link):
        self.sequence += 1
        resource = b"probe/%b/%d" % (self.name, self.sequence)
        sent = time.monotonic()
        answer = self._ask(link, b"HOLDFAST.ACQUIRE", resource, b"TTL", b"5000")
        if answer[b"outcome"] != b"GRANTED":
            raise ValueError(answer)
        self.grants.append((sent, time.monotonic(), int(answer[b"fencing_token"])))
        self._ask(link, b"HOLDFAST.RELEASE", resource, answer[b"lease_id"])

    def close(self):
        self.stop.set()
        self.thread.join()


def longest_gap(probers, begin, end):
    """The longest time in [begin, end] in which no node granted anything, in seconds."""
    times = sorted([begin, end] + [answered for prober in probers
                                   for _, answered, _ in prober.grants if begin <= answered <= end])
    return max(later - earlier for earlier, later in zip(times, times[1:]))


def tokens_rise(probers):
    """Whether a grant that was asked for after another had been answered has the larger token."""
    grants = sorted(grant for prober in probers for grant in prober.grants)
    by_answer = sorted(grants, key=lambda grant: grant[1])
    highest, at = 0, 0
    for sent, _, token in grants:
        while at < len(by_answer) and by_answer[at][1] < sent:
            highest = max(highest, by_answer[at][2])
            at += 1
        if token <= highest:
            return False
    return True
