"""A store that keeps the highest fencing token that it has seen and refuses lower ones.

As a program, `fenced_store.py FILE`, it writes to the store with the token in HOLDFAST_FENCING_TOKEN
every few milliseconds, for as long as it is let, whether the store takes it or not.
"""

import fcntl
import json
import os
import select
import sys


class Store:
    """One line of JSON for each attempt to write: the token, and whether it was accepted."""

    def __init__(self, path):
        self.path = path

    def write(self, token):
        with open(self.path, "a+", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            highest = max((seen for seen, _ in map(json.loads, file)), default=0)
            accepted = int(token) >= highest
            file.write(json.dumps([int(token), accepted]) + "\n")
            return accepted

    def attempts(self):
        with open(self.path, "a+", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            file.seek(0)
            return [tuple(json.loads(line)) for line in file]


if __name__ == "__main__":
    store = Store(sys.argv[1])
    while True:
        store.write(os.environ["HOLDFAST_FENCING_TOKEN"])
        select.select([], [], [], 0.005)
