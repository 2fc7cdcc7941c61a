"""What the end-to-end tests share: servers on ports and folders of their own, calls of the built
binary, polling with a deadline. Standard library only.

Each test file is a program: `python3 tests/e2e/X_test.py HOLDFAST [unittest arguments]`.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

DEADLINE = 30.0
BINARY = os.environ.get("HOLDFAST_BINARY", "")


def main():
    global BINARY
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        BINARY = sys.argv.pop(1)
    BINARY = os.path.abspath(BINARY)
    if not os.path.isfile(BINARY):
        sys.exit("usage: X_test.py HOLDFAST [unittest arguments]")
    unittest.main(module="__main__")


def wait_until(condition, what, deadline=DEADLINE):
    """Polls until condition() is true, and returns that value."""
    end = time.monotonic() + deadline
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"after {deadline} s still not: {what}")
        threading.Event().wait(0.02)
    return value


def free_port():
    """Below the range that the kernel gives to clients."""
    while True:
        port = random.randint(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Answer:
    """What a call of the program gave."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"exit {self.code}\nstdout: {self.out}\nstderr: {self.err}"


def clean_environment():
    return {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}


def with_options(words, *options):
    """The words with options behind them, but before a `--`, which ends options."""
    words = list(words)
    at = words.index("--") if "--" in words else len(words)
    return words[:at] + list(options) + words[at:]


def run(*words, env=None, stdin=subprocess.DEVNULL, timeout=DEADLINE):
    """Runs the program with exactly these words."""
    done = subprocess.run([BINARY, *words], env={**clean_environment(), **(env or {})}, text=True,
                          stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=timeout, check=False)
    return Answer(done.returncode, done.stdout, done.stderr)


class Background:
    """A call of the program that goes on. Its lines can be waited for."""

    def __init__(self, words, env=None, program=None):
        self.lines = []
        self.process = subprocess.Popen(
            [program or BINARY, *words], env={**clean_environment(), **(env or {})}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def wait_line(self, matches, what, deadline=DEADLINE):
        """The first line that matches. Each line is looked at once: a loaded watch prints many."""
        seen = 0

        def found():
            nonlocal seen
            while seen < len(self.lines):
                seen += 1
                if matches(self.lines[seen - 1]):
                    return self.lines[seen - 1]
            return None

        try:
            return wait_until(found, what, deadline)
        except AssertionError as error:
            raise AssertionError(f"{error} in {len(self.lines)} lines, at last {self.lines[-20:]}") from None

    def wait(self, timeout=DEADLINE):
        code = self.process.wait(timeout=timeout)
        self.reader.join(timeout=timeout)
        return Answer(code, "\n".join(self.lines), self.process.stderr.read())

    def send(self, number):
        self.process.send_signal(number)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()


class Server:
    """`holdfast server` on a port of its own. Ready when the constructor returns."""

    def __init__(self, data_dir, *words, log, env=None, ready=True):
        self.data_dir = data_dir
        self.words = words
        self.env = env
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.log = log
        self.process = None
        self.start(ready)

    def start(self, ready=True):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [BINARY, "server", "--data-dir", self.data_dir, "--listen", self.address,
                 "--set", "segment_bytes=1MiB", *self.words],  # a small one is written faster
                env={**clean_environment(), **(self.env or {})}, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log)
        if ready:
            wait_until(self._ready, f"a server at {self.address}")

    def _ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.logged()}")
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def logged(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def run(self, *words, env=None, timeout=DEADLINE):
        return run(*with_options(words, "--endpoints", self.address), env=env, timeout=timeout)

    def json(self, *words, code=0, env=None):
        """The answer of a verb that must exit with `code`."""
        answer = self.run(*with_options(words, "-o", "json"), env=env)
        if answer.code != code:
            raise AssertionError(f"{words}: exit {answer.code}, expected {code}\n{answer}")
        return answer.json

    def load(self, *words, duration="500ms"):
        """Many pairs of acquire and release, quickly. The report."""
        answer = self.run("bench", "locks", "--warm-up", "10ms", "--duration", duration, "--quiet", "-o",
                          "json", *words)
        if answer.code != 0:
            raise AssertionError(f"no load: {answer}")
        return answer.json

    def background(self, *words, env=None):
        return Background([*words, "--endpoints", self.address], env=env)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def restart(self):
        self.kill()
        self.start()

    def ended(self):
        """The exit code of a server that ends by itself."""
        return self.process.wait(timeout=DEADLINE)

    def stop(self, timeout=DEADLINE):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


class TestCase(unittest.TestCase):
    """With a folder of its own, and servers and calls that end with the test."""

    maxDiff = None

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="holdfast-e2e-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def server(self, *words, name="data", **options):
        log = self.path(os.path.basename(name) + ".log")
        server = Server(self.path(name), *words, log=log, **options)
        self.addCleanup(self.end, server)
        return server

    @staticmethod
    def end(server):
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait()

    def background(self, server, *words, env=None):
        call = server.background(*words, env=env)
        self.addCleanup(call.close)
        return call

    def assert_error(self, answer, code, field=None, contains=None):
        """An error of `-o json` with this exit code."""
        self.assertEqual(answer.code, code, answer)
        error = answer.json["error"]
        self.assertEqual(set(error), {"code", "message", "field", "limit"}, answer)
        self.assertTrue(error["message"], answer)
        if field is not None:
            self.assertEqual(error["field"], field, answer)
            self.assertTrue(error["limit"], answer)
        if contains is not None:
            self.assertIn(contains, error["message"], answer)
        return error

    @contextlib.contextmanager
    def mounted(self, folder, *options):
        """A mount over `folder`; skips the test where this is not allowed."""
        done = subprocess.run(["mount", *options, folder], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.skipTest(f"cannot mount: {done.stderr.strip()}")
        try:
            yield
        finally:
            subprocess.run(["umount", folder], check=False)
