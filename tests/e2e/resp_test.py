"""The RESP front: native verbs, order, pushes, limits, and the clients that people have."""

import json
import shutil
import socket
import subprocess
import unittest

import harness


class Resp:
    """A connection that speaks RESP by hand."""

    def __init__(self, address, version=2):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=harness.DEADLINE)
        self.file = self.socket.makefile("rb")
        self.pushes = []
        if version == 3:
            self.call("HELLO", "3")

    def send(self, *words):
        words = [str(word).encode() for word in words]
        self.raw(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))

    def raw(self, data):
        self.socket.sendall(data)

    def call(self, *words):
        self.send(*words)
        return self.reply()

    def outcome(self, *words):
        """The reply to a verb, as a dictionary in either version."""
        reply = self.call(*words)
        return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))

    def reply(self):
        while True:
            kind, value = self.read()
            if kind != ">":
                return value
            self.pushes.append(value)

    def push(self):
        while not self.pushes:
            kind, value = self.read()
            assert kind == ">", value
            self.pushes.append(value)
        return self.pushes.pop(0)

    def read(self):
        line = self.file.readline()
        if not line:
            raise EOFError
        kind, text = chr(line[0]), line[1:-2].decode()
        if kind in "+-":
            return kind, (text if kind == "+" else Exception(text))
        if kind == ":":
            return kind, int(text)
        if kind == "_":
            return kind, None
        if kind == "$":
            return kind, None if int(text) < 0 else self.file.read(int(text) + 2)[:-2].decode()
        values = [self.read()[1] for _ in range(int(text) * (2 if kind == "%" else 1))]
        return kind, dict(zip(values[::2], values[1::2])) if kind == "%" else values

    def close(self):
        self.file.close()
        self.socket.close()


class RespTest(harness.TestCase):
    def resp_server(self, *words):
        self.resp_address = f"127.0.0.1:{harness.free_port()}"
        server = self.server("--resp", self.resp_address, *words)
        harness.wait_until(self.answers, "the RESP listener")
        return server

    def answers(self):
        try:
            self.connect()
            return True
        except OSError:
            return False

    def connect(self, version=2):
        connection = Resp(self.resp_address, version)
        self.addCleanup(connection.close)
        return connection


class Verbs(RespTest):
    def test_life_of_a_lock(self):
        holdfast = self.resp_server()
        one, two = self.connect(), self.connect(3)
        granted = one.outcome("HOLDFAST.ACQUIRE", "a", "OWNER", "one", "TTL", 20000)
        self.assertEqual((granted["outcome"], granted["ttl_ms"], granted["guarantee"]),
                         ("GRANTED", 20000, "ADVISORY"))
        held = two.outcome("holdfast.acquire", "a", "OWNER", "two")
        self.assertEqual((held["outcome"], held["holder_owner"], held["holder_fencing_token"]),
                         ("HELD", "one", granted["fencing_token"]))
        renewed = one.outcome("HOLDFAST.RENEW", "a", granted["lease_id"])
        self.assertEqual((renewed["outcome"], renewed["ttl_ms"]), ("RENEWED", 20000))
        self.assertEqual(one.outcome("HOLDFAST.CHECK", "a", granted["fencing_token"])["verdict"],
                         "CURRENT")
        # The other fronts see the same state.
        self.assertEqual(holdfast.json("describe", "a")["holder"]["owner"], "one")
        self.assertEqual(two.outcome("HOLDFAST.DESCRIBE", "a")["state"], "TAKEN")
        self.assertEqual([item["name"] for item in two.outcome("HOLDFAST.LIST")["items"]], ["a"])
        self.assertEqual(two.outcome("HOLDFAST.RELEASE", "a", "0" * 31 + "1")["cause"], "NEVER_HELD")
        self.assertEqual(one.outcome("HOLDFAST.RELEASE", "a", granted["lease_id"])["outcome"],
                         "RELEASED")
        again = two.outcome("HOLDFAST.ACQUIRE", "a", "REQUEST", "r")
        self.assertGreater(again["fencing_token"], granted["fencing_token"])
        self.assertEqual(two.outcome("HOLDFAST.ACQUIRE", "a", "REQUEST", "r")["lease_id"],
                         again["lease_id"])
        self.assertEqual(two.outcome("HOLDFAST.CANCEL", "a", "other")["outcome"],
                         "CANCELLED_BEFORE_ARRIVAL")
        self.assertEqual(one.outcome("HOLDFAST.BREAK", "a", "REASON", "why", "DRYRUN")["outcome"],
                         "WOULD_BREAK")

    def test_sessions_and_elections(self):
        self.resp_server()
        one = self.connect()
        session = one.outcome("HOLDFAST.SESSION.OPEN", "TTL", 20000)["session_id"]
        lead = one.outcome("HOLDFAST.CAMPAIGN", "e", "VALUE", "here", "SESSION", session)
        self.assertEqual(lead["outcome"], "GRANTED")
        leader = one.outcome("HOLDFAST.LEADER", "e")
        self.assertEqual((leader["vacant"], leader["value"], leader["fencing_token"]),
                         (0, "here", lead["fencing_token"]))
        self.assertEqual(one.outcome("HOLDFAST.PROCLAIM", "e", lead["lease_id"], "there")["outcome"],
                         "PROCLAIMED")
        self.assertEqual(one.outcome("HOLDFAST.SESSION.KEEPALIVE", session)["outcome"], "KEPT")
        self.assertEqual(one.outcome("HOLDFAST.SESSION.DESCRIBE", session)["holds"], 1)
        self.assertEqual(one.outcome("HOLDFAST.RESIGN", "e", lead["lease_id"])["outcome"], "RELEASED")
        self.assertEqual(one.outcome("HOLDFAST.SESSION.CLOSE", session)["outcome"], "CLOSED")
        self.assertEqual(one.outcome("HOLDFAST.LEADER", "e")["vacant"], 1)

    def test_a_wait_holds_back_the_answers_behind_it(self):
        self.resp_server()
        one, two = self.connect(), self.connect()
        lease = one.outcome("HOLDFAST.ACQUIRE", "a")["lease_id"]
        two.send("HOLDFAST.ACQUIRE", "a", "WAIT", 20000)
        two.send("PING")
        harness.wait_until(lambda: one.outcome("HOLDFAST.DESCRIBE", "a")["queue_length"] == 1, "a wait")
        one.outcome("HOLDFAST.RELEASE", "a", lease)
        granted = two.reply()
        self.assertIn("GRANTED", granted)
        self.assertIn("provisional", granted)
        self.assertEqual(two.reply(), "PONG")

    def test_a_client_that_goes_leaves_no_waiter(self):
        holdfast = self.resp_server()
        one, two = self.connect(), self.connect()
        one.outcome("HOLDFAST.ACQUIRE", "a")
        two.send("HOLDFAST.ACQUIRE", "a", "WAIT", 60000)
        harness.wait_until(lambda: one.outcome("HOLDFAST.DESCRIBE", "a")["queue_length"] == 1, "a wait")
        two.close()
        harness.wait_until(lambda: holdfast.json("describe", "a")["queue_length"] == 0, "no wait")

    def test_pipelining_keeps_the_order(self):
        self.resp_server()
        one = self.connect()
        for i in range(2000):
            one.send("HOLDFAST.ACQUIRE", f"p/{i}", "REQUEST", i)
            if i % 100 == 0:
                one.send("ECHO", i)
        for i in range(2000):
            self.assertIn(str(i), one.reply())
            if i % 100 == 0:
                self.assertEqual(one.reply(), str(i))


class Pushes(RespTest):
    def test_a_watch_pushes_events(self):
        self.resp_server()
        watcher, one = self.connect(3), self.connect()
        watch = watcher.call("HOLDFAST.WATCH", "PREFIX", "orders/")["watch"]
        one.outcome("HOLDFAST.ACQUIRE", "other")
        lease = one.outcome("HOLDFAST.ACQUIRE", "orders/1", "OWNER", "me")
        one.outcome("HOLDFAST.BREAK", "orders/1", "REASON", "why")
        one.outcome("HOLDFAST.RELEASE", "orders/1", lease["lease_id"])
        pushes = [watcher.push() for _ in range(3)]
        self.assertEqual([push[:2] for push in pushes], [["holdfast.watch", watch]] * 3)
        events = [push[2] for push in pushes]
        self.assertEqual([event["kind"] for event in events], ["GRANTED", "REVOKING", "ENDED"])
        self.assertEqual((events[0]["owner"], events[0]["fencing_token"], events[1]["reason"]),
                         ("me", lease["fencing_token"], "why"))
        # Another watch sees the rest of them again.
        later = watcher.call("HOLDFAST.WATCH", "EXACT", "orders/1", "AFTER", events[0]["index"])["watch"]
        self.assertEqual([watcher.push()[1:] for _ in range(2)],
                         [[later, events[1]], [later, events[2]]])
        self.assertEqual(watcher.call("HOLDFAST.UNWATCH", watch), "OK")
        self.assertIsInstance(watcher.call("HOLDFAST.UNWATCH", watch), Exception)

    def test_an_asynchronous_wait_pushes_its_outcome(self):
        self.resp_server()
        one, two = self.connect(), self.connect(3)
        lease = one.outcome("HOLDFAST.ACQUIRE", "a")["lease_id"]
        self.assertEqual(two.call("HOLDFAST.ACQUIRE", "a", "WAIT", 20000, "ASYNC", "REQUEST", "r"),
                         {"outcome": "PENDING", "request_id": "r"})
        self.assertEqual(two.call("PING"), "PONG")
        harness.wait_until(lambda: one.outcome("HOLDFAST.DESCRIBE", "a")["queue_length"] == 1, "a wait")
        one.outcome("HOLDFAST.RELEASE", "a", lease)
        kind, request, outcome = two.push()
        self.assertEqual((kind, request, outcome["outcome"]), ("holdfast.outcome", "r", "GRANTED"))

    def test_an_observer_sees_leaders_and_vacancy(self):
        self.resp_server()
        observer, one = self.connect(3), self.connect()
        observer.call("HOLDFAST.OBSERVE", "e")
        self.assertEqual(observer.push()[2]["vacant"], 1)
        lead = one.outcome("HOLDFAST.CAMPAIGN", "e", "VALUE", "one")
        self.assertEqual(observer.push()[2]["value"], "one")
        one.outcome("HOLDFAST.RESIGN", "e", lead["lease_id"])
        self.assertEqual(observer.push()[2]["vacant"], 1)

    def test_pushes_need_version_3(self):
        self.resp_server()
        one = self.connect()
        for words in (("HOLDFAST.WATCH",), ("HOLDFAST.OBSERVE", "e"), ("HOLDFAST.ACQUIRE", "a", "ASYNC")):
            self.assertIn("HELLO 3", str(one.call(*words)))


class Limits(RespTest):
    def test_errors_name_field_and_limit(self):
        self.resp_server()
        one = self.connect()
        for words, code, part in (
                (("HOLDFAST.ACQUIRE", "BAD NAME"), "INVALIDARG", "field resource"),
                (("HOLDFAST.ACQUIRE", "a", "TTL", "1"), "INVALIDARG", "field ttl"),
                (("HOLDFAST.ACQUIRE", "a", "OWNER", "x" * 2000), "INVALIDARG", "field owner"),
                (("HOLDFAST.ACQUIRE", "a", "NAMESPACE", "none"), "NOTFOUND", "namespace"),
                (("HOLDFAST.ACQUIRE",), "INVALIDARG", "usage"),
                (("GET", "a"), "ERR", "unknown command"),
                (("HOLDFAST.WATCH", "EXACT", "B"), "INVALIDARG", "field")):
            error = str(one.call(*words))
            self.assertTrue(error.startswith(code + " "), error)
            self.assertIn(part, error)
        self.assertEqual(one.call("PING"), "PONG")

    def test_a_broken_stream_is_closed_with_a_word(self):
        self.resp_server()
        for data in (b"*-2\r\n", b"*1\r\n:5\r\n", b"*1\r\n$99999999\r\n", b"a" * 5000):
            one = self.connect()
            one.raw(data)
            self.assertIn("Protocol error", str(one.reply()))
            self.assertRaises((EOFError, ConnectionError), one.read)

    def test_tokens_of_identities(self):
        token = "resp-secret-of-16-bytes"
        with open(self.path("token"), "w", encoding="ascii") as file:
            file.write(token)
        with open(self.path("config.toml"), "w", encoding="ascii") as file:
            file.write(f'[[identity]]\nname = "svc"\ntoken_file = "{self.path("token")}"\n')
        self.resp_server("--config", self.path("config.toml"))
        one = self.connect()
        self.assertTrue(str(one.call("HOLDFAST.ACQUIRE", "a")).startswith("NOAUTH"))
        self.assertTrue(str(one.call("AUTH", "wrong")).startswith("WRONGPASS"))
        self.assertEqual(one.call("AUTH", token), "OK")
        self.assertEqual(one.outcome("HOLDFAST.ACQUIRE", "a")["outcome"], "GRANTED")

    def test_other_machines_need_a_word(self):
        answer = harness.run("server", "--data-dir", self.path("data"), "--listen", "127.0.0.1:0",
                             "--resp", "0.0.0.0:1")
        self.assertEqual(answer.code, 64, answer)
        self.assertIn("resp_listen", answer.err)

    def test_a_stop_answers_those_who_wait(self):
        holdfast = self.resp_server()
        one, two = self.connect(), self.connect()
        one.outcome("HOLDFAST.ACQUIRE", "a")
        two.send("HOLDFAST.ACQUIRE", "a", "WAIT", 60000)
        harness.wait_until(lambda: one.outcome("HOLDFAST.DESCRIBE", "a")["queue_length"] == 1, "a wait")
        self.assertEqual(holdfast.stop(), 0)
        self.assertTrue(str(two.reply()).startswith("UNAVAILABLE"))


class Clients(RespTest):
    def test_redis_cli(self):
        self.resp_server()
        port = self.resp_address.rsplit(":", 1)[1]
        cli = ["redis-cli", "-p", port, "--json", "HOLDFAST.ACQUIRE", "a", "OWNER", "cli"]
        granted = json.loads(subprocess.run(cli, stdout=subprocess.PIPE, check=True, timeout=30).stdout)
        self.assertEqual(granted["outcome"], "GRANTED")

    def test_redis_benchmark(self):
        self.resp_server()
        port = self.resp_address.rsplit(":", 1)[1]
        for words in (["PING"], ["HOLDFAST.ACQUIRE", "bench/__rand_int__", "TTL", "1000"]):
            done = subprocess.run(["redis-benchmark", "-p", port, "-c", "20", "-n", "2000", "-r", "100000",
                                   "-P", "4", "--csv", *words],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True, timeout=60)
            self.assertIn(words[0].encode(), done.stdout)


if __name__ == "__main__":
    if not shutil.which("redis-cli"):
        raise SystemExit("redis-cli is not installed: ./dev deps")
    harness.main()
