"""Options of the server: files, flags, what is printed, and what is refused."""

import harness


class Config(harness.TestCase):
    def refused(self, *words, contains, code=64):
        answer = harness.run("server", *words)
        self.assertEqual(answer.code, code, answer)
        self.assertTrue(answer.err.startswith("holdfast: "), answer)
        for text in contains:
            self.assertIn(text, answer.err)

    def file(self, text):
        path = self.path("holdfast.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_printed_configuration_is_a_configuration(self):
        printed = harness.run("server", "--print-config")
        self.assertEqual(printed.code, 0, printed)
        self.assertIn('listen = "127.0.0.1:7420"', printed.out)
        again = harness.run("server", "--config", self.file(printed.out), "--print-config")
        self.assertEqual(again.out, printed.out)

    def test_flags_override_the_file(self):
        path = self.file('tick = "100ms"\nlog_level = "error"\n')
        printed = harness.run("server", "--config", path, "--log-level", "warning", "--set",
                              "max_calls=17", "--insecure", "--print-config").out
        for line in ('tick = "100ms"', 'log_level = "warning"', "max_calls = 17", "insecure = true"):
            self.assertIn(line, printed)

    def test_refusals(self):
        data = ("--data-dir", self.path("data"))
        self.refused("--listen", "127.0.0.1:0", contains=["data_dir"])
        self.refused(*data, "--config", self.file("tikc = 1\n"), contains=["tikc", "tick"])
        self.refused(*data, "--config", self.file('tick = "1h"\n'), contains=["tick", "limit="])
        self.refused(*data, "--config", self.file("tick ="), contains=["holdfast.toml"])
        self.refused(*data, "--set", "nothing=1", contains=["nothing"])
        self.refused(*data, "--set", "tick", contains=["tick"])
        self.refused(*data, "--listen", "nowhere", contains=["listen"])
        self.refused(*data, "--listen", "0.0.0.0:0", contains=["listen", "insecure"])
        self.refused(*data, "--config", self.path("missing.toml"), contains=["missing.toml"], code=69)

    def test_port_in_use(self):
        first = self.server()
        answer = harness.run("server", "--data-dir", self.path("other"), "--listen", first.address)
        self.assertEqual(answer.code, 69, answer)
        self.assertIn(first.address, answer.err)

    def test_json_errors(self):
        answer = harness.run("server", "--data-dir", self.path("data"), "--set", "tick=1h", "-o", "json")
        self.assert_error(answer, 64, field="tick")


if __name__ == "__main__":
    harness.main()
