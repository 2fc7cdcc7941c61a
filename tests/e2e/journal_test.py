"""What is in a journal, and what happens when it is damaged."""

import glob
import os

import harness

SECTOR = 512  # docs/formats/journal.md


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
        self.assertEqual(server.ended(), 65, server.logged())
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
        self.assertEqual(server.ended(), 65, server.logged())

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
        harness.wait_until(lambda: server.json("status")["index"] > last["index"], "new batches")

    def test_missing_segment_is_refused(self):
        holdfast = self.server("--set", "segment_bytes=64KiB")
        def segments():
            return sorted(glob.glob(os.path.join(holdfast.data_dir, "segment-*")))
        harness.wait_until(lambda: holdfast.load() and len(segments()) >= 3, "three segments")
        holdfast.kill()
        os.remove(segments()[1])
        self.assertEqual(harness.run("journal", "verify", holdfast.data_dir).code, 65)
        server = self.server(ready=False)
        self.assertEqual(server.ended(), 65, server.logged())

    def test_what_is_no_data_directory(self):
        self.assertNotEqual(harness.run("journal", "inspect", self.path("nowhere")).code, 0)
        self.assertNotEqual(harness.run("journal", "verify", self.path("nowhere")).code, 0)
        self.assertNotEqual(harness.run("backup", self.path("nowhere"), self.path("b")).code, 0)
        self.assertFalse(os.path.exists(self.path("b")))
        self.assertNotEqual(harness.run("restore", self.path("b"), self.path("d")).code, 0)


if __name__ == "__main__":
    harness.main()
