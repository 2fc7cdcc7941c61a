#!/usr/bin/env python3
"""Takes a lock, and writes to a store that checks fencing tokens for as long as it holds the lock.

It prints one line per step. SIGTERM makes it give the lock back. After it has lost the lock it writes
once more on purpose, as a process would that was paused just before a write: the store must refuse.
"""

import argparse
import os
import signal
import sys
import threading

import grpc

sys.path.insert(0, os.environ.get("HOLDFAST_GENERATED") or
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "generated"))

from lease import LeaseLost, NotAcquired, acquire, boot_time  # noqa: E402
from store import FencedStore, OldToken  # noqa: E402


def say(*words):
    print(*words, flush=True)


def work(lease, store, options, stopping):
    number = 0
    while not lease.lost.wait(options.interval) and not stopping.is_set():
        lease.ensure_held()
        number += 1
        store.write(lease.token, f"{options.owner} {number}")
        say("WROTE", lease.token, number)
        if number == options.writes:
            break
    if not stopping.is_set():
        lease.ensure_held()


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("resource")
    parser.add_argument("store", help="folder of the store")
    parser.add_argument("--endpoint", default="127.0.0.1:7420")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--owner", default=f"python {os.getpid()}")
    parser.add_argument("--ttl", type=float, default=30.0)
    parser.add_argument("--wait", type=float, default=0.0)
    parser.add_argument("--interval", type=float, default=0.5, help="between two writes")
    parser.add_argument("--writes", type=int, default=0, help="stop after so many (default: never)")
    return parser.parse_args()


def main():
    options = parse()
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    store = FencedStore(options.store)
    with grpc.insecure_channel(options.endpoint) as channel:
        try:
            lease = acquire(channel, options.resource, namespace=options.namespace, owner=options.owner,
                            ttl=options.ttl, wait=options.wait)
        except NotAcquired as error:
            say("REFUSED", error)
            return 75
        except grpc.RpcError as error:
            say("NO ANSWER", error.code().name)
            return 69
        say("GRANTED", lease.token)
        try:
            work(lease, store, options, stopping)
        except (LeaseLost, OldToken):
            say("LOST", lease.token, f"{boot_time():.3f}")
            try:
                store.write(lease.token, f"{options.owner} late")
                say("LATE WRITE TOOK EFFECT")  # nobody has written under a newer token yet
            except OldToken as error:
                say("LATE WRITE REFUSED:", error)
            return 76
        try:
            say("RELEASED" if lease.release() else "ENDED BEFORE", lease.token)
        except grpc.RpcError:
            say("NOT RELEASED", lease.token)  # nobody renews it any more: it ends by itself
        return 0


if __name__ == "__main__":
    sys.exit(main())
