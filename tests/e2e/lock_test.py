"""`holdfast lock` and `holdfast elect -- COMMAND`: nothing of a command outlives its lease."""

import os
import pty
import select
import signal
import subprocess
import sys
import time

import harness

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lock_worker.py")


def boot_time():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


class LockTestCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        # Both are ignored in the background of some shells, and would be so in what we start.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        self.holdfast = self.server()
        self.holdfast.json("namespace", "set", "default", "--lock-delay", "0s")

    def lock(self, *words, name="a", options=(), env=None):
        """The whole of a short command."""
        return self.holdfast.run("lock", name, *options, "--", *words, env=env)

    def start(self, *words, name="a", verb="lock", options=()):
        call = harness.Background([verb, name, "--endpoints", self.holdfast.address, *options, "--", *words])
        self.addCleanup(call.close)
        return call

    def worker(self, log, *flags, options=("--ttl", "3s"), name="a"):
        """A wrapper whose child and grandchild are at work."""
        path = self.path(log)
        call = self.start(sys.executable, WORKER, path, *flags, name=name, options=options)
        self.addCleanup(self.kill_left, path)
        harness.wait_until(lambda: self.traces(log, "grandchild", "tick") and self.traces(log, "child", "pid="),
                           "both are at work")
        return call

    def lines(self, log):
        try:
            with open(self.path(log), encoding="ascii") as file:
                return [line.split() for line in file.read().splitlines()]
        except FileNotFoundError:
            return []

    def traces(self, log, name, what):
        return [float(at) for who, trace, at in self.lines(log) if who == name and trace.startswith(what)]

    def last(self, log):
        return max(float(line[2]) for line in self.lines(log))

    @staticmethod
    def left(path):
        """Processes that were called with this path."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
                with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                    alive = file.read().rpartition(")")[2].split()[0] not in "ZX"
            except OSError:
                continue
            if alive and WORKER.encode() in words and path.encode() in words and b"lock" not in words:
                found.append(int(pid))
        return found

    def kill_left(self, path):
        for pid in self.left(path):
            os.kill(pid, signal.SIGKILL)

    def nobody_is_left(self, log):
        self.assertEqual(self.left(self.path(log)), [])

    def lease_end(self, name="a"):
        """The earliest moment at which the service can grant to another, as things are now."""
        before = boot_time()
        return before + self.holdfast.json("describe", name)["holder"]["lease_left_ms"] / 1000

    def is_free(self, name="a"):
        return self.holdfast.json("describe", name)["state"] == "FREE"


class Commands(LockTestCase):
    def test_the_exit_code_is_that_of_the_command(self):
        for script, code in (("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)):
            answer = self.lock("sh", "-c", script)
            self.assertEqual((answer.code, answer.out, answer.err), (code, "", ""), answer)
            self.assertTrue(self.is_free())

    def test_commands_that_cannot_run(self):
        answer = self.lock(self.path("nothing"))
        self.assertEqual(answer.code, 127)
        self.assertIn("No such file", answer.err)
        self.assertEqual(self.lock("no-such-program-anywhere").code, 127)
        answer = self.lock(self.folder)
        self.assertEqual(answer.code, 126)
        self.assertIn("cannot run", answer.err)
        self.assertTrue(self.is_free())

    def test_words_are_taken_as_they_are(self):
        words = ["--", "--ttl", "-o", "[a,b]", "{}", "", "a b", "%%"]
        script = "import sys; print(sys.argv[1:])"
        answer = self.lock(sys.executable, "-c", script, *words)
        self.assertEqual(answer.out, f"{words}\n", answer)

    def test_environment(self):
        script = ('echo "$HOLDFAST_RESOURCE $HOLDFAST_FENCING_TOKEN $HOLDFAST_LEASE_ID"; '
                  f'{harness.BINARY} check-token a $HOLDFAST_FENCING_TOKEN --endpoints {self.holdfast.address} '
                  f'-o json; {harness.BINARY} renew a --lease-id $HOLDFAST_LEASE_ID --endpoints '
                  f'{self.holdfast.address} -o json')
        answer = self.lock("sh", "-c", script, env={"HOLDFAST_FENCING_TOKEN": "1", "KEPT": "yes"})
        self.assertEqual(answer.code, 0, answer)
        variables, checked, renewed = answer.out.splitlines()
        resource, token, lease = variables.split()
        self.assertEqual(resource, "a")
        self.assertGreater(int(token), 0)
        self.assertRegex(lease, r"^[0-9a-f]{32}$")
        self.assertEqual(harness.json.loads(checked)["verdict"], "CURRENT")
        self.assertEqual(harness.json.loads(renewed)["outcome"], "RENEWED")

    def test_standard_streams_are_those_of_the_command(self):
        done = subprocess.run([harness.BINARY, "lock", "a", "--endpoints", self.holdfast.address, "--", "cat"],
                              input="through", text=True, capture_output=True, timeout=harness.DEADLINE,
                              check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "through", ""))

    def test_held_by_somebody_else(self):
        lease = self.holdfast.json("acquire", "a", "--owner", "first")
        answer = self.lock("touch", self.path("ran"))
        self.assertEqual((answer.code, answer.out), (75, ""), answer)
        self.assertIn("HELD", answer.err)
        answer = self.lock("touch", self.path("ran"), options=("--conflict-exit-code", "3", "-o", "json"))
        self.assertEqual((answer.code, answer.out), (3, ""), answer)
        refusal = harness.json.loads(answer.err)
        self.assertEqual((refusal["outcome"], refusal["holder"]["owner"]), ("HELD", "first"))
        answer = self.lock("touch", self.path("ran"), options=("--wait", "200ms"))
        self.assertEqual(answer.code, 75)
        self.assertIn("WAIT_TIMEOUT", answer.err)
        self.assertFalse(os.path.exists(self.path("ran")))
        self.holdfast.json("release", "a", "--lease-id", lease["lease_id"])
        self.assertEqual(self.lock("true").code, 0)

    def test_waits_for_its_turn(self):
        lease = self.holdfast.json("acquire", "a")
        call = self.start("echo", "mine", options=("--wait", "20s"))
        harness.wait_until(lambda: self.holdfast.json("status")["waiters"] == 1, "it waits")
        self.assertEqual(call.lines, [])
        self.holdfast.json("release", "a", "--lease-id", lease["lease_id"])
        answer = call.wait()
        self.assertEqual((answer.code, answer.out), (0, "mine"), answer)

    def test_interrupted_while_it_waits(self):
        self.holdfast.json("acquire", "a")
        for number in (signal.SIGTERM, signal.SIGHUP):
            call = self.start("touch", self.path("ran"), options=("--wait", "10m"))
            harness.wait_until(lambda: self.holdfast.json("status")["waiters"] == 1, "it waits")
            call.send(number)
            answer = call.wait()
            self.assertEqual(answer.code, 128 + number, answer)
            self.assertIn("nothing was run", answer.err)
            self.assertEqual(self.holdfast.json("status")["waiters"], 0)
        self.assertFalse(os.path.exists(self.path("ran")))

    def test_no_server(self):
        address = f"127.0.0.1:{harness.free_port()}"
        for options in ((), ("--ttl", "5s")):
            answer = harness.run("lock", "a", *options, "--endpoints", address, "--timeout", "500ms", "--",
                                 "touch", self.path("ran"))
            self.assertEqual(answer.code, 69, answer)
            self.assertIn("cannot connect", answer.err)
        self.assertFalse(os.path.exists(self.path("ran")))

    def test_bad_input(self):
        for words, field in ((("lock", "a"), "command"), (("lock", "a", "--"), "command"),
                             (("lock", "A", "--", "true"), "resource"),
                             (("lock", "a", "--conflict-exit-code", "256", "--", "true"), "conflict_exit_code"),
                             (("lock", "a", "--ttl", "10s", "--stop-time", "5s", "--", "true"), "stop_time"),
                             (("lock", "a", "--ttl", "10ms", "--stop-time", "0s", "--", "true"), "stop_time")):
            answer = self.holdfast.run(*harness.with_options(words, "-o", "json"))
            self.assertEqual((answer.code, answer.out), (64, ""), answer)
            self.assertEqual(harness.json.loads(answer.err)["error"]["field"], field, answer)
            self.assertTrue(harness.json.loads(answer.err)["error"]["limit"], answer)

    def test_two_wrappers_exclude_each_other(self):
        inside = self.path("inside")
        script = f"for i in 1 2 3; do mkdir {inside} && rmdir {inside} || exit 1; done; echo done"
        calls = [self.start("sh", "-c", script, options=("--wait", "30s")) for _ in range(8)]
        for call in calls:
            answer = call.wait()
            self.assertEqual((answer.code, answer.out), (0, "done"), answer)


class Signals(LockTestCase):
    def test_all_are_passed_on_to_the_whole_group(self):
        call = self.worker("log", "stubborn", options=("--stop-time", "100ms"))
        for name in ("SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGHUP", "SIGTERM", "SIGINT", "SIGQUIT", "SIGTSTP",
                     "SIGCONT"):
            call.send(getattr(signal, name))
            harness.wait_until(lambda: self.traces("log", "child", name) and
                               self.traces("log", "grandchild", name), name)
        self.assertIsNone(call.process.poll())
        os.kill(int(next(what for who, what, _ in self.lines("log") if who == "child" and "pid=" in what)[4:]),
                signal.SIGKILL)
        self.assertEqual(call.wait().code, 137)
        self.nobody_is_left("log")
        self.assertTrue(self.is_free())

    def test_a_polite_command_ends_with_its_own_code(self):
        call = self.worker("log", "polite")
        call.send(signal.SIGTERM)
        self.assertEqual(call.wait().code, 0)
        self.nobody_is_left("log")

    def test_an_unhandled_one_ends_the_command(self):
        call = self.worker("log", options=("--ttl", "5s"))  # no warning that it is short
        call.send(signal.SIGTERM)
        answer = call.wait()
        self.assertEqual((answer.code, answer.err), (143, ""), answer)
        self.nobody_is_left("log")
        self.assertTrue(self.is_free())

    def test_ignored_ones_stay_ignored(self):
        path = self.path("log")
        process = subprocess.Popen(
            ["nohup", harness.BINARY, "lock", "a", "--endpoints", self.holdfast.address, "--", "sh", "-c",
             f"kill -HUP $$; echo alive > {path}"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.assertEqual(process.wait(timeout=harness.DEADLINE), 0)
        self.assertTrue(os.path.exists(path))


class Terminal(LockTestCase):
    # As much of a shell as job control needs: one foreground job, which a line from the terminal
    # continues when it was suspended.
    SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    _, status = os.waitpid(job, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpgrp())
    if not os.WIFSTOPPED(status):
        print("ENDED", os.waitstatus_to_exitcode(status), flush=True)
        break
    print("SUSPENDED", flush=True)
    sys.stdin.readline()
    os.tcsetpgrp(0, job)
    os.killpg(job, signal.SIGCONT)
"""

    def setUp(self):
        super().setUp()
        self.seen = ""

    def open_shell(self, *words):
        pid, self.terminal = pty.fork()
        if pid == 0:
            os.execv(sys.executable, [sys.executable, "-c", self.SHELL, *words])
        self.addCleanup(os.close, self.terminal)
        self.addCleanup(os.waitpid, pid, 0)
        self.addCleanup(os.kill, pid, signal.SIGKILL)

    def type(self, text):
        os.write(self.terminal, text.encode())

    def expect(self, text):
        """Reads on until the terminal has shown this, and forgets what came before."""
        def shown():
            while select.select([self.terminal], [], [], 0)[0]:
                try:
                    self.seen += os.read(self.terminal, 4096).decode()
                except OSError:  # nobody has it open any more
                    break
            return text in self.seen

        harness.wait_until(shown, f"{text} in {self.seen!r}", deadline=15)
        self.seen = self.seen.partition(text)[2]

    def test_a_job_of_a_shell(self):
        script = "echo started; while read line; do echo got $line; done"
        self.open_shell(harness.BINARY, "lock", "a", "--endpoints", self.holdfast.address, "--", "sh", "-c", script)
        self.expect("started")
        self.type("one\n")
        self.expect("got one")  # it may read from the terminal
        self.type("\x1a")  # Ctrl-Z
        self.expect("SUSPENDED")
        self.type("\n")
        self.expect("\n")
        self.type("two\n")
        self.expect("got two")
        self.assertEqual(self.holdfast.json("describe", "a")["state"], "TAKEN")
        self.type("\x03")  # Ctrl-C
        self.expect("ENDED 130")
        self.assertTrue(self.is_free())

    def test_interrupted_at_the_terminal_while_it_waits(self):
        self.holdfast.json("acquire", "a")
        self.open_shell(harness.BINARY, "lock", "a", "--endpoints", self.holdfast.address, "--wait", "10m", "--",
                        "true")
        harness.wait_until(lambda: self.holdfast.json("status")["waiters"] == 1, "it waits")
        self.type("\x03")
        self.expect("ENDED 130")
        self.assertEqual(self.holdfast.json("status")["waiters"], 0)


class Descendants(LockTestCase):
    def test_what_a_command_leaves_behind_is_stopped_before_the_lock_is_free(self):
        for flags in (("leave",), ("leave", "stubborn"), ("leave", "daemon"), ("leave", "daemon", "stubborn")):
            log = "-".join(flags)
            call = self.worker(log, *flags, options=("--ttl", "4s", "--stop-time", "300ms"))
            follower = self.start(sys.executable, "-c", "import time; print(time.clock_gettime(time.CLOCK_BOOTTIME))",
                                  options=("--wait", "20s"))
            self.assertEqual(call.wait().code, 5)
            self.nobody_is_left(log)
            self.assertEqual("stubborn" in flags, bool(self.traces(log, "grandchild", "SIGTERM")))
            answer = follower.wait()
            self.assertEqual(answer.code, 0, answer)
            self.assertLess(self.last(log), float(answer.out))

    def test_what_still_writes_its_last_lines_may_do_so(self):
        os.mkfifo(self.path("fifo"))
        script = f"(read line < {self.path('fifo')}; echo $line > {self.path('out')}) & echo $$; exit 3"
        call = self.start("sh", "-c", script, options=("--stop-time", "5s"))
        command = call.wait_line(str.isdigit, "the command")
        harness.wait_until(lambda: not os.path.exists(f"/proc/{command}"), "the command has ended")
        with open(self.path("fifo"), "w", encoding="ascii") as fifo:
            fifo.write("last\n")
        self.assertEqual(call.wait().code, 3)
        with open(self.path("out"), encoding="ascii") as file:
            self.assertEqual(file.read(), "last\n")
        self.assertTrue(self.is_free())

    def test_a_killed_wrapper(self):
        for flags in ((), ("stubborn",), ("daemon", "stubborn")):
            log = "killed-" + "-".join(flags)
            call = self.worker(log, *flags, name=f"k{len(flags)}", options=("--ttl", "4s"))
            end = self.lease_end(f"k{len(flags)}")
            call.send(signal.SIGKILL)
            call.process.wait()
            harness.wait_until(lambda: not self.left(self.path(log)), "nobody is left", deadline=5)
            self.assertLess(boot_time(), end)
            self.assertLess(self.last(log), end)

    def test_a_killed_supervisor(self):
        call = self.worker("log", "daemon", "stubborn", options=("--ttl", "30s"))
        (supervisor,) = children(call.process.pid)
        os.kill(supervisor, signal.SIGKILL)
        answer = call.wait()
        self.assertEqual(answer.code, 137, answer)
        self.assertIn("supervisor", answer.err)
        self.nobody_is_left("log")
        self.assertTrue(self.is_free())

    def test_a_killed_group_of_the_wrapper(self):
        """As `kill -9 -- -PGID`, or a shell that takes its jobs with it."""
        path = self.path("log")
        self.addCleanup(self.kill_left, path)
        process = subprocess.Popen(
            [harness.BINARY, "lock", "a", "--endpoints", self.holdfast.address, "--ttl", "4s", "--",
             sys.executable, WORKER, path, "stubborn"], stdin=subprocess.DEVNULL, start_new_session=True)
        harness.wait_until(lambda: self.traces("log", "child", "tick"), "it is at work")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        harness.wait_until(lambda: not self.left(path), "nobody is left", deadline=5)


class Loss(LockTestCase):
    def assert_lost(self, answer, cause):
        self.assertEqual(answer.code, 76, answer)
        self.assertIn("ownership of a was lost", answer.err)
        self.assertIn(cause, answer.err)

    def test_renewed_for_longer_than_the_ttl(self):
        call = self.worker("log", "polite", options=("--ttl", "1s"))
        begin = self.last("log")
        harness.wait_until(lambda: self.last("log") > begin + 3, "three leases")
        token = self.holdfast.json("describe", "a")["holder"]["fencing_token"]
        self.assertEqual([t["cause"] for t in self.holdfast.json("describe", "a")["transitions"]], ["ACQUIRED"])
        call.send(signal.SIGTERM)
        self.assertEqual(call.wait().code, 0)
        self.assertGreater(int(self.holdfast.json("acquire", "a")["fencing_token"]), int(token))

    def test_partition(self):
        for flags in ((), ("stubborn",), ("daemon", "stubborn")):
            log = "partition-" + "-".join(flags)
            call = self.worker(log, *flags, options=("--ttl", "4s"))
            end = self.lease_end()
            self.holdfast.process.send_signal(signal.SIGSTOP)
            try:
                stopped = boot_time()
                answer = call.wait()
            finally:
                self.holdfast.process.send_signal(signal.SIGCONT)
            self.assert_lost(answer, "EXPIRED")
            self.nobody_is_left(log)
            self.assertGreater(self.last(log), stopped)  # it worked on while it could
            self.assertLess(self.last(log), end)
            self.assertEqual("stubborn" in flags, bool(self.traces(log, "grandchild", "SIGTERM")))
            self.assertEqual(self.lock("true", options=("--wait", "20s")).code, 0)

    def test_server_killed(self):
        call = self.worker("log", "stubborn", options=("--ttl", "2s", "-o", "json"))
        end = self.lease_end()
        self.holdfast.kill()
        answer = call.wait()
        self.assertEqual(answer.code, 76, answer)
        lost = harness.json.loads(answer.err.splitlines()[-1])  # behind a warning of the short ttl
        self.assertEqual((lost["outcome"], lost["resource"], lost["cause"], lost["exit_code"]),
                         ("OWNERSHIP_LOST", "a", "EXPIRED", 76))
        self.assertLess(self.last("log"), end)
        self.nobody_is_left("log")

    def test_a_command_that_ends_while_the_server_is_away(self):
        call = self.worker("log", "polite", options=("--ttl", "30s", "--timeout", "300ms"))
        self.holdfast.kill()
        call.send(signal.SIGTERM)
        answer = call.wait()
        self.assertEqual(answer.code, 0, answer)
        self.assertIn("could not be given back", answer.err)

    def test_a_server_that_comes_back_in_time_changes_nothing(self):
        call = self.worker("log", "polite", options=("--ttl", "10s", "--timeout", "20s"))
        self.holdfast.restart()
        renewals = self.lease_end()
        harness.wait_until(lambda: self.lease_end() > renewals + 1, "a renewal")
        call.send(signal.SIGTERM)
        self.assertEqual(call.wait().code, 0)

    def test_wrapper_suspended_beyond_the_ttl(self):
        call = self.worker("log", "daemon", "stubborn", options=("--ttl", "2s"))
        call.send(signal.SIGSTOP)
        end = self.lease_end()
        follower = self.start(sys.executable, "-c", "import time; print(time.clock_gettime(time.CLOCK_BOOTTIME))",
                              options=("--wait", "20s"))
        answer = follower.wait()
        self.assertEqual(answer.code, 0, answer)
        self.nobody_is_left("log")
        self.assertLess(self.last("log"), min(end, float(answer.out)))
        call.send(signal.SIGCONT)
        self.assert_lost(call.wait(), "EXPIRED")

    def test_supervisor_suspended(self):
        call = self.worker("log", "daemon", "stubborn", options=("--ttl", "4s"))
        (supervisor,) = children(call.process.pid)
        os.kill(supervisor, signal.SIGSTOP)
        end = self.lease_end()
        self.holdfast.kill()
        self.assert_lost(call.wait(), "EXPIRED")
        self.nobody_is_left("log")
        self.assertLess(self.last("log"), end)

    def test_broken_by_an_administrator(self):
        call = self.worker("log", "stubborn", options=("--ttl", "3s"))
        end = self.lease_end()
        self.holdfast.json("break", "a", "--reason", "maintenance")
        answer = call.wait()
        self.assert_lost(answer, "REVOKING")
        self.assertIn("maintenance", answer.err)
        self.assertTrue(self.traces("log", "child", "SIGTERM"))
        self.assertLess(self.last("log"), end)
        self.assertTrue(self.is_free())  # given back as soon as nobody was left

    def test_taken_away_at_once(self):
        call = self.worker("log", "stubborn", options=("--ttl", "10s"))
        self.holdfast.json("break", "a", "--reason", "now", "--now", "--unsafe")
        answer = call.wait()
        self.assert_lost(answer, "BROKEN")
        self.assertEqual(self.traces("log", "child", "SIGTERM"), [])
        self.nobody_is_left("log")


class Elections(LockTestCase):
    def test_runs_while_leading(self):
        script = f"{harness.BINARY} leader main --endpoints {self.holdfast.address} -o json; exit 4"
        answer = self.holdfast.run("elect", "main", "--value", "one:1", "--", "sh", "-c", script)
        self.assertEqual(answer.code, 4, answer)
        self.assertEqual(answer.json["value"], "one:1")
        self.assertIs(self.holdfast.json("leader", "main")["vacant"], True)

    def test_campaigns_until_it_leads(self):
        self.holdfast.json("namespace", "set", "default", "--wait-max", "300ms")
        lease = self.holdfast.json("acquire", "main")
        call = self.start("echo", "leading", name="main", verb="elect", options=("--value", "v"))
        begin = boot_time()
        harness.wait_until(lambda: boot_time() > begin + 1 and self.holdfast.json("status")["waiters"] == 1,
                           "it campaigns again")
        self.holdfast.json("release", "main", "--lease-id", lease["lease_id"])
        answer = call.wait()
        self.assertEqual((answer.code, answer.out), (0, "leading"), answer)

    def test_not_elected_in_time(self):
        self.holdfast.json("acquire", "main")
        answer = self.holdfast.run("elect", "main", "--value", "v", "--wait", "200ms", "--", "true")
        self.assertEqual(answer.code, 75, answer)


if __name__ == "__main__":
    harness.main()
