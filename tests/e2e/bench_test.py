"""bench/peers: what it calls, and the report of a short run against the real peers."""

import json
import os
import shutil
import subprocess
import tempfile

import harness

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(REPOSITORY, "bench/peers")
CLUSTER = os.path.join(REPOSITORY, "bench/cluster_peers.py")
FIELDS = {"system", "mode", "concurrency", "pairs_per_s", "p50_ms", "p95_ms", "p99_ms", "errors"}


def peers(*words, script=SCRIPT, program=None):
    done = subprocess.run([script, *words], text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False,
                          env={**harness.clean_environment(), "HOLDFAST": program or harness.BINARY})
    return harness.Answer(done.returncode, done.stdout, done.stderr)


class Peers(harness.TestCase):
    def test_rows_of_every_system(self):
        file = self.path("peers.json")
        answer = peers("--concurrency", "2", "--shared", "4", "--repetitions", "1", "--warm-up",
                       "100ms", "--duration", "300ms", "--work-dir", tempfile.gettempdir(),
                       "--json", file)
        self.assertEqual(answer.code, 0, answer)
        with open(file, encoding="utf-8") as text:
            report = json.load(text)
        self.assertEqual(report["left_out"], [])
        rows = {(row["system"], row["mode"]): row for row in report["rows"]}
        separate = {("redis", "connections"), ("etcd", "connections"), ("etcd", "lease-per-lock"),
                    ("postgresql", "advisory"), ("holdfast", "resp"), ("holdfast", "stream"),
                    ("holdfast", "unary")}
        shared = {("redis", "shared"), ("etcd", "shared"), ("holdfast", "shared"),
                  ("holdfast", "resp-shared")}
        self.assertEqual(set(rows), separate | shared)
        for (system, mode), row in rows.items():
            with self.subTest(system=system, mode=mode):
                self.assertLessEqual(FIELDS, set(row))
                self.assertEqual(row["concurrency"], 4 if (system, mode) in shared else 2)
                self.assertGreater(row["pairs_per_s"], 0)
                self.assertGreater(row["p50_ms"], 0)
                self.assertLessEqual(row["p50_ms"], row["p99_ms"])
                self.assertEqual(row["errors"], 0)
                self.assertEqual(row["durable"], system != "postgresql")
        lines = [line for line in answer.out.splitlines() if line.startswith("postgresql")]
        self.assertEqual(len(lines), 1, answer)
        self.assertIn("no durability", lines[0])

    def test_a_cluster_beside_other_replicated_locks(self):
        file = self.path("peers.json")
        answer = peers(harness.BINARY, "--concurrency", "2", "--shared", "4", "--repetitions", "1",
                       "--warm-up", "100ms", "--duration", "500ms", "--zookeeper-warm-up", "500ms",
                       "--json", file, script=CLUSTER)
        self.assertEqual(answer.code, 0, answer)
        with open(file, encoding="utf-8") as text:
            report = json.load(text)
        rows = {(row["system"], row["mode"]) for row in report["rows"]}
        self.assertEqual(rows, {
            ("etcd", "connections"), ("etcd", "lease-per-lock"), ("etcd", "shared"),
            ("zookeeper", "connections"), ("zookeeper", "shared"),
            ("redlock", "connections"), ("redlock", "shared"),
            ("holdfast", "resp"), ("holdfast", "stream"), ("holdfast", "unary"),
            ("holdfast", "shared"), ("holdfast", "resp-shared")})
        self.assertEqual(report["zookeeper_warm_up_ms"], 500)
        for row in report["summary"]:
            with self.subTest(system=row["system"], mode=row["mode"]):
                self.assertGreater(row["pairs_per_s"], 0)
                self.assertEqual(row["errors"], 0)
                self.assertTrue(row["durable"])
                self.assertIsNone(row["to_redis"])
                for peer in ("to_etcd", "to_zookeeper", "to_redlock"):
                    self.assertGreater(row[peer]["median"], 0)

    def test_a_peer_that_was_named_has_to_be_there(self):
        answer = peers("--redis", "", "--etcd", "", "--postgres", "/nonexistent")
        self.assertEqual(answer.code, 64, answer)
        self.assertIn("postgres", answer.err)
        self.assertIn("/nonexistent is not there", answer.err)

    def test_help_names_both_kinds_of_options(self):
        answer = peers("--help")
        self.assertEqual(answer.code, 0, answer)
        self.assertIn("--install", answer.out)
        self.assertIn("--postgres", answer.out)


class Script(harness.TestCase):
    """The script in a tree of its own, where everything that it calls writes down how."""

    def setUp(self):
        super().setUp()
        self.script = self.path("bench/peers")
        self.calls = self.path("calls")
        self.program = self.path("program")
        os.makedirs(self.path("bench"))
        os.makedirs(self.path("scripts"))
        shutil.copy(SCRIPT, self.script)
        for path in (self.program, self.path("scripts/install_deps.sh")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\necho "$(basename "$0") $*" >>"{self.calls}"\n')
            os.chmod(path, 0o755)

    def called(self, *words):
        answer = peers(*words, script=self.script, program=self.program)
        self.assertEqual(answer.code, 0, answer)
        with open(self.calls, encoding="utf-8") as file:
            return file.read().splitlines()

    def test_installs_nothing_by_itself(self):
        self.assertEqual(self.called("--repetitions", "5"), ["program bench peers --repetitions 5"])

    def test_installs_the_peers_on_request(self):
        self.assertEqual(self.called("--install", "--quiet"),
                         ["install_deps.sh redis-server etcd-server postgresql zookeeper",
                          "program bench peers --quiet"])

    def test_installs_only_packages_of_the_list(self):
        answer = subprocess.run([os.path.join(REPOSITORY, "scripts/install_deps.sh"), "no-such-package"],
                                text=True, stderr=subprocess.PIPE, timeout=60, check=False)
        self.assertEqual(answer.returncode, 64)
        self.assertIn("no-such-package is not in scripts/packages.txt", answer.stderr)


if __name__ == "__main__":
    harness.main()
