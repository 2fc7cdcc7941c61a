"""A disk that takes long to sync: strace holds up the system calls of one process."""

import contextlib
import os
import signal
import subprocess
import tempfile

import harness

CALLS = "fsync,fdatasync"


class Impossible(Exception):
    """This machine does not let us trace a process."""


class SlowDisk:
    """Each sync of the process takes `seconds` longer, until end()."""

    def __init__(self, pid, seconds):
        file, self.log = tempfile.mkstemp(prefix="holdfast-slow-disk-")
        os.close(file)
        try:
            self.strace = subprocess.Popen(
                ["strace", "-f", "-qq", "-p", str(pid), "-o", self.log, "-e", f"trace={CALLS}",
                 "-e", f"inject={CALLS}:delay_enter={int(seconds * 1e6)}"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        except OSError as error:
            os.unlink(self.log)
            raise Impossible(f"strace: {error}") from error
        try:
            harness.wait_until(lambda: self._ended() or self._attached(pid), f"strace holds process {pid}")
        except AssertionError:
            self.end()
            raise
        if self._ended():
            why = self.strace.stderr.read().strip()
            self.end()
            raise Impossible(why or f"strace ended with {self.strace.returncode}")

    def _ended(self):
        return self.strace.poll() is not None

    @staticmethod
    def _attached(pid):
        """Whether every thread is traced."""
        tracers = set()
        with contextlib.suppress(FileNotFoundError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/status", encoding="ascii",
                                                        errors="replace") as file:
                    tracers.update(line for line in file if line.startswith("TracerPid:"))
        return bool(tracers) and all(int(line.split()[1]) != 0 for line in tracers)

    def delayed(self):
        """How many calls were held up so far."""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return sum("fsync" in line or "fdatasync" in line for line in file)

    def end(self):
        if not self._ended():
            self.strace.send_signal(signal.SIGTERM)
            try:
                self.strace.wait(timeout=harness.DEADLINE)
            except subprocess.TimeoutExpired:
                self.strace.kill()
                self.strace.wait()
        self.strace.stderr.close()
        with contextlib.suppress(OSError):
            os.unlink(self.log)


def check_possible():
    """Impossible, with the reason, where it cannot be done."""
    child = subprocess.Popen(["sleep", "60"])
    try:
        SlowDisk(child.pid, 0.001).end()
    finally:
        child.kill()
        child.wait()
