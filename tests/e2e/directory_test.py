"""Data directories: one server each, copies, backups, disks that are full or read-only."""

import os
import shutil
import subprocess

import harness


class Directory(harness.TestCase):
    def refused(self, name, code, *contains, words=()):
        """A server on this directory must end with `code` and say why."""
        server = self.server(*words, name=name, ready=False)
        self.assertEqual(server.ended(), code, server.logged())
        for text in contains:
            self.assertIn(text, server.logged())

    def short_leases(self, holdfast):
        """So that the pause after a recovery is short too."""
        holdfast.json("namespace", "set", "default", "--ttl-default", "1s", "--ttl-max", "1s",
                      "--lock-delay", "0s")

    def wait_for_grant(self, holdfast, name):
        """After a recovery: blocked first, then granted."""
        blocked = holdfast.run("acquire", name, "-o", "json")
        self.assertEqual((blocked.code, blocked.json["outcome"]), (75, "GRANTS_BLOCKED"), blocked)
        self.assertGreater(blocked.json["retry_after_ms"], 0)
        granted = harness.wait_until(
            lambda: (answer := holdfast.run("acquire", name, "-o", "json")).code == 0 and answer,
            "a grant after the pause", 60)
        return int(granted.json["fencing_token"])

    def test_second_server_on_the_directory(self):
        first = self.server()
        self.refused("data", 69, str(first.process.pid), first.data_dir)
        first.json("acquire", "a")
        first.kill()
        second = self.server()  # the lock of a dead process is none
        self.assertEqual(second.json("describe", "a")["state"], "TAKEN")

    def test_read_only_directory(self):
        holdfast = self.server()
        holdfast.json("acquire", "a")
        holdfast.stop()
        with self.mounted(holdfast.data_dir, "--bind", holdfast.data_dir):
            subprocess.run(["mount", "-o", "remount,ro,bind", holdfast.data_dir], check=True)
            self.refused("data", 77, holdfast.data_dir)
            self.assertEqual(harness.run("journal", "verify", holdfast.data_dir).code, 0)
            self.assertEqual(harness.run("journal", "inspect", holdfast.data_dir).code, 0)

    def test_copied_directory_grants_nothing_until_recovered(self):
        holdfast = self.server()
        self.short_leases(holdfast)
        token = int(holdfast.json("acquire", "a")["fencing_token"])
        copy = self.path("copy")
        holdfast.stop()
        shutil.copytree(holdfast.data_dir, copy)
        holdfast.start()
        token = max(token, int(holdfast.json("acquire", "b")["fencing_token"]))
        holdfast.kill()

        self.refused("copy", 77, "holdfast recover", "--token-floor")
        missing = harness.run("recover", copy, "-o", "json")
        self.assert_error(missing, 64)
        self.assert_error(harness.run("recover", copy, "--token-floor", "0", "-o", "json"), 64)
        recovered = harness.run("recover", copy, "--token-floor", str(token + 100), "-o", "json")
        self.assertEqual((recovered.code, recovered.json["token_floor"]), (0, str(token + 100)))
        copied = self.server(name="copy")
        self.assertGreater(self.wait_for_grant(copied, "c"), token + 100)
        copied.kill()
        copied.start()  # the pause is over for good
        copied.json("acquire", "d")

    def test_backup_beside_a_server_and_restore(self):
        holdfast = self.server()
        self.short_leases(holdfast)
        holdfast.json("namespace", "create", "long")
        kept = holdfast.json("acquire", "kept", "--namespace", "long", "--ttl", "10m", "--request-id", "r")
        backup = self.path("file.backup")
        done = harness.run("backup", holdfast.data_dir, backup, "-o", "json")
        self.assertEqual(done.code, 0, done)
        self.assertGreater(done.json["last_index"], 0)
        self.assert_error(harness.run("backup", holdfast.data_dir, backup, "-o", "json"), 64)
        token = int(holdfast.json("acquire", "later")["fencing_token"])
        holdfast.json("namespace", "set", "long", "--ttl-default", "1s", "--ttl-max", "1s")

        unusable = harness.run("restore", backup, self.path("blocked"), "-o", "json")
        self.assertEqual(unusable.code, 0, unusable)
        self.refused("blocked", 77, "holdfast recover", "--token-floor")
        restored = harness.run("restore", backup, self.path("new"), "--token-floor", str(token), "-o", "json")
        self.assertEqual(restored.code, 0, restored)
        self.assert_error(harness.run("restore", backup, self.path("new"), "--token-floor", "1", "-o",
                                      "json"), 64)
        new = self.server(name="new")
        again = new.json("acquire", "kept", "--namespace", "long", "--ttl", "10m", "--request-id", "r")
        self.assertEqual(again["lease_id"], kept["lease_id"])
        self.assertEqual(new.json("acquire", "x", code=75)["outcome"], "GRANTS_BLOCKED")

        with open(backup, "r+b") as file:
            file.seek(os.path.getsize(backup) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        damaged = harness.run("restore", backup, self.path("third"), "-o", "json")
        self.assert_error(damaged, 65, contains="file.backup")

    def test_restored_tokens_are_above_the_floor(self):
        holdfast = self.server()
        self.short_leases(holdfast)
        backup = self.path("file.backup")
        self.assertEqual(harness.run("backup", holdfast.data_dir, backup).code, 0)
        token = int(holdfast.json("acquire", "later")["fencing_token"])
        holdfast.kill()
        done = harness.run("restore", backup, self.path("new"), "--token-floor", str(token))
        self.assertEqual(done.code, 0, done)
        self.assertGreater(self.wait_for_grant(self.server(name="new"), "x"), token)

    def test_full_disk_refuses_and_comes_back(self):
        disk = self.path("disk")
        os.mkdir(disk)
        with self.mounted(disk, "-t", "tmpfs", "-o", "size=2m", "none"):
            holdfast = self.server("--set", "segment_bytes=64KiB", name="disk/data")
            try:
                self.fill_and_free(holdfast, disk)
            finally:
                holdfast.kill()

    def fill_and_free(self, holdfast, disk):
        lease = holdfast.json("acquire", "kept", "--ttl", "10m")
        with open(os.path.join(disk, "filler"), "wb", buffering=0) as filler:
            with self.assertRaises(OSError):
                while filler.write(b"x" * 4096):
                    pass

        def refused():
            holdfast.run("bench", "locks", "--warm-up", "10ms", "--duration", "300ms", "--quiet")
            answer = holdfast.run("acquire", f"a/{os.urandom(4).hex()}", "--owner", "o" * 128,
                                  "--timeout", "300ms", "-o", "json")
            return answer.code != 0 and answer
        answer = harness.wait_until(refused, "a refusal of the full disk", 60)
        self.assertEqual(answer.code, 69, answer)
        self.assertIsNone(holdfast.process.poll())  # it stays up
        self.assertIs(holdfast.json("status")["accepting_writes"], False)
        self.assertEqual(holdfast.json("describe", "kept")["holder"]["lease_fp"], lease["lease_fp"])

        os.remove(os.path.join(disk, "filler"))
        harness.wait_until(lambda: holdfast.run("acquire", "again").code in (0, 75), "it accepts writes again")
        self.assertIs(holdfast.json("status")["accepting_writes"], True)
        holdfast.restart()
        self.assertEqual(holdfast.json("describe", "kept")["holder"]["lease_fp"], lease["lease_fp"])
        self.assertEqual(harness.run("journal", "verify", holdfast.data_dir).code, 0)


if __name__ == "__main__":
    harness.main()
