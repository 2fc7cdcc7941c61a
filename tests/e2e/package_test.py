"""The Debian package: made from this build tree, looked at, and (as root) installed, run and purged."""

import glob
import fcntl
import gzip
import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import tarfile
import tempfile
import unittest

import harness

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UNIT = "lib/systemd/system/holdfast.service"
CONFIGURATION = "/etc/holdfast/holdfast.toml"
STATE = "/var/lib/holdfast"


def output_of(*words, **options):
    done = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(words)}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


def settings_of(unit):
    """The settings of a unit file, of all sections. Holdfast's unit sets none of them twice."""
    with open(unit, encoding="utf-8") as file:
        lines = [line.strip() for line in file if "=" in line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def build_package(folder):
    tree = os.path.dirname(harness.BINARY)
    output_of("cpack", "--config", os.path.join(tree, "CPackConfig.cmake"), "-B", folder, timeout=300)
    package, = glob.glob(os.path.join(folder, "*.deb"))
    return package


PACKAGE = None


def setUpModule():
    global PACKAGE
    folder = tempfile.mkdtemp(prefix="holdfast-package-")
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    PACKAGE = build_package(folder)


class Contents(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.tree = self.path("tree")
        output_of("dpkg-deb", "-R", PACKAGE, self.tree)

    def control(self, name):
        with open(os.path.join(self.tree, "DEBIAN", name), encoding="utf-8") as file:
            return file.read()

    def test_files_and_modes(self):
        listing = subprocess.run(["dpkg-deb", "--fsys-tarfile", PACKAGE], stdout=subprocess.PIPE,
                                 check=True).stdout
        with open(self.path("files.tar"), "wb") as file:
            file.write(listing)
        with tarfile.open(self.path("files.tar")) as archive:
            members = {member.name.removeprefix("./"): member for member in archive}
        for name, mode in (("usr/bin/holdfast", 0o755), (CONFIGURATION[1:], 0o644), (UNIT, 0o644),
                           ("etc/logrotate.d/holdfast", 0o644),
                           ("usr/share/man/man1/holdfast.1.gz", 0o644),
                           ("usr/share/doc/holdfast/copyright", 0o644)):
            self.assertIn(name, members)
            self.assertEqual((members[name].mode, members[name].uid, members[name].gid), (mode, 0, 0), name)
        for proto in glob.glob("**/*.proto", root_dir=os.path.join(REPOSITORY, "proto"), recursive=True):
            self.assertIn("usr/share/holdfast/proto/" + proto, members)
        places = re.compile(r"(etc|lib|usr)(/|$)")
        self.assertEqual([name for name in members if name and not places.match(name)], [])
        self.assertFalse(any(member.mode & 0o022 for member in members.values()))

    def test_control_file(self):
        control = self.control("control")
        self.assertIn("\nPackage: holdfast\n", "\n" + control)
        version = re.search(r"^Version: (.+)$", control, re.M).group(1)
        depends = re.search(r"^Depends: (.+)$", control, re.M).group(1)
        for package in ("adduser", "libc6", "libgrpc++1.51", "libssl3", "libjemalloc2"):
            self.assertRegex(depends, rf"(^|, ){re.escape(package)}( |,|$)")
        with gzip.open(os.path.join(self.tree, "usr/share/doc/holdfast/changelog.gz"), "rt") as file:
            self.assertTrue(file.readline().startswith(f"holdfast ({version}) "))
        built = output_of(harness.BINARY, "--version")
        self.assertIn(version, built)

    def test_configuration_files(self):
        inside = {os.path.join("/", os.path.relpath(os.path.join(folder, file), self.tree))
                  for folder, _, files in os.walk(os.path.join(self.tree, "etc")) for file in files}
        self.assertEqual(set(self.control("conffiles").split()), inside)

    def test_the_configuration_is_accepted(self):
        printed = output_of(harness.BINARY, "server", "--config", self.tree + CONFIGURATION, "--print-config")
        self.assertIn(f'data_dir = "{STATE}/data"', printed)
        # What is commented out is right too.
        with open(self.tree + CONFIGURATION, encoding="utf-8") as file:
            everything = re.sub(r"^# (?=\w+ = |\[)", "", file.read(), flags=re.M)
        with open(self.path("all.toml"), "w", encoding="utf-8") as file:
            file.write(everything)
        printed = output_of(harness.BINARY, "server", "--config", self.path("all.toml"), "--print-config")
        for part in ('resp_listen = "127.0.0.1:', 'http_listen = "127.0.0.1:', "[[identity]]", "server.key"):
            self.assertIn(part, printed)

    def test_maintainer_scripts(self):
        for name in ("postinst", "prerm", "postrm"):
            output_of("sh", "-n", os.path.join(self.tree, "DEBIAN", name))
            self.assertIn("\nset -e\n", self.control(name))

    def test_an_installation_by_cmake_stays_below_its_prefix(self):
        for component in ("server", "proto"):
            output_of("cmake", "--install", os.path.dirname(harness.BINARY), "--prefix", self.path("prefix"),
                      "--component", component)
        installed_here = set(glob.glob("**", root_dir=self.path("prefix"), recursive=True))
        for name in ("bin/holdfast", "share/holdfast/proto/holdfast/v1/locks.proto"):
            self.assertIn(name, installed_here)
        self.assertEqual({name.split("/")[0] for name in installed_here if name}, {"bin", "share"})

    def test_the_unit_is_verified(self):
        with open(os.path.join(self.tree, UNIT), encoding="utf-8") as file:
            unit = file.read()
        copy = self.path("holdfast.service")
        with open(copy, "w", encoding="utf-8") as file:
            file.write(unit.replace("/usr/bin/holdfast", harness.BINARY))
        self.assertEqual(output_of("systemd-analyze", "verify", "--man=no", copy), "")
        with open(copy, "a", encoding="utf-8") as file:
            file.write("\n[Service]\nNoSuchSetting=1\n")
        self.assertIn("NoSuchSetting", output_of("systemd-analyze", "verify", "--man=no", copy))


def installed():
    done = subprocess.run(["dpkg-query", "-W", "-f=${db:Status-Status}", "holdfast"], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.stdout if done.returncode == 0 else ""


def dpkg(*words):
    """Waits while somebody else installs something."""
    def attempt():
        done = subprocess.run(["dpkg", *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0 and "lock" not in done.stdout:
            raise AssertionError(f"dpkg {shlex.join(words)}: exit {done.returncode}\n{done.stdout}")
        return done.returncode == 0 and [done.stdout]
    return harness.wait_until(attempt, f"dpkg {shlex.join(words)}", deadline=300)[0]


def traces():
    """What of the package is on this machine."""
    paths = ["/usr/bin/holdfast", "/etc/holdfast", "/etc/logrotate.d/holdfast", STATE, "/var/log/holdfast",
             "/usr/share/holdfast", "/usr/share/doc/holdfast", "/" + UNIT,
             "/etc/systemd/system/multi-user.target.wants/holdfast.service",
             "/etc/systemd/system/holdfast.service"]
    found = [path for path in paths if os.path.lexists(path)]
    found += [entry.pw_name for entry in pwd.getpwall() if entry.pw_name == "holdfast"]
    with open("/etc/group", encoding="utf-8") as file:
        found += [line for line in file if line.startswith("holdfast:")]
    return found


@unittest.skipUnless(os.geteuid() == 0, "installing needs root")
class Installation(harness.TestCase):
    def setUp(self):
        super().setUp()
        # There is one such machine for all checkouts on it.
        guard = open(os.path.join(tempfile.gettempdir(), "holdfast-package-test.guard"), "w", encoding="ascii")
        self.addCleanup(guard.close)
        fcntl.flock(guard, fcntl.LOCK_EX)
        if installed() or traces():
            self.skipTest(f"there is a Holdfast on this machine: {traces()}")
        self.addCleanup(self.purge)
        dpkg("-i", PACKAGE)
        self.address = f"127.0.0.1:{harness.free_port()}"
        self.process = None

    def purge(self):
        if installed():
            dpkg("--purge", "holdfast")

    def start(self):
        """The command of the installed unit, as its user and without privileges, as systemd would."""
        unit = settings_of("/" + UNIT)
        self.assertEqual(unit["StateDirectory"], os.path.basename(STATE))
        os.makedirs(STATE, mode=int(unit["StateDirectoryMode"], 8), exist_ok=True)
        shutil.chown(STATE, unit["User"], unit["Group"])
        command = shlex.split(unit["ExecStart"])
        self.process = subprocess.Popen(
            ["setpriv", f"--reuid={unit['User']}", f"--regid={unit['Group']}", "--init-groups",
             "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", *command, "--listen", self.address],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, umask=int(unit["UMask"], 8), cwd="/",
            env=harness.clean_environment())
        self.addCleanup(self.kill)
        harness.wait_until(lambda: self.holdfast("status").code == 0, "the installed server answers")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def stop(self):
        name = settings_of("/" + UNIT)["KillSignal"]
        self.process.send_signal(getattr(signal, name))
        self.assertEqual(self.process.wait(timeout=harness.DEADLINE), 0)

    def holdfast(self, *words):
        done = subprocess.run(["/usr/bin/holdfast", *words, "--endpoints", self.address, "-o", "json"],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                              env=harness.clean_environment(), timeout=harness.DEADLINE)
        return harness.Answer(done.returncode, done.stdout, done.stderr)

    def test_from_installation_to_purge(self):
        self.assertEqual(output_of("systemd-analyze", "verify", "--man=no", "/" + UNIT), "")
        self.assertEqual(output_of("dpkg", "--verify", "holdfast"), "")
        self.assertEqual(pwd.getpwnam("holdfast").pw_dir, STATE)
        folder = os.stat(os.path.dirname(CONFIGURATION))
        self.assertEqual((folder.st_mode & 0o777, folder.st_gid), (0o750, pwd.getpwnam("holdfast").pw_gid))
        self.start()
        first = self.holdfast("acquire", "a", "--ttl", "1m").json
        self.assertEqual(first["outcome"], "GRANTED")
        self.stop()
        self.assertEqual(pwd.getpwuid(os.stat(STATE + "/data").st_uid).pw_name, "holdfast")

        # What the administrator wrote outlives a new installation, and the data do as well.
        with open(CONFIGURATION, "a", encoding="utf-8") as file:
            file.write('log_level = "warning"\n')
        dpkg("-i", PACKAGE)
        with open(CONFIGURATION, encoding="utf-8") as file:
            self.assertIn('log_level = "warning"', file.read())
        self.start()
        second = self.holdfast("acquire", "b").json
        self.assertGreater(int(second["fencing_token"]), int(first["fencing_token"]))
        self.assertEqual(self.holdfast("describe", "a").json["state"], "TAKEN")
        self.stop()

        dpkg("--remove", "holdfast")
        self.assertTrue(os.path.isdir(STATE + "/data"), "a removal keeps the data")
        self.assertTrue(os.path.isfile(CONFIGURATION), "a removal keeps the configuration")
        self.assertFalse(os.path.exists("/usr/bin/holdfast"))
        said = dpkg("--purge", "holdfast")
        self.assertIn("--token-floor", said)
        self.assertEqual(traces(), [])
        self.assertEqual(installed(), "")


if __name__ == "__main__":
    harness.main()
