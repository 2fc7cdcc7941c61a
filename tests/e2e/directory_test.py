"""Data directories: one server each, copies, backups, damage, disks that are full or read-only."""

import glob
import os
import shutil
import subprocess

import harness


SECTOR = 512  # docs/formats/journal.md


def ended(server):
    return server.process.wait(timeout=harness.DEADLINE)


class Directory(harness.TestCase):
    def refused(self, name, code, *contains, words=()):
        """A server on this directory must end with `code` and say why."""
        server = self.server(*words, name=name, ready=False)
        self.assertEqual(ended(server), code, server.logged())
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


class Journal(harness.TestCase):
    def written(self, count=8):
        """A stopped server's directory with some commands in it; and the ids that are capabilities."""
        holdfast = self.server()
        secrets = []
        for number in range(count):
            grant = holdfast.json("acquire", f"a/{number}", "--owner", "me", "--request-id",
                                  f"secret-request-{number}")
            secrets += [grant["lease_id"], grant["request_id"]]
        secrets.append(holdfast.json("session", "open")["session_id"])
        holdfast.json("release", "a/0", "--lease-id", secrets[0])
        holdfast.json("namespace", "create", "pay", "--protection", "fenced")
        return holdfast, secrets

    @staticmethod
    def flip(path, offset):
        with open(path, "r+b") as file:
            file.seek(offset)
            byte = file.read(1)
            file.seek(offset)
            file.write(bytes([byte[0] ^ 0x40]))

    def rows(self, *words):
        answer = harness.run("journal", "inspect", *words, "-o", "json")
        self.assertEqual(answer.code, 0, answer)
        rows = [harness.json.loads(line) for line in answer.out.splitlines()]
        return rows[:-1], rows[-1]["summary"], answer.out

    def test_inspect_beside_a_server_shows_no_capability(self):
        holdfast, secrets = self.written()
        batches, summary, text = self.rows(holdfast.data_dir)
        self.assertIs(summary["sound"], True)
        self.assertEqual([batch["index"] for batch in batches],
                         sorted(batch["index"] for batch in batches))
        commands = [command for batch in batches for command in batch["commands"]]
        verbs = [command["verb"] for command in commands]
        for verb in ("epoch_start", "acquire", "session_open", "release", "namespace_create"):
            self.assertIn(verb, verbs)
        acquire = next(command for command in commands if command["resource"] == "a/3")
        self.assertEqual((acquire["owner"], acquire["principal"]), ("me", "anonymous"))
        self.assertRegex(acquire["lease_fp"], r"^[0-9a-f]{12}$")
        plain = harness.run("journal", "inspect", holdfast.data_dir)
        self.assertIn("acquire  a/3 ", plain.out)
        for secret in secrets:
            self.assertNotIn(secret, text)
            self.assertNotIn(secret, plain.out)

    def test_inspect_a_part(self):
        holdfast, _ = self.written()
        holdfast.stop()
        everything, summary, _ = self.rows(holdfast.data_dir)
        low, high = everything[2]["index"], everything[4]["index"]
        part, _, _ = self.rows(holdfast.data_dir, "--from", str(low), "--to", str(high))
        self.assertEqual(part, everything[2:5])
        self.assertEqual(summary["last_index"], everything[-1]["index"])

    def test_bit_flip_in_the_synced_prefix_is_refused(self):
        holdfast, _ = self.written()
        holdfast.kill()
        batches, _, _ = self.rows(holdfast.data_dir)
        victim = next(b for b in batches if any(c["verb"] == "acquire" for c in b["commands"]))
        segment = os.path.join(holdfast.data_dir, victim["file"])
        self.flip(segment, victim["offset"] + 70)
        verified = harness.run("journal", "verify", holdfast.data_dir, "-o", "json")
        self.assertEqual(verified.code, 65, verified)
        self.assertIs(verified.json["sound"], False)
        self.assertEqual(verified.json["damage"][0]["file"], victim["file"])
        rest, summary, _ = self.rows(holdfast.data_dir)  # what can be read is shown
        self.assertEqual((len(rest) > 2, summary["sound"]), (True, False))
        server = self.server(ready=False)
        self.assertEqual(ended(server), 65, server.logged())
        self.assertIn(victim["file"], server.logged())

        recover = ("recover", holdfast.data_dir, "--token-floor", "1000", "-o", "json")
        self.assert_error(harness.run(*recover), 65)
        accepted = harness.run(*recover, "--accept-damage")
        self.assertEqual(accepted.code, 0, accepted)
        self.assertTrue(accepted.json["put_aside"])
        recovered = self.server()
        self.assertEqual(recovered.json("acquire", "x", code=75)["outcome"], "GRANTS_BLOCKED")

    def test_bit_flip_in_the_last_acknowledged_record_is_refused(self):
        holdfast, _ = self.written(count=2)
        holdfast.kill()
        last = self.rows(holdfast.data_dir)[0][-1]
        self.flip(os.path.join(holdfast.data_dir, last["file"]), last["offset"] + 70)
        verified = harness.run("journal", "verify", holdfast.data_dir, "-o", "json")
        self.assertEqual((verified.code, verified.json["torn_tail"]), (65, {}), verified)
        server = self.server(ready=False)
        self.assertEqual(ended(server), 65, server.logged())

    def test_torn_tail_is_cut(self):
        """An append of which the end is missing was never answered."""
        holdfast, _ = self.written(count=2)
        holdfast.kill()
        batches = self.rows(holdfast.data_dir)[0]
        last = batches[-1]
        with open(os.path.join(holdfast.data_dir, last["file"]), "r+b") as file:
            file.seek(last["offset"] + 70)
            file.write(bytes(SECTOR - (last["offset"] + 70) % SECTOR))
        verified = harness.run("journal", "verify", holdfast.data_dir, "-o", "json")
        self.assertEqual((verified.code, verified.json["torn_tail"]["file"]), (0, last["file"]), verified)
        server = self.server()
        self.assertIn("cut an append", server.logged())
        self.assertEqual(server.json("describe", "a/1")["state"], "TAKEN")
        self.assertGreater(server.json("status")["index"], last["index"])

    def test_missing_segment_is_refused(self):
        holdfast = self.server("--set", "segment_bytes=64KiB")
        def segments():
            return sorted(glob.glob(os.path.join(holdfast.data_dir, "segment-*")))
        harness.wait_until(lambda: holdfast.load() and len(segments()) >= 3, "three segments")
        holdfast.kill()
        os.remove(segments()[1])
        self.assertEqual(harness.run("journal", "verify", holdfast.data_dir).code, 65)
        server = self.server(ready=False)
        self.assertEqual(ended(server), 65, server.logged())

    def test_what_is_no_data_directory(self):
        self.assertNotEqual(harness.run("journal", "inspect", self.path("nowhere")).code, 0)
        self.assertNotEqual(harness.run("journal", "verify", self.path("nowhere")).code, 0)
        self.assertNotEqual(harness.run("backup", self.path("nowhere"), self.path("b")).code, 0)
        self.assertFalse(os.path.exists(self.path("b")))
        self.assertNotEqual(harness.run("restore", self.path("b"), self.path("d")).code, 0)


if __name__ == "__main__":
    harness.main()
