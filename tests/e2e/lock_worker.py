"""A command for the tests of `holdfast lock`: a child with a grandchild, both of which leave traces.

Usage: lock_worker.py LOG [FLAG...]. Every line that is appended to LOG is `NAME WHAT TIME`, TIME in
seconds of the boot clock. `tick` comes about every 10 ms, `SIGUSR1` and the like when a signal came.
Flags: `stubborn`: SIGTERM is only noted; `daemon`: the grandchild moves into a session of its own;
`leave`: the child ends with 5 as soon as the grandchild ticks; `polite`: both end with 0 on SIGTERM.
"""

import os
import select
import signal
import sys
import time

LOG, FLAGS = sys.argv[1], set(sys.argv[2:])
NOTED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT", "SIGTSTP")


def note(name, what):
    line = f"{name} {what} {time.clock_gettime(time.CLOCK_BOOTTIME)}\n"
    file = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, line.encode())
    os.close(file)


def listen(name):
    def on_signal(number, _):
        note(name, signal.Signals(number).name)
        if number == signal.SIGTERM and "polite" in FLAGS:
            os._exit(0)

    for noted in NOTED:
        if noted != "SIGTERM" or FLAGS & {"stubborn", "polite"}:
            signal.signal(getattr(signal, noted), on_signal)


def tick(name):
    note(name, "tick")
    select.select([], [], [], 0.01)


def main():
    ready, at_work = os.pipe()
    if os.fork() == 0:
        os.close(ready)
        if "daemon" in FLAGS:
            os.setsid()
            if os.fork() != 0:
                os._exit(0)  # its child is nobody's any more
        listen("grandchild")
        note("grandchild", f"pid={os.getpid()}")
        tick("grandchild")
        os.close(at_work)
        while True:
            tick("grandchild")
    listen("child")
    os.close(at_work)
    os.read(ready, 1)
    note("child", f"pid={os.getpid()}")
    if "leave" in FLAGS:
        os._exit(5)
    while True:
        tick("child")


main()
