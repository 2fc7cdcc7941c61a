"""The installed client library: what an installation brings, and the C++ examples, built as a
project of their own against it and run against the built server."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile

import harness

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = os.path.join(REPOSITORY, "examples", "cpp")


def run(*command, env=None):
    done = subprocess.run(command, text=True, capture_output=True, timeout=300, check=False,
                          env={**os.environ, **(env or {})})
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def wait_match(program, pattern):
    """The match of the first line of a running example that is such a one."""
    return re.fullmatch(pattern, program.wait_line(lambda line: re.fullmatch(pattern, line), pattern))


def stop_outside(process, lock_file):
    """Stops a process while it does not have this file lock, which it would keep."""
    with open(lock_file, encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        process.send_signal(signal.SIGSTOP)

        def stopped():
            with open(f"/proc/{process.pid}/stat", encoding="utf-8") as stat:
                return stat.read().rpartition(")")[2].split()[0] == "T"
        harness.wait_until(stopped, "stopped")


class LibraryTest(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        shared = tempfile.mkdtemp(prefix="holdfast-library-")
        cls.addClassCleanup(shutil.rmtree, shared)
        cls.prefix = os.path.join(shared, "installed")
        cls.built = os.path.join(shared, "examples")
        run("cmake", "--install", os.path.dirname(harness.BINARY), "--component", "client",
            "--prefix", cls.prefix)
        run("cmake", "-S", EXAMPLES, "-B", cls.built, f"-DCMAKE_PREFIX_PATH={cls.prefix}")
        run("cmake", "--build", cls.built, "-j2")

    def start(self, server, example, *arguments):
        program = harness.Background([server.address, *arguments],
                                     program=os.path.join(self.built, example))
        self.addCleanup(program.close)
        return program

    def test_headers_use_the_standard_library_and_each_other(self):
        include = os.path.join(self.prefix, "include", "holdfast")
        headers = set(os.listdir(include))
        self.assertIn("client.h", headers)
        for header in headers:
            with open(os.path.join(include, header), encoding="utf-8") as file:
                for name in re.findall(r'#include ["<]([^">]+)[">]', file.read()):
                    ours = name.startswith("holdfast/") and name[len("holdfast/"):] in headers
                    self.assertTrue(ours or re.fullmatch(r"[a-z_]+", name), f"{header}: {name}")
            run("c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
                f"-I{self.prefix}/include", "-include", f"holdfast/{header}", "-x", "c++",
                "/dev/null")

    def test_pkg_config(self):
        server = self.server()
        folders = [where for where, _, files in os.walk(self.prefix) if "holdfast-client.pc" in files]
        flags = run("pkg-config", "--cflags", "--libs", "holdfast-client",
                    env={"PKG_CONFIG_PATH": folders[0]}).split()
        program = self.path("cron_once")
        libraries = [flag[2:] for flag in flags if flag.startswith("-L")]
        run("c++", "-std=c++20", os.path.join(EXAMPLES, "cron_once.cc"), *flags,
            f"-Wl,-rpath,{libraries[0]}", "-o", program)
        runs = self.path("runs")
        self.assertEqual(run(program, server.address, runs, "monday"), "done\n")

    def test_the_program_of_the_page_compiles(self):
        with open(os.path.join(REPOSITORY, "docs", "CLIENT.md"), encoding="utf-8") as page:
            programs = re.findall(r"^```cpp\n(.*?)^```", page.read(), re.M | re.S)
        self.assertTrue(programs)
        for program in programs:
            with open(self.path("program.cc"), "w", encoding="utf-8") as file:
                file.write(program)
            run("c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
                f"-I{self.prefix}/include", self.path("program.cc"))

    def test_only_the_library_itself_is_visible(self):
        folders = [where for where, _, files in os.walk(self.prefix)
                   if "libholdfast_client.so" in files]
        symbols = run("nm", "-DC", "--defined-only",
                      os.path.join(folders[0], "libholdfast_client.so"))
        foreign = [line for line in symbols.splitlines()
                   if re.search(r" [TB] ", line) and " holdfast::" not in line]
        self.assertEqual(foreign, [])
        self.assertNotIn("holdfast::v1::", "\n".join(
            line for line in symbols.splitlines() if re.search(r" T ", line)))

    def test_cron_once(self):
        server = self.server()
        for period in ("monday", "tuesday"):
            hosts = [self.start(server, "cron_once", self.path("runs"), period) for _ in range(3)]
            self.assertEqual([host.wait().code for host in hosts], [0, 0, 0])
            said = sorted(line for host in hosts for line in host.lines)
            self.assertEqual(said, ["already done", "already done", "done"])
        with open(self.path("runs"), encoding="utf-8") as runs:
            self.assertEqual(runs.read(), "monday\ntuesday\n")

    def test_worker_pool(self):
        server = self.server()
        pools = [self.start(server, "worker_pool", self.folder, "40") for _ in range(3)]
        pools[2].process.kill()  # its locks end with its session; its jobs are taken over
        for pool in pools[:2]:
            self.assertEqual(pool.wait().code, 0, pool.lines)
        for job in range(40):
            with open(self.path(f"job-{job}"), encoding="utf-8") as file:
                self.assertEqual(file.read(), "done\n", f"job {job} is done once")

    def test_leader(self):
        server = self.server()
        first = self.start(server, "leader", "anna")
        token = int(wait_match(first, r"anna leads with token (\d+)")[1])
        second = self.start(server, "leader", "ben")
        first.process.kill()
        self.assertGreater(int(wait_match(second, r"ben leads with token (\d+)")[1]), token)
        second.process.send_signal(signal.SIGTERM)
        self.assertEqual(second.wait().code, 0)
        self.assertIn("ben leads no more", second.lines)
        self.assertTrue(server.json("leader", "examples/leader")["vacant"])

    def test_a_writer_that_was_paused_is_refused(self):
        server = self.server()
        server.json("namespace", "set", "default", "--protection", "fenced", "--lock-delay", "0s")
        store = self.path("store")
        first = self.start(server, "fenced_writer", store, "anna")
        old = int(wait_match(first, r"anna holds token (\d+)")[1])
        harness.wait_until(lambda: os.path.getsize(store) > 0, "anna writes")
        second = self.start(server, "fenced_writer", store, "ben")
        stop_outside(first.process, store + ".token")
        try:
            new = int(wait_match(second, r"ben holds token (\d+)")[1])
            self.assertGreater(new, old)

            def ben_writes():
                with open(store, encoding="utf-8") as lines:
                    return "ben 1" in lines.read()
            harness.wait_until(ben_writes, "ben writes")
        finally:
            first.process.send_signal(signal.SIGCONT)
        self.assertEqual(first.wait().code, 76)
        # Wherever it was stopped: before its check it sees the loss itself, behind it the store does.
        self.assertTrue({"anna lost the lock", f"anna refused: token {old} is too old"}
                        & set(first.lines), first.lines)
        with open(store, encoding="utf-8") as lines:
            text = lines.read()
        self.assertLess(text.rindex("anna"), text.index("ben"))


if __name__ == "__main__":
    harness.main()
