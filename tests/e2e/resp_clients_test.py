"""The RESP front through clients that people have, as they are: hiredis, ioredis, redis-cli in version 3."""

import os
import subprocess

import harness
import node

HERE = os.path.dirname(os.path.abspath(__file__))
TOKEN = "resp-secret-of-16-bytes"


class RespClients(harness.TestCase):
    def resp_server(self, *words):
        self.port = harness.free_port()
        return self.server("--resp", f"127.0.0.1:{self.port}", *words)

    def with_identity(self):
        with open(self.path("token"), "w", encoding="ascii") as file:
            file.write(TOKEN)
        with open(self.path("config.toml"), "w", encoding="ascii") as file:
            file.write(f'[[identity]]\nname = "svc"\ntoken_file = "{self.path("token")}"\n')
        return self.resp_server("--config", self.path("config.toml"))

    def passes(self, *words):
        done = subprocess.run([str(word) for word in words], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "all as expected\n"))


class Hiredis(RespClients):
    def setUp(self):
        super().setUp()
        self.program = os.path.join(os.path.dirname(harness.BINARY), "hiredis_client")

    def test_open_server(self):
        self.resp_server()
        self.passes(self.program, "127.0.0.1", self.port)

    def test_with_a_token(self):
        self.with_identity()
        self.passes(self.program, "127.0.0.1", self.port, TOKEN)


class Ioredis(RespClients):
    @classmethod
    def setUpClass(cls):
        cls.folder_of_client = node.install(os.path.join(HERE, "ioredis"))

    def lives(self, server, *words):
        command = ["node", os.path.join(self.folder_of_client, "client.mjs"), str(self.port), *words]
        with open(self.path("client.log"), "w", encoding="utf-8") as log, subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as client:
            self.addCleanup(client.kill)
            self.wait_word(client, "READY")
            server.kill()
            self.wait_word(client, "ASKED")
            server.start()
            code = client.wait(timeout=harness.DEADLINE)
        self.assertEqual((code, self.said().splitlines()[-1:]), (0, ["all as expected"]), self.said())

    def said(self):
        with open(self.path("client.log"), encoding="utf-8") as file:
            return file.read()

    def wait_word(self, client, word):
        def found():
            if client.poll() is not None:
                raise AssertionError(f"it ended without {word}:\n{self.said()}")
            return word in self.said()
        harness.wait_until(found, word)

    def test_open_server(self):
        self.lives(self.resp_server())

    def test_with_a_token(self):
        self.lives(self.with_identity(), TOKEN)


class RedisCli(RespClients):
    def test_pushes_of_version_3(self):
        """A watch in redis-cli: what happens shows up between the answers."""
        server = self.resp_server()
        with subprocess.Popen(["redis-cli", "-3", "-p", str(self.port), "--show-pushes", "yes"], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as cli:
            self.addCleanup(cli.kill)
            self.say(cli, "HOLDFAST.WATCH PREFIX orders/")
            granted = self.say(cli, "HOLDFAST.ACQUIRE orders/1 OWNER me TTL 20000")
            self.assertIn("fencing_token", granted)
            for word in ("holdfast.watch", "GRANTED"):
                self.say_until(cli, word)
            server.json("break", "orders/1", "--reason", "words of an administrator")
            self.assertIn("words of an administrator", self.say_until(cli, "REVOKING"))
            cli.communicate("QUIT\n", timeout=harness.DEADLINE)

    def setUp(self):
        super().setUp()
        self.seen = ""

    def say(self, cli, words):
        """What comes before the answer to a PING behind these words."""
        cli.stdin.write(f"{words}\nPING\n")
        cli.stdin.flush()
        lines = []
        for line in cli.stdout:
            if line == "PONG\n":
                break
            lines.append(line)
        self.seen += "".join(lines)
        return "".join(lines)

    def say_until(self, cli, word):
        """redis-cli shows a push when it reads the next answer."""
        def found():
            self.say(cli, "ECHO again")
            return word in self.seen
        harness.wait_until(found, f"{word} in {self.seen}")
        return self.seen


if __name__ == "__main__":
    harness.main()
