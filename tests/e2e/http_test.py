"""The HTTP front of the built binary: every verb, long polls, server-sent events, problems, limits,
clients that are slow or vanish, a graceful stop, and the walk-through of docs/HTTP.md."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import threading

import access_test
import harness
import http_walk

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
JSON = {"Content-Type": "application/json"}


def page():
    with open(os.path.join(ROOT, "docs", "HTTP.md"), encoding="utf-8") as file:
        return file.read()


class Reply:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.text = response.read().decode()

    @property
    def json(self):
        return json.loads(self.text)

    def __repr__(self):
        return f"{self.status} {dict(self.headers)}\n{self.text}"


class Events:
    """A stream of server-sent events on a connection of its own."""

    def __init__(self, port, target, **headers):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=harness.DEADLINE)
        self.connection.request("GET", target, headers=headers)
        self.response = self.connection.getresponse()
        assert self.response.status == 200, Reply(self.response)
        assert self.response.headers["Content-Type"] == "text/event-stream"

    def next(self):
        """(type, data, id) of the next event; None at the end of the stream."""
        fields = {}
        for line in self.response:
            text = line.decode().rstrip("\n")
            if text == "" and "data" in fields:
                return fields["event"], json.loads(fields["data"]), fields.get("id")
            name, _, value = text.partition(": ")
            fields[name] = value
        return None

    def close(self):
        self.response.close()
        self.connection.close()


class HttpCase(harness.TestCase):
    def start(self, *words, **options):
        port = harness.free_port()
        self.holdfast = self.server("--http", f"127.0.0.1:{port}", *words, ready=False, **options)
        self.port = port
        harness.wait_until(self.is_ready, "the HTTP listener")
        return self.holdfast

    def is_ready(self):
        if self.holdfast.process.poll() is not None:
            raise AssertionError(self.holdfast.logged())
        try:
            return self.call("GET", "/readyz").status == 200
        except OSError:
            return False

    def connect(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=harness.DEADLINE)
        self.addCleanup(connection.close)
        return connection

    def call(self, method, target, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=harness.DEADLINE)
        try:
            connection.request(method, target, body, headers or {})
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def post(self, path, status=200, **fields):
        reply = self.call("POST", path, json.dumps(fields), JSON)
        self.assertEqual(reply.status, status, reply)
        return reply.json

    def get(self, target, status=200):
        reply = self.call("GET", target)
        self.assertEqual(reply.status, status, reply)
        return reply.json

    def acquire(self, resource, **fields):
        return self.post("/v1/locks/acquire", resource=resource, **fields)

    def later(self, function, *arguments, **options):
        """Runs the function beside; the result is in what comes back, after join."""
        result = []
        thread = threading.Thread(target=lambda: result.append(function(*arguments, **options)), daemon=True)
        thread.start()

        def value():
            thread.join(harness.DEADLINE)
            self.assertTrue(result, "no answer")
            return result[0]
        return value

    def raw(self, data=b""):
        """A socket on which `data` was sent."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=harness.DEADLINE)
        self.addCleanup(plain.close)
        plain.sendall(data)
        return plain

    def events(self, target, **headers):
        events = Events(self.port, target, **headers)
        self.addCleanup(events.close)
        return events

    def metric(self, name):
        text = self.call("GET", "/metrics").text
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M).group(1))

    def waiters(self, resource):
        return self.get(f"/v1/locks/describe?resource={resource}")["queue"]

    def assert_problem(self, reply, status, reason=None, field=None):
        self.assertEqual(reply.status, status, reply)
        self.assertEqual(reply.headers["Content-Type"], "application/problem+json", reply)
        problem = reply.json
        self.assertEqual(problem["status"], status)
        self.assertTrue(problem["type"].startswith("urn:problem-type:holdfast:"))
        self.assertTrue(problem["title"] and problem["detail"], reply)
        if reason is not None:
            self.assertEqual(problem["reason"], reason, reply)
        if field is not None:
            self.assertEqual(problem["field"], field, reply)
            self.assertTrue(problem["limit"], reply)
        return problem


def read_all(plain):
    data = b""
    try:
        while piece := plain.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


def raw_post(path, fields, *headers):
    body = json.dumps(fields)
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json",
             f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


class Verbs(HttpCase):
    def test_every_path_of_the_page(self):
        self.start()
        called = {"/v1/locks/watch", "/v1/elections/observe"}  # have tests of their own

        def post(path, status=200, **fields):
            called.add(path)
            return self.post(path, status, **fields)

        def both(path, **fields):
            query = "&".join(f"{name}={value}" for name, value in fields.items())
            from_get, from_post = self.get(f"{path}?{query}"), post(path, **fields)
            self.assertEqual(from_get.keys(), from_post.keys())
            return from_post

        lock = {"resource": "orders/42"}
        grant = post("/v1/locks/acquire", owner="w1", ttl="30s", request_id="r1", metadata={"k": "v"},
                     **lock)["granted"]
        self.assertEqual(grant["fencing_token"], "1")
        lease = {**lock, "lease_id": grant["lease_id"]}
        self.assertEqual(post("/v1/locks/renew", **lease)["renewed"]["ttl"], "30s")
        described = both("/v1/locks/describe", **lock)
        self.assertEqual(described["holder"]["metadata"], {"k": "v"})
        self.assertNotIn(grant["lease_id"], json.dumps(described))
        self.assertEqual(both("/v1/locks/list", prefix="orders/", page_size=5)["items"][0]["resource"],
                         "orders/42")
        self.assertIs(both("/v1/locks/check-token", fencing_token="1", **lock)["current"], True)
        self.assertEqual(post("/v1/locks/break", reason="test", dry_run=True, **lock)["outcome"],
                         "WOULD_BREAK")
        self.assertEqual(post("/v1/locks/cancel", request_id="r1", owner="w1", **lock)["outcome"],
                         "STILL_GRANTED")
        self.assertIs(post("/v1/locks/release", **lease)["released"], True)

        opened = post("/v1/sessions/open", owner="w1", ttl="20s")["opened"]
        session = {"session_id": opened["session_id"]}
        self.assertIs(post("/v1/sessions/keep-alive", **session)["alive"], True)
        campaign = post("/v1/elections/campaign", value="here", acquire={"resource": "leader", **session})
        leader = {"resource": "leader", "lease_id": campaign["granted"]["lease_id"]}
        self.assertEqual(both("/v1/elections/leader", resource="leader")["value"], "here")
        self.assertIs(post("/v1/elections/proclaim", value="there", **leader)["proclaimed"], True)
        self.assertIs(post("/v1/elections/resign", **leader)["released"], True)
        self.assertEqual(post("/v1/sessions/describe", **session)["holds"], 0)
        self.assertIs(post("/v1/sessions/close", **session)["closed"], True)

        made = post("/v1/namespaces/create", name="jobs", policy={"protection": "FENCED"})
        self.assertEqual(made["outcome"], "OK")
        changed = post("/v1/namespaces/set", name="jobs", policy={"ttl_default": "7s"})
        self.assertEqual(changed["policy"]["ttl_default"], "7s")
        self.assertEqual(both("/v1/namespaces/get", name="jobs")["policy"]["protection"], "FENCED")
        self.assertEqual(self.acquire("a", namespace="jobs")["granted"]["guarantee"], "FENCED")
        self.assertEqual(len(both("/v1/namespaces/list")["namespaces"]), 2)
        self.assertEqual(post("/v1/namespaces/delete", name="jobs")["outcome"], "NAMESPACE_NOT_EMPTY")
        self.assertIs(post("/v1/feature-level/set", level=1)["accepted"], True)
        self.assertEqual(both("/v1/status")["role"], "leader")
        self.assertFalse(post("/v1/step-down").get("stepping_down"), "it is alone")
        self.assertGreater(len(post("/v1/hot-resources")["resources"]), 0)
        for path in ("/healthz", "/readyz", "/metrics"):
            called.add(path)
            self.assertEqual(self.call("GET", path).status, 200)
        self.assertEqual(called, set(re.findall(r"^\| `(/[^`]*)` \| (?:GET|POST)", page(), re.M)))

    def test_one_request_id_over_http_and_grpc(self):
        self.start()
        first = self.acquire("a", owner="w", request_id="same", ttl="60s")["granted"]
        again = self.holdfast.json("acquire", "a", "--owner", "w", "--request-id", "same", "--ttl", "60s")
        self.assertEqual(again["lease_id"], first["lease_id"])
        other = self.acquire("a", owner="w", request_id="same", ttl="61s")
        self.assertEqual(other["refused"]["code"], "REQUEST_ID_REUSED")

    def test_walk_through_of_the_page(self):
        if shutil.which("curl") is None:
            self.skipTest("there is no curl")
        self.start()
        text = page().replace("127.0.0.1:7421", f"127.0.0.1:{self.port}")
        steps = [step for step in http_walk.steps_of(text) if not step[0].startswith("holdfast server")]
        self.assertGreater(len(steps), 10)
        os.chdir(self.folder)
        environment = {**harness.clean_environment(), "no_proxy": "127.0.0.1"}
        for (command, expected), (out, code) in zip(
                steps, http_walk.run(steps, environment, harness.DEADLINE)):
            with self.subTest(command=command):
                self.assertEqual(code, 0, out)
                self.assertTrue(http_walk.output_matches(expected, out),
                                f"{command}\nprinted\n{out}\nbut the page says\n{expected}")

    def test_metrics(self):
        self.start()
        before = self.metric('holdfast_operations_total{kind="command"}')
        self.acquire("a")
        self.acquire("a")
        self.assertEqual(self.metric('holdfast_operations_total{kind="command"}'), before + 2)
        self.assertEqual(self.metric("holdfast_holds"), 1)
        self.assertEqual(self.metric("holdfast_accepting_writes"), 1)
        self.assertEqual(self.metric('holdfast_front_open_calls{front="grpc"}'), 0)


class Problems(HttpCase):
    def test_bad_requests(self):
        self.start("--set", "http.header_bytes=2KiB", "--set", "http.body_bytes=4KiB")
        acquire = "/v1/locks/acquire"
        good = json.dumps({"resource": "a"})
        cases = [
            ("GET", "/", None, {}, 404, "path"),
            ("GET", "/v1/locks/acquire/", None, {}, 404, "path"),
            ("GET", "/v1/locks/%61cquire", None, {}, 404, "path"),
            ("GET", acquire, None, {}, 405, "method"),
            ("PUT", acquire, good, JSON, 405, "method"),
            ("OPTIONS", acquire, None, {}, 405, "method"),
            ("POST", "/healthz", "{}", JSON, 405, "method"),
            ("POST", acquire, good, {}, 415, "content-type"),
            ("POST", acquire, good, {"Content-Type": "text/plain"}, 415, "content-type"),
            ("POST", acquire + "?resource=a", "{}", JSON, 400, "query"),
            ("POST", acquire, "", JSON, 400, "body"),
            ("POST", acquire, "{", JSON, 400, "body"),
            ("POST", acquire, "[]", JSON, 400, "body"),
            ("POST", acquire, "null", JSON, 400, "body"),
            ("POST", acquire, b'{"resource": "\xff"}', JSON, 400, "body"),
            ("POST", acquire, "[" * 4000, JSON, 400, "body"),
            ("POST", acquire, '{"resource": "a", "resourc": "b"}', JSON, 400, "resourc"),
            ("POST", acquire, '{"resource": 5}', JSON, 400, "resource"),
            ("POST", acquire, '{"resource": "a", "ttl": 5}', JSON, 400, "ttl"),
            ("POST", acquire, '{"resource": "a", "ttl": "5"}', JSON, 400, "ttl"),
            ("POST", acquire, '{"resource": "a", "ttl": "-5s"}', JSON, 400, "ttl"),
            ("POST", acquire, '{"resource": "a", "ttl": "1000s"}', JSON, 400, "ttl"),
            ("POST", acquire, '{"resource": "a", "wait": "2000000000s"}', JSON, 400, "wait"),
            ("POST", acquire, '{"resource": "A"}', JSON, 400, "resource"),
            ("POST", acquire, '{"resource": "a", "namespace": "none"}', JSON, 404, None),
            ("GET", "/v1/locks/describe", None, {}, 400, "resource"),
            ("GET", "/v1/locks/describe?resource=a&resource=b", None, {}, 400, "resource"),
            ("GET", "/v1/locks/describe?resource=a&x=b", None, {}, 400, "x"),
            ("GET", "/v1/locks/describe?resource=%", None, {}, 400, "query"),
            ("GET", "/v1/locks/describe?resource=%ff", None, {}, 400, "query"),
            ("GET", "/v1/locks/describe?resource=a", "{}", JSON, 400, "body"),
            ("GET", "/v1/locks/list?page_size=-1", None, {}, 400, "page_size"),
            ("GET", "/v1/locks/watch?exact=true&prefix=A", None, {}, 400, "prefix"),
            ("GET", "/v1/locks/watch?namespace=none", None, {}, 404, None),
            ("GET", "/v1/locks/watch", None, {"Last-Event-ID": "x"}, 400, "last-event-id"),
            ("GET", "/v1/elections/observe?resource=A", None, {}, 400, "resource"),
            ("POST", acquire, "x" * 5000, JSON, 413, "body"),
            ("GET", "/v1/locks/describe?resource=" + "a" * 3000, None, {}, 431, "header"),
            ("GET", "/healthz", None, {"X-Long": "a" * 3000}, 431, "header"),
        ]
        for method, target, body, headers, status, field in cases:
            with self.subTest(method=method, target=target[:60], body=body and body[:40]):
                self.assert_problem(self.call(method, target, body, headers), status, field=field)
        self.assertEqual(self.call("GET", acquire).headers["Allow"], "POST")
        self.assertEqual(self.call("PUT", "/v1/status").headers["Allow"], "GET, POST")
        self.assertEqual(self.metric("holdfast_holds"), 0)
        self.assertEqual(self.metric('holdfast_front_open_watches{front="http"}'), 0)

    def test_what_is_not_http(self):
        self.start()
        for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 60, b"PRI * HTTP/2.0\r\n\r\n",
                     b"GET /healthz\r\n\r\n", b"GET  /healthz HTTP/1.1\r\n\r\n",
                     b"GET /healthz HTTP/1.1\r\nbad header\r\n\r\n",
                     b"POST /v1/status HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                     b"POST /v1/status HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                     b"POST /v1/status HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}"):
            with self.subTest(data=data[:30]):
                answer = read_all(self.raw(data))
                self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), answer)
                self.assertIn(b"Connection: close", answer)

    def test_bodies_in_chunks(self):
        self.start("--set", "http.body_bytes=4KiB")
        connection = self.connect()
        connection.request("POST", "/v1/locks/acquire", iter([b'{"resource"', b': "a"}']), JSON,
                           encode_chunked=True)
        self.assertIn("granted", Reply(connection.getresponse()).json)
        connection.request("POST", "/v1/locks/acquire", iter([b" " * 3000, b" " * 3000]), JSON,
                           encode_chunked=True)
        self.assert_problem(Reply(connection.getresponse()), 413, field="body")

    def test_hosts_of_others(self):
        self.start()
        for host in ("evil.example", "127.evil.example", "evil.example:80", "10.0.0.1", "localhost.evil"):
            reply = self.call("GET", "/v1/status", headers={"Host": host})
            self.assert_problem(reply, 421, field="host")
        for host in ("localhost", "localhost:1", "127.0.0.1", "127.1.2.3:99", "[::1]", "[::1]:5"):
            self.assertEqual(self.call("GET", "/v1/status", headers={"Host": host}).status, 200, host)

    def test_listeners_that_others_reach(self):
        for listen in ("0.0.0.0:7421", "[::]:7421", "nonsense"):
            answer = harness.run("server", "--data-dir", self.path("d"), "--http", listen, "-o", "json")
            self.assert_error(answer, 64, field="http_listen")
        port = harness.free_port()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
            taken.listen()
            answer = harness.run("server", "--data-dir", self.path("d"), "--listen", "127.0.0.1:0", "--http",
                                 f"127.0.0.1:{port}", "-o", "json")
            self.assert_error(answer, 69, contains="cannot listen")


class LongPolls(HttpCase):
    def test_a_wait_ends_with_the_release(self):
        self.start()
        lease = self.acquire("a")["granted"]["lease_id"]
        waiting = self.later(self.acquire, "a", wait="20s", owner="second")
        harness.wait_until(lambda: self.waiters("a"), "the waiter")
        self.post("/v1/locks/release", resource="a", lease_id=lease)
        grant = waiting()["granted"]
        self.assertIs(grant["provisional"], True)
        self.assertEqual(self.post("/v1/locks/renew", resource="a", lease_id=grant["lease_id"])
                         ["renewed"]["ttl"], "30s")

    def test_a_wait_that_is_over(self):
        self.start()
        self.acquire("a")
        self.assertEqual(self.acquire("a", wait="0.3s")["refused"]["code"], "WAIT_TIMEOUT")

    def test_a_client_that_leaves_is_detached_and_comes_back(self):
        self.start()
        lease = self.acquire("a")["granted"]["lease_id"]
        wish = {"resource": "a", "owner": "w", "wait": "20s", "request_id": "wish"}
        for reset in (False, True):
            gone = self.raw(raw_post("/v1/locks/acquire", wish))
            harness.wait_until(lambda: [w for w in self.waiters("a") if not w["detached"]], "the waiter")
            if reset:
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            gone.close()
            harness.wait_until(lambda: [w for w in self.waiters("a") if w["detached"]], "its detachment")
        waiting = self.later(self.post, "/v1/locks/acquire", **wish)
        harness.wait_until(lambda: [w for w in self.waiters("a") if not w["detached"]], "it again")
        self.assertEqual(len(self.waiters("a")), 1)
        self.post("/v1/locks/release", resource="a", lease_id=lease)
        self.assertIn("granted", waiting())
        # The describe itself is a call.
        self.assertEqual(self.metric('holdfast_front_engine_requests{front="http"}'), 0)

    def test_a_client_that_half_closes_gets_its_answer(self):
        self.start()
        half = self.raw(raw_post("/v1/locks/acquire", {"resource": "a"}))
        half.shutdown(socket.SHUT_WR)
        self.assertIn(b'"granted"', read_all(half))

    def test_requests_in_one_packet_are_answered_in_order(self):
        self.start()
        requests = [raw_post("/v1/locks/acquire", {"resource": name}) for name in ("a", "a", "b")]
        last = raw_post("/v1/locks/acquire", {"resource": "b"}, "Connection: close")
        answer = read_all(self.raw(b"".join(requests) + last)).decode()
        self.assertEqual(re.findall(r'"(granted|refused)":', answer),
                         ["granted", "refused", "granted", "refused"])

    def test_what_comes_behind_a_long_poll_waits(self):
        self.start()
        lease = self.acquire("a")["granted"]["lease_id"]
        both = self.raw(raw_post("/v1/locks/acquire", {"resource": "a", "wait": "20s"}) +
                        raw_post("/v1/locks/acquire", {"resource": "b"}, "Connection: close"))
        harness.wait_until(lambda: self.waiters("a"), "the waiter")
        self.assertEqual(self.get("/v1/locks/describe?resource=b")["state"], "FREE")
        self.post("/v1/locks/release", resource="a", lease_id=lease)
        self.assertEqual(read_all(both).decode().count('"granted"'), 2)

    def test_versions_and_methods_of_http(self):
        self.start()
        old = read_all(self.raw(b"GET /healthz HTTP/1.0\r\n\r\n"))
        self.assertIn(b"\r\nConnection: close\r\n", old)
        self.assertTrue(old.endswith(b"\r\n\r\nok\n"), old)
        self.assertRegex(old, rb"\r\nDate: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r\n")
        connection = self.connect()
        connection.request("HEAD", "/healthz")
        self.assertEqual(Reply(connection.getresponse()).text, "")
        for _ in range(3):  # on the same connection
            connection.request("GET", "/healthz")
            self.assertEqual(Reply(connection.getresponse()).text, "ok\n")
        body = json.dumps({"resource": "a"}).encode()
        careful = self.raw(b"POST /v1/locks/acquire HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                           b"Content-Type: application/json\r\nExpect: 100-continue\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body))
        self.assertEqual(careful.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
        careful.sendall(body)
        self.assertIn(b'"granted"', read_all(careful))


class Streams(HttpCase):
    def test_a_watch_and_its_resumption(self):
        self.start()
        watch = self.events("/v1/locks/watch?prefix=jobs/")
        kind, data, begin = watch.next()
        self.assertEqual((kind, data["started_at"]), ("started", begin))
        grant = self.acquire("jobs/1")["granted"]
        self.acquire("other")
        kind, data, seen = watch.next()
        self.assertEqual((kind, data["event"]["kind"], data["event"]["resource"]),
                         ("change", "GRANTED", "jobs/1"))
        self.assertEqual(data["event"]["index"], seen)
        watch.close()
        self.post("/v1/locks/release", resource="jobs/1", lease_id=grant["lease_id"])
        self.acquire("jobs/2")
        for options in ({"headers": {"Last-Event-ID": seen}}, {"query": f"&after_index={seen}"}):
            again = self.events("/v1/locks/watch?prefix=jobs/" + options.get("query", ""),
                                **options.get("headers", {}))
            self.assertEqual(again.next()[0], "started")
            self.assertEqual([again.next()[1]["event"]["kind"] for _ in range(2)], ["ENDED", "GRANTED"])
            again.close()
        harness.wait_until(lambda: self.metric("holdfast_watchers") == 0, "the end of the watches")

    def test_ids_do_not_split_a_position(self):
        self.start()
        holds = 200
        session = self.post("/v1/sessions/open", ttl="60s")["opened"]["session_id"]
        for i in range(holds):
            self.acquire(f"s/{i}", session_id=session)
        watch = self.events("/v1/locks/watch?prefix=s/")
        watch.next()
        self.post("/v1/sessions/close", session_id=session)
        last = {}
        indices = []
        for _ in range(holds):
            _, data, identity = watch.next()
            index = data["event"]["index"]
            self.assertIn(identity, (None, index))
            self.assertNotIn(index, last, "an event behind the one with the id of its position")
            if identity is not None:
                last[index] = True
            indices.append(index)
        self.assertEqual(set(last), set(indices))
        self.assertLess(len(last), holds, "several ends share a position")

    def test_a_watch_goes_on_after_a_restart(self):
        self.start()
        watch = self.events("/v1/locks/watch?prefix=a")
        watch.next()
        self.acquire("a", ttl="60s")
        _, _, seen = watch.next()
        self.acquire("b")  # moves the log, so there is something that the new process does not know
        self.holdfast.kill()
        self.holdfast.start(ready=False)
        harness.wait_until(self.is_ready, "the server again")
        again = self.events("/v1/locks/watch?prefix=a", **{"Last-Event-ID": seen})
        self.assertEqual(again.next()[0], "started")
        kind, data, identity = again.next()
        self.assertEqual(kind, "gap", data)
        self.assertEqual(data["gap"]["index"], identity)
        self.acquire("a2")
        self.assertEqual(again.next()[1]["event"]["resource"], "a2")

    def test_observers(self):
        self.start()
        observer = self.events("/v1/elections/observe?resource=leader")
        self.assertIs(observer.next()[1]["vacant"], True)
        tokens = []
        for value in ("first", "second"):
            campaign = self.post("/v1/elections/campaign", acquire={"resource": "leader"}, value=value)
            kind, data, _ = observer.next()
            self.assertEqual((kind, data["value"], data["fencing_token"]),
                             ("leader", value, campaign["granted"]["fencing_token"]))
            tokens.append(int(data["fencing_token"]))
            self.post("/v1/elections/resign", resource="leader", lease_id=campaign["granted"]["lease_id"])
            self.assertIs(observer.next()[1]["vacant"], True)
        self.assertLess(tokens[0], tokens[1])

    def test_a_watcher_that_does_not_read_is_cut_off(self):
        self.start("--set", "http.request_timeout=500ms")
        slow = socket.socket()
        self.addCleanup(slow.close)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", self.port))
        slow.sendall(b"GET /v1/locks/watch HTTP/1.1\r\nHost: localhost\r\n\r\n")
        watches = 'holdfast_front_open_watches{front="http"}'
        harness.wait_until(lambda: self.metric(watches) == 1, "the watch")

        def cut():
            self.holdfast.load()
            return self.metric(watches) == 0
        harness.wait_until(cut, "its end", deadline=120)


class Access(HttpCase):
    """With the tokens and certificates of the other access tests."""

    write, tokens = access_test.Access.write, access_test.Access.tokens
    openssl, certificate = access_test.Access.openssl, access_test.Access.certificate

    def bearer(self, name):
        return {**JSON, "Authorization": f"Bearer the-token-of-{name}-0123456789abcdef"}

    def test_bearer_tokens(self):
        audit = self.path("audit.jsonl")
        self.start("--config", self.tokens(), "--audit-log", audit)
        lock = json.dumps({"resource": "a", "namespace": "jobs"})

        def status(name, method, target, body=None):
            reply = self.call(method, target, body, self.bearer(name))
            if reply.status != 200:
                self.assert_problem(reply, reply.status)
            return reply.status

        stranger = self.call("GET", "/v1/status")
        self.assert_problem(stranger, 401, "UNAUTHENTICATED")
        self.assertEqual(stranger.headers["WWW-Authenticate"], "Bearer")
        self.assertEqual(status("stranger", "GET", "/v1/status"), 401)
        self.assertEqual(status("stranger", "GET", "/metrics"), 401)
        self.assertEqual(self.call("GET", "/healthz").status, 200)
        self.assertEqual(status("root", "POST", "/v1/namespaces/create", '{"name": "jobs"}'), 200)
        self.assertEqual(status("worker", "POST", "/v1/locks/acquire", lock), 200)
        self.assertEqual(status("worker", "POST", "/v1/locks/acquire", '{"resource": "a"}'), 403)
        self.assertEqual(status("worker", "POST", "/v1/namespaces/create", '{"name": "x"}'), 403)
        self.assertEqual(status("worker", "GET", "/v1/locks/watch"), 403)
        self.assertEqual(status("worker", "GET", "/v1/elections/observe?resource=a"), 403)
        listed = self.call("GET", "/v1/namespaces/list", headers=self.bearer("worker")).json
        self.assertEqual([item["name"] for item in listed["namespaces"]], ["jobs"])
        # Whoever has a token may come under any name.
        self.assertEqual(self.call("GET", "/v1/status", headers={**self.bearer("worker"), "Host": "x"}).status,
                         200)

        def denials():
            with open(audit, encoding="utf-8") as file:
                rows = [json.loads(line) for line in file]
            return len([row for row in rows if row.get("kind") == "denied"]) >= 6
        harness.wait_until(denials, "the denials in the audit log")

    def test_tls_and_client_certificates(self):
        if shutil.which("openssl") is None:
            self.skipTest("there is no openssl to make certificates with")
        self.certificate("ca", "/CN=test ca")
        self.certificate("server", "/CN=server", "subjectAltName=IP:127.0.0.1")
        self.certificate("client", "/CN=worker-7", "extendedKeyUsage=clientAuth")
        port = harness.free_port()
        holdfast = self.server("--http", f"127.0.0.1:{port}", "--set", "tls.cert=" + self.path("server.pem"),
                               "--set", "tls.key=" + self.path("server.key"), "--set",
                               "tls.client_ca=" + self.path("ca.pem"))
        context = ssl.create_default_context(cafile=self.path("ca.pem"))

        def request(method, target, body=None):
            connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=harness.DEADLINE,
                                                     context=context)
            try:
                connection.request(method, target, body, JSON)
                return Reply(connection.getresponse())
            finally:
                connection.close()


        def listens():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0
        harness.wait_until(listens, "the listener")
        with self.assertRaises(OSError):  # no certificate; TLS 1.3 says so with the first answer
            request("GET", "/v1/status")
        context.load_cert_chain(self.path("client.pem"), self.path("client.key"))
        self.assertIn("granted", request("POST", "/v1/locks/acquire", '{"resource": "a"}').json)
        holder = request("GET", "/v1/locks/describe?resource=a").json["holder"]
        self.assertEqual(holder["principal"], "worker-7")
        self.assert_problem(request("POST", "/v1/namespaces/create", '{"name": "x"}'), 403)
        plain = socket.create_connection(("127.0.0.1", port), timeout=harness.DEADLINE)
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertNotIn(b"HTTP", read_all(plain))
        plain.close()
        self.assertEqual(holdfast.stop(), 0)

    def test_bad_tls_files(self):
        for key in ("tls.cert", "tls.key"):
            self.write(key, "-----BEGIN NOTHING-----\n")
        answer = harness.run("server", "--data-dir", self.path("d"), "--http", "127.0.0.1:0", "--listen",
                             "127.0.0.1:0", "--set", "tls.cert=" + self.path("tls.cert"), "--set",
                             "tls.key=" + self.path("tls.key"), "-o", "json")
        self.assertIn(answer.code, (64, 69), answer)


class Limits(HttpCase):
    def test_connections(self):
        self.start("--set", "http.max_connections=3")
        idle = [self.raw() for _ in range(3)]
        surplus = read_all(self.raw())
        self.assertTrue(surplus.startswith(b"HTTP/1.1 503 "), surplus)
        self.assertIn(b"the limit is 3", surplus)
        idle[0].close()
        harness.wait_until(self.is_ready, "a free connection")

    def test_watches(self):
        self.start("--set", "http.max_watches=2")
        streams = [self.events("/v1/locks/watch"), self.events("/v1/elections/observe?resource=a")]
        self.assert_problem(self.call("GET", "/v1/locks/watch"), 429, "OVERLOADED")
        streams[0].close()
        harness.wait_until(lambda: self.metric("holdfast_watchers") == 1, "the end of one")
        self.events("/v1/locks/watch")

    def test_calls(self):
        self.start("--set", "max_calls=1")
        watch = self.events("/v1/locks/watch")
        reply = self.call("GET", "/v1/status")
        self.assert_problem(reply, 429, "OVERLOADED")
        self.assertEqual(reply.headers["Retry-After"], "1")
        self.assertEqual(self.call("GET", "/healthz").status, 200)
        watch.close()
        harness.wait_until(lambda: self.call("GET", "/v1/status").status == 200, "room for a call")

    def test_slow_clients_are_cut_off(self):
        self.start("--set", "http.request_timeout=300ms", "--set", "http.idle_timeout=1s")
        post = raw_post("/v1/locks/acquire", {"resource": "a"})
        for data in (b"", b"GET /hea", b"GET /healthz HTTP/1.1\r\nHost:", post[:-4]):
            with self.subTest(data=data):
                self.assertEqual(read_all(self.raw(data)), b"")
        # One that drips is no better.
        dripping = self.raw(b"GET ")

        def cut():
            try:
                dripping.sendall(b"/")
                return False
            except OSError:
                return True
        harness.wait_until(cut, "the end of one that drips")
        # A long poll is not slow.
        self.acquire("a")
        self.assertEqual(self.acquire("a", wait="2s")["refused"]["code"], "WAIT_TIMEOUT")

    def test_a_whole_answer_reaches_who_sent_too_much(self):
        self.start()
        reply = self.call("POST", "/v1/locks/acquire", b"x" * 900_000, JSON)
        self.assert_problem(reply, 413, field="body")


class Stop(HttpCase):
    def test_a_graceful_stop(self):
        self.start()
        self.acquire("a", ttl="60s")
        wish = {"resource": "a", "wait": "60s", "request_id": "wish"}
        waiting = self.later(self.call, "POST", "/v1/locks/acquire", json.dumps(wish), JSON)
        harness.wait_until(lambda: self.waiters("a"), "the waiter")
        watch = self.events("/v1/locks/watch?prefix=zzz")
        watch.next()
        idle = self.raw()
        slow = self.raw(b"GET /hea")
        self.holdfast.process.send_signal(signal.SIGTERM)
        self.assert_problem(waiting(), 503, "UNAVAILABLE")
        kind, data, _ = watch.next()
        self.assertEqual((kind, data["status"]), ("problem", 503))
        self.assertIsNone(watch.next())
        self.assertEqual(read_all(idle), b"")
        self.assertEqual(read_all(slow), b"")
        self.assertEqual(self.holdfast.ended(), 0)
        self.holdfast.start(ready=False)
        harness.wait_until(self.is_ready, "the server again")
        self.assertIs(self.waiters("a")[0]["detached"], True)

    def test_not_ready_while_the_disk_is_full(self):
        small = self.path("small")
        os.mkdir(small)
        with self.mounted(small, "-t", "tmpfs", "-o", "size=8m", "tmpfs"):
            self.start(name="small/data")
            with open(os.path.join(small, "filler"), "wb") as filler:
                try:
                    while True:
                        filler.write(b"\0" * 65536)
                        filler.flush()
                except OSError:
                    pass
            reply = harness.wait_until(self.refused, "a full disk", deadline=60)
            self.assert_problem(reply, 503, "UNAVAILABLE")
            self.assertEqual(self.call("GET", "/healthz").status, 200)
            self.assertEqual(self.metric("holdfast_accepting_writes"), 0)
            os.remove(os.path.join(small, "filler"))
            harness.wait_until(self.is_ready, "an end of that")
            self.holdfast.kill()

    def refused(self):
        self.call("POST", "/v1/locks/acquire", json.dumps(
            {"resource": "a", "metadata": {"k": "v" * 900}}), JSON)
        reply = self.call("GET", "/readyz")
        return reply if reply.status != 200 else None


if __name__ == "__main__":
    harness.main()
