"""`holdfast demo`: passes, cleans up, and would fail if an assertion did not hold."""

import glob
import os

import harness


class Demo(harness.TestCase):
    def env(self):
        return {"TMPDIR": self.folder}

    def test_all_assertions_hold(self):
        report = self.path("report.json")
        answer = harness.run("demo", "--json", report, env=self.env(), timeout=60)
        self.assertEqual(answer.code, 0, answer)
        self.assertIn("assertions hold", answer.out)
        self.assertNotIn("\u2717", answer.out)
        with open(report, encoding="utf-8") as file:
            told = harness.json.load(file)
        self.assertEqual((told["passed"], told["failed"]), (True, 0))
        checked = [line for line in told["timeline"] if "holds" in line]
        self.assertEqual(len(checked), told["assertions"])
        text = " ".join(line.get("text", "") for line in told["timeline"])
        for step in ("waits in the queue", "refuses A's write", "the same lease", "is killed",
                     "tokens go on rising"):
            self.assertIn(step, text)
        self.assertLess(told["duration_ms"], 15_000)
        self.assertEqual(os.listdir(self.folder), ["report.json"])  # its directory is gone
        self.assertEqual(self.servers(), [])

    def servers(self):
        """Servers that run on a directory below this test's."""
        found = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                with open(path, "rb") as file:
                    if self.folder.encode() in file.read():
                        found.append(path)
            except OSError:
                continue
        return found

    def test_on_a_server_that_is_there(self):
        holdfast = self.server()
        answer = holdfast.run("demo", "-o", "json", timeout=60)
        self.assertEqual(answer.code, 0, answer)
        self.assertIs(answer.json["passed"], True)
        self.assertIsNone(holdfast.process.poll())
        names = [row["namespace"] for row in holdfast.json("namespace", "list")["namespaces"]]
        self.assertEqual(names, ["default"])

    def test_no_server_to_be_had(self):
        answer = harness.run("demo", "--endpoints", f"127.0.0.1:{harness.free_port()}", "--timeout", "1s",
                             "-o", "json")
        self.assert_error(answer, 69)


if __name__ == "__main__":
    harness.main()
