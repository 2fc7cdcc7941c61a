"""The contract of each verb: words, JSON, exit codes."""

import os
import signal
import stat

import harness

GRANT_KEYS = {"outcome", "resource", "request_id", "lease_id", "lease_fp", "fencing_token", "ttl_ms",
              "remaining_ms", "guarantee", "expires_at"}
HOLDER_KEYS = {"owner", "principal", "fencing_token", "lease_fp", "held_for_ms", "lease_left_ms",
               "since", "provisional", "revoking", "session_fp", "metadata"}


class Locks(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.holdfast = self.server()

    def acquire(self, name, *words, code=0):
        return self.holdfast.json("acquire", name, *words, code=code)

    def test_acquire_gives_a_grant(self):
        grant = self.acquire("orders/7", "--ttl", "30s", "--owner", "me", "--request-id", "r-1")
        self.assertEqual(set(grant), GRANT_KEYS)
        self.assertEqual((grant["outcome"], grant["resource"], grant["request_id"]),
                         ("GRANTED", "orders/7", "r-1"))
        self.assertRegex(grant["lease_id"], r"^[0-9a-f]{32}$")
        self.assertRegex(grant["lease_fp"], r"^[0-9a-f]{12}$")
        self.assertIsInstance(grant["fencing_token"], str)
        self.assertGreater(int(grant["fencing_token"]), 0)
        self.assertEqual((grant["ttl_ms"], grant["guarantee"]), (30000, "ADVISORY"))
        self.assertTrue(29000 < grant["remaining_ms"] <= 30000, grant)

    def test_held_by_somebody_else(self):
        grant = self.acquire("a", "--owner", "first", "--metadata", "host=h1", "--metadata", "x=a=b")
        held = self.acquire("a", "--owner", "second", code=75)
        self.assertEqual(held["outcome"], "HELD")
        self.assertEqual(set(held["holder"]), HOLDER_KEYS)
        self.assertEqual(held["holder"]["owner"], "first")
        self.assertEqual(held["holder"]["fencing_token"], grant["fencing_token"])
        self.assertEqual(held["holder"]["lease_fp"], grant["lease_fp"])
        self.assertEqual(held["holder"]["metadata"], {"host": "h1", "x": "a=b"})
        self.assertTrue(0 < held["retry_after_ms"] <= 30000, held)
        self.assertNotIn(grant["lease_id"], str(held))

    def test_asking_again_gives_the_same_lease(self):
        first = self.acquire("a", "--request-id", "same")
        again = self.acquire("a", "--request-id", "same")
        self.assertEqual(first["lease_id"], again["lease_id"])
        self.assertEqual(first["fencing_token"], again["fencing_token"])
        reused = self.acquire("b", "--request-id", "same", code=64)
        self.assertEqual(reused["outcome"], "REQUEST_ID_REUSED")
        self.holdfast.json("release", "a", "--lease-id", first["lease_id"])
        ended = self.acquire("a", "--request-id", "same", code=76)
        self.assertEqual((ended["outcome"], ended["cause"]), ("ENDED", "RELEASED"))

    def test_renew_and_release(self):
        lease = self.acquire("a", "--ttl", "20s")
        renewed = self.holdfast.json("renew", "a", "--lease-id", lease["lease_id"])
        self.assertEqual((renewed["outcome"], renewed["resource"], renewed["lease_fp"], renewed["ttl_ms"]),
                         ("RENEWED", "a", lease["lease_fp"], 20000))
        self.assertTrue(19000 < renewed["remaining_ms"] <= 20000, renewed)

        release = ("release", "a", "--lease-id", lease["lease_id"])
        self.assertEqual(self.holdfast.json(*release),
                         {"released": True, "resource": "a", "lease_fp": lease["lease_fp"]})
        self.assertIs(self.holdfast.json(*release)["released"], True)  # it was already
        refused = self.holdfast.json("renew", "a", "--lease-id", lease["lease_id"], code=76)
        self.assertEqual((refused["outcome"], refused["cause"]), ("NOT_RENEWED", "RELEASED"))

    def test_an_old_lease_never_touches_the_new_holder(self):
        old = self.acquire("a", "--ttl", "1s")
        self.holdfast.json("namespace", "set", "default", "--lock-delay", "0s")
        new = harness.wait_until(
            lambda: self.holdfast.run("acquire", "a", "--wait", "5s", "-o", "json"), "granted").json
        self.assertGreater(int(new["fencing_token"]), int(old["fencing_token"]))
        released = self.holdfast.json("release", "a", "--lease-id", old["lease_id"], code=76)
        self.assertEqual((released["released"], released["cause"]), (False, "EXPIRED"))
        self.holdfast.json("renew", "a", "--lease-id", old["lease_id"], code=76)
        never = self.holdfast.json("release", "a", "--lease-id", "f" * 32, code=76)
        self.assertEqual((never["released"], never["cause"]), (False, "NEVER_HELD"))
        holder = self.holdfast.json("describe", "a")["holder"]
        self.assertEqual(holder["lease_fp"], new["lease_fp"])
        self.assertIs(holder["provisional"], False)  # acquire confirms what came out of the queue

    def test_wait_ends(self):
        self.acquire("a")
        refusal = self.acquire("a", "--wait", "300ms", code=75)
        self.assertEqual(refusal["outcome"], "WAIT_TIMEOUT")
        self.assertEqual(self.holdfast.json("status")["waiters"], 0)

    def test_hand_over_in_the_order_of_arrival(self):
        lease = self.acquire("a")
        waiters = []
        for place in range(3):
            waiters.append(self.background(self.holdfast, "acquire", "a", "--wait", "20s", "--owner",
                                           f"w{place}", "-o", "json"))
            harness.wait_until(lambda: self.holdfast.json("status")["waiters"] == len(waiters),
                               "another waiter")
        queue = self.holdfast.json("describe", "a")["queue"]
        self.assertEqual([waiter["owner"] for waiter in queue], ["w0", "w1", "w2"])
        tokens = [int(lease["fencing_token"])]
        for waiter in waiters:
            self.holdfast.json("release", "a", "--lease-id", lease["lease_id"])
            answer = waiter.wait()
            self.assertEqual(answer.code, 0, answer)
            lease = answer.json
            self.assertEqual(lease["ttl_ms"], 30000)
            tokens.append(int(lease["fencing_token"]))
        self.assertEqual(tokens, sorted(set(tokens)))

    def test_cancel(self):
        early = self.holdfast.json("cancel", "a", "--request-id", "not-yet")
        self.assertEqual(early, {"outcome": "CANCELLED_BEFORE_ARRIVAL", "resource": "a",
                                 "request_id": "not-yet"})
        late = self.acquire("a", "--request-id", "not-yet", code=75)
        self.assertEqual(late["outcome"], "CANCELLED")

        self.acquire("a", "--request-id", "mine", "--owner", "me")
        granted = self.holdfast.json("cancel", "a", "--request-id", "mine", "--owner", "me", code=75)
        self.assertEqual(granted["outcome"], "STILL_GRANTED")
        other = self.holdfast.json("cancel", "a", "--request-id", "mine", "--owner", "you", code=77)
        self.assertEqual(other["outcome"], "NOT_YOURS")

        waiter = self.background(self.holdfast, "acquire", "a", "--wait", "20s", "--request-id", "w",
                                 "-o", "json")
        harness.wait_until(lambda: self.holdfast.json("status")["waiters"] == 1, "a waiter")
        removed = self.holdfast.json("cancel", "a", "--request-id", "w")
        self.assertEqual(removed["outcome"], "WAITER_REMOVED")
        answer = waiter.wait()
        self.assertEqual((answer.code, answer.json["outcome"]), (75, "CANCELLED"), answer)

    def test_interrupted_wait_leaves_the_queue(self):
        self.acquire("a")
        for number in (signal.SIGINT, signal.SIGTERM):
            waiter = self.background(self.holdfast, "acquire", "a", "--wait", "20s", "-o", "json")
            harness.wait_until(lambda: self.holdfast.json("status")["waiters"] == 1, "a waiter")
            waiter.send(number)
            answer = waiter.wait()
            self.assertEqual((answer.code, answer.json["outcome"]), (75, "CANCELLED"), answer)
            self.assertEqual(self.holdfast.json("status")["waiters"], 0)

    def test_break(self):
        self.assertEqual(self.holdfast.json("break", "a", "--reason", "r")["outcome"], "NOT_TAKEN")
        lease = self.acquire("a", "--owner", "me", "--ttl", "20s")
        dry = self.holdfast.json("break", "a", "--reason", "host is gone", "--dry-run")
        self.assertEqual((dry["outcome"], dry["holder"]["owner"]), ("WOULD_BREAK", "me"))
        unsafe = self.holdfast.json("break", "a", "--reason", "r", "--now", code=77)
        self.assertEqual(unsafe["outcome"], "UNSAFE_REFUSED")
        self.holdfast.json("renew", "a", "--lease-id", lease["lease_id"])

        started = self.holdfast.json("break", "a", "--reason", "host is gone")
        self.assertEqual(started["outcome"], "REVOKING_STARTED")
        told = self.holdfast.json("renew", "a", "--lease-id", lease["lease_id"], code=76)
        self.assertEqual((told["cause"], told["reason"]), ("REVOKING", "host is gone"))
        self.assertGreater(told["remaining_ms"], 10000)  # its promise is kept
        self.assertIs(self.holdfast.json("describe", "a")["holder"]["revoking"], True)
        ended = self.holdfast.json("break", "a", "--reason", "now", "--now", "--unsafe")
        self.assertEqual(ended["outcome"], "ENDED_NOW")
        transitions = self.holdfast.json("describe", "a")["transitions"]
        self.assertEqual((transitions[0]["cause"], transitions[0]["reason"]), ("BROKEN", "now"))

    def test_lock_delay_after_an_expiry(self):
        self.acquire("a", "--ttl", "1s")
        delayed = harness.wait_until(
            lambda: (answer := self.holdfast.run("acquire", "a", "-o", "json")).json["outcome"]
            == "DELAYED" and answer, "DELAYED")
        self.assertEqual(delayed.code, 75)
        self.assertTrue(0 < delayed.json["retry_after_ms"] <= 10000, delayed)
        described = self.holdfast.json("describe", "a")
        self.assertEqual(described["state"], "IN_DELAY")
        self.assertGreater(described["delay_left_ms"], 0)
        self.assertEqual(described["transitions"][0]["cause"], "EXPIRED")

    def test_check_token(self):
        lease = self.acquire("a")
        token = lease["fencing_token"]
        current = self.holdfast.json("check-token", "a", token)
        self.assertEqual((current["verdict"], current["current"], current["fencing_token"]),
                         ("CURRENT", True, token))
        never = self.holdfast.json("check-token", "a", str(int(token) + 1), code=76)
        self.assertEqual((never["verdict"], never["current"]), ("NEVER_ISSUED", False))
        self.holdfast.json("release", "a", "--lease-id", lease["lease_id"])
        self.acquire("a")
        self.assertEqual(self.holdfast.json("check-token", "a", token, code=76)["verdict"], "OLD")

    def test_list(self):
        for name in ("b/1", "b/2", "c"):
            self.acquire(name, "--owner", name)
        rows = self.holdfast.json("list")["resources"]
        self.assertEqual([row["resource"] for row in rows], ["b/1", "b/2", "c"])
        self.assertEqual({row["state"] for row in rows}, {"TAKEN"})
        self.assertEqual(rows[0]["owner"], "b/1")
        below = self.holdfast.json("list", "b/", "--limit", "1")
        self.assertEqual(([row["resource"] for row in below["resources"]], below["more"]),
                         (["b/1"], True))
        self.assertIs(self.holdfast.json("list", "b/", "--limit", "2")["more"], False)
        self.assertEqual(len(self.holdfast.json("list", "--limit", "0")["resources"]), 3)

    def test_text_shows_the_same(self):
        answer = self.holdfast.run("acquire", "a", "--owner", "me")
        self.assertEqual(answer.code, 0, answer)
        self.assertRegex(answer.out, r"(?m)^outcome +GRANTED$")
        self.assertRegex(answer.out, r"(?m)^fencing_token +\d+$")
        self.assertRegex(answer.out, r"(?m)^request_id +\S+$")
        self.assertRegex(answer.out, r"(?m)^ttl +30s$")
        self.assertRegex(self.holdfast.run("describe", "a").out, r"(?m)^  owner +me$")
        self.assertRegex(self.holdfast.run("list").out, r"(?m)^  a +TAKEN +0 +me ")


class Watches(harness.TestCase):
    def test_events(self):
        holdfast = self.server()
        watch = self.background(holdfast, "watch", "orders/", "--count", "3", "-o", "json")
        watch.wait_line(lambda line: "STARTED" in line, "the start of the watch")
        holdfast.json("acquire", "other")
        lease = holdfast.json("acquire", "orders/1", "--owner", "me")
        refused = holdfast.json("break", "orders/1", "--reason", "why")
        self.assertEqual(refused["outcome"], "REVOKING_STARTED")
        holdfast.json("release", "orders/1", "--lease-id", lease["lease_id"])
        answer = watch.wait()
        self.assertEqual(answer.code, 0, answer)
        events = [harness.json.loads(line) for line in watch.lines[1:]]
        self.assertEqual([event["kind"] for event in events], ["GRANTED", "REVOKED", "ENDED"])
        self.assertEqual({event["resource"] for event in events}, {"orders/1"})
        self.assertEqual((events[0]["cause"], events[0]["owner"], events[0]["fencing_token"]),
                         ("ACQUIRED", "me", lease["fencing_token"]))
        self.assertEqual((events[1]["reason"], events[2]["cause"]), ("why", "RELEASED"))
        self.assertNotIn(lease["lease_id"], answer.out)

        again = holdfast.run("watch", "orders/", "--after", str(events[0]["index"]), "--count", "2",
                             "-o", "json")
        self.assertEqual([line for line in again.out.splitlines() if "STARTED" not in line],
                         watch.lines[2:])

    def test_a_watcher_that_does_not_read_is_told_of_the_gap(self):
        holdfast = self.server()
        watch = self.background(holdfast, "watch", "-o", "json")
        watch.wait_line(lambda line: "STARTED" in line, "the start of the watch")

        def gap(tries=iter(range(1000))):
            attempt = next(tries)
            watch.send(signal.SIGSTOP)
            # Long enough to fill the buffers of both kernels, however slow the machine is.
            holdfast.load("--mode", "shared", "--concurrency", "256", duration=f"{min(2 << attempt, 16)}s")
            watch.send(signal.SIGCONT)
            mark = f"mark/{attempt}"
            holdfast.json("acquire", mark)
            watch.wait_line(lambda line: mark in line, "the newest event")  # the gap, if any, was before
            return next((line for line in watch.lines if '"GAP"' in line), None)

        line = harness.json.loads(harness.wait_until(gap, "a gap", 120))
        self.assertGreater(line["index"], 0)
        after = watch.lines[watch.lines.index(harness.json.dumps(line, separators=(",", ":"))) + 1:]
        self.assertGreater(harness.json.loads(after[-1])["index"], line["index"])

    def test_survives_a_restart_and_ends_on_a_signal(self):
        holdfast = self.server()
        watch = self.background(holdfast, "watch", "a", "--exact")
        watch.wait_line(lambda line: line.startswith("STARTED"), "the start of the watch")
        holdfast.restart()
        lease = holdfast.json("acquire", "a")
        watch.wait_line(lambda line: line.startswith("GRANTED  a  ") and
                        f"fencing_token={lease['fencing_token']}" in line, "the grant")
        watch.send(signal.SIGINT)
        self.assertEqual(watch.wait().code, 0)


class Sessions(harness.TestCase):
    def test_life_of_a_session(self):
        holdfast = self.server()
        opened = holdfast.json("session", "open", "--ttl", "20s", "--owner", "me", "--request-id", "r")
        self.assertEqual(set(opened), {"outcome", "request_id", "session_id", "session_fp", "ttl_ms",
                                       "remaining_ms"})
        self.assertEqual((opened["outcome"], opened["request_id"], opened["ttl_ms"]),
                         ("OPENED", "r", 20000))
        again = holdfast.json("session", "open", "--ttl", "20s", "--owner", "me", "--request-id", "r")
        self.assertEqual(again["session_id"], opened["session_id"])
        session = opened["session_id"]

        lease = holdfast.json("acquire", "a", "--session", session)
        twice = holdfast.json("acquire", "a", "--session", session, code=75)
        self.assertEqual(twice["outcome"], "ALREADY_HELD")
        described = holdfast.json("session", "describe", session)
        self.assertEqual((described["alive"], described["holds"], described["owner"]), (True, 1, "me"))
        alive = holdfast.json("session", "keepalive", session)
        self.assertTrue(alive["alive"] and alive["remaining_ms"] > 15000, alive)
        self.assertEqual(holdfast.json("describe", "a")["holder"]["session_fp"], opened["session_fp"])

        self.assertIs(holdfast.json("session", "close", "--session", session)["closed"], True)
        self.assertEqual(holdfast.json("describe", "a")["state"], "FREE")
        dead = holdfast.json("session", "keepalive", session, code=76)
        self.assertEqual((dead["alive"], dead["cause"]), (False, "SESSION_CLOSED"))
        ended = holdfast.json("acquire", "b", "--session", session, code=76)
        self.assertEqual(ended["outcome"], "SESSION_ENDED")
        released = holdfast.json("release", "a", "--lease-id", lease["lease_id"], code=76)
        self.assertEqual(released["cause"], "SESSION_CLOSED")

    def test_expires_with_all_its_locks(self):
        holdfast = self.server()
        holdfast.json("namespace", "set", "default", "--lock-delay", "0s")
        session = holdfast.json("session", "open", "--ttl", "1s")["session_id"]
        for name in ("a", "b"):
            holdfast.json("acquire", name, "--session", session)
        harness.wait_until(lambda: holdfast.json("status")["holds"] == 0, "both locks are free")
        cause = holdfast.json("describe", "a")["transitions"][0]["cause"]
        self.assertEqual(cause, "SESSION_EXPIRED")


class Elections(harness.TestCase):
    def lead(self, holdfast, value, *words):
        call = self.background(holdfast, "elect", "main", "--value", value, "-o", "json", *words)
        call.states = lambda: [harness.json.loads(line)["state"] for line in call.lines]
        return call

    def test_one_leads_and_the_next_follows(self):
        holdfast = self.server()
        self.assertIs(holdfast.json("leader", "main")["vacant"], True)
        follow = self.background(holdfast, "leader", "main", "--follow", "-o", "json")
        follow.wait_line(lambda line: '"vacant":true' in line, "vacancy")
        first = self.lead(holdfast, "one:1")
        leading = harness.json.loads(first.wait_line(lambda line: "LEADING" in line, "LEADING"))
        second = self.lead(holdfast, "two:2", "--owner", "second")
        second.wait_line(lambda line: "CAMPAIGNING" in line, "CAMPAIGNING")
        harness.wait_until(lambda: holdfast.json("status")["waiters"] == 1, "a candidate waits")

        leader = holdfast.json("leader", "main")
        self.assertEqual((leader["vacant"], leader["value"], leader["fencing_token"]),
                         (False, "one:1", leading["fencing_token"]))
        proclaimed = holdfast.json("proclaim", "main", "--lease-id", leading["lease_id"], "--value",
                                   "one:11")
        self.assertIs(proclaimed["proclaimed"], True)
        self.assertEqual(holdfast.json("leader", "main")["value"], "one:11")

        first.send(signal.SIGTERM)
        self.assertEqual(first.wait().code, 0)
        self.assertEqual((first.states()[0], first.states()[-1]), ("CAMPAIGNING", "RESIGNED"))
        second.wait_line(lambda line: "LEADING" in line, "LEADING")
        lost = holdfast.json("proclaim", "main", "--lease-id", leading["lease_id"], "--value", "x",
                             code=76)
        self.assertEqual((lost["proclaimed"], lost["cause"]), (False, "RELEASED"))
        follow.wait_line(lambda line: '"value":"two:2"' in line, "the second leader")
        second.send(signal.SIGINT)
        self.assertEqual(second.wait().code, 0)
        tokens = [int(item["fencing_token"]) for item in map(harness.json.loads, follow.lines)
                  if not item["vacant"]]
        self.assertEqual(tokens, sorted(tokens))

    def test_a_broken_leader_is_told(self):
        holdfast = self.server()
        holdfast.json("namespace", "create", "fence", "--protection", "fenced")
        call = self.lead(holdfast, "v", "--ttl", "2s", "--namespace", "fence")
        call.wait_line(lambda line: "LEADING" in line, "LEADING")
        holdfast.json("break", "main", "--reason", "maintenance", "--namespace", "fence")
        line = call.wait_line(lambda line: "REVOKING" in line, "REVOKING")
        self.assertEqual(harness.json.loads(line)["reason"], "maintenance")
        answer = call.wait()
        self.assertEqual((answer.code, call.states()[-1]), (76, "LOST"), answer)

    def test_not_elected_in_time(self):
        holdfast = self.server()
        holdfast.json("acquire", "main")
        call = self.lead(holdfast, "v", "--wait", "200ms")
        answer = call.wait()
        self.assertEqual((answer.code, call.states()[-1]), (75, "NOT_ELECTED"), answer)


class Namespaces(harness.TestCase):
    def test_life_of_a_namespace(self):
        holdfast = self.server()
        made = holdfast.json("namespace", "create", "pay", "--protection", "fenced", "--ttl-default",
                             "10s", "--ttl-max", "1m", "--waiters-per-resource", "5")
        self.assertEqual((made["outcome"], made["namespace"]), ("OK", "pay"))
        policy = holdfast.json("namespace", "get", "pay")["policy"]
        self.assertEqual((policy["protection"], policy["ttl_default_ms"], policy["ttl_max_ms"],
                          policy["waiters_per_resource"], policy["lock_delay_ms"]),
                         ("FENCED", 10000, 60000, 5, 0))
        self.assertEqual(holdfast.json("namespace", "create", "pay", code=64)["outcome"],
                         "NAMESPACE_EXISTS")
        holdfast.json("namespace", "set", "pay", "--ttl-default", "20s")
        policy = holdfast.json("namespace", "get", "pay")["policy"]
        self.assertEqual((policy["ttl_default_ms"], policy["protection"]), (20000, "FENCED"))
        names = [row["namespace"] for row in holdfast.json("namespace", "list")["namespaces"]]
        self.assertEqual(names, ["default", "pay"])

        lease = holdfast.json("acquire", "a", "--namespace", "pay")
        self.assertEqual((lease["guarantee"], lease["ttl_ms"]), ("FENCED", 20000))
        self.assertEqual(holdfast.json("describe", "a")["state"], "FREE")  # another namespace
        env = {"HOLDFAST_NAMESPACE": "pay"}
        self.assertEqual(holdfast.json("describe", "a", env=env)["state"], "TAKEN")
        self.assertEqual(holdfast.json("namespace", "delete", "pay", code=75)["outcome"],
                         "NAMESPACE_NOT_EMPTY")
        holdfast.json("release", "a", "--lease-id", lease["lease_id"], "--namespace", "pay")
        self.assertEqual(holdfast.json("namespace", "delete", "pay")["outcome"], "OK")
        self.assertEqual(holdfast.json("namespace", "get", "pay", code=64)["outcome"],
                         "NAMESPACE_NOT_FOUND")

    def test_strict_refuses_advisory_use(self):
        holdfast = self.server()
        holdfast.json("namespace", "create", "s", "--strict", "true")
        refused = holdfast.json("acquire", "a", "--namespace", "s", code=77)
        self.assertEqual(refused["outcome"], "FENCING_REQUIRED")


class Program(harness.TestCase):
    def test_status(self):
        holdfast = self.server()
        status = holdfast.json("status")
        for key in ("version", "role", "index", "epoch", "fencing_token", "holds", "waiters",
                    "sessions", "request_ids", "accepting_writes", "uptime_ms", "expiry_lag_ms"):
            self.assertIn(key, status)
        self.assertIs(status["accepting_writes"], True)
        self.assertEqual(stat.S_IMODE(os.stat(holdfast.data_dir).st_mode), 0o700)

    def test_endpoints_from_the_environment_and_the_next_one(self):
        holdfast = self.server()
        dead = f"127.0.0.1:{harness.free_port()}"
        answer = harness.run("status", "-o", "json",
                             env={"HOLDFAST_ENDPOINTS": f"{dead},{holdfast.address}"})
        self.assertEqual(answer.code, 0, answer)

    def test_nobody_there(self):
        dead = f"127.0.0.1:{harness.free_port()}"
        words = ("acquire", "a", "--request-id", "r", "--timeout", "300ms", "--endpoints", dead)
        answer = harness.run(*words, "-o", "json")
        self.assert_error(answer, 69)
        self.assertEqual(answer.json["error"]["code"], "UNAVAILABLE")
        self.assertEqual(answer.json["request_id"], "r")
        text = harness.run(*words)
        self.assertEqual((text.code, text.out), (69, ""), text)
        self.assertRegex(text.err, r"^holdfast: [^\n]+\n$")

    def test_unknown_outcome_prints_a_safe_retry(self):
        holdfast = self.server()
        first = holdfast.json("acquire", "orders/7")
        call = self.background(holdfast, "acquire", "orders/7", "--owner", "it's me", "--wait", "4s",
                               "--timeout", "200ms")
        harness.wait_until(lambda: holdfast.json("status")["waiters"] == 1, "a waiter")
        holdfast.process.send_signal(signal.SIGSTOP)
        try:
            answer = call.wait()
        finally:
            holdfast.process.send_signal(signal.SIGCONT)
        self.assertEqual((answer.code, answer.out), (74, ""), answer)
        retry = next(line for line in answer.err.splitlines() if line.startswith("retry "))
        command = retry.split(None, 1)[1]
        self.assertRegex(command, r"^holdfast acquire orders/7 --owner 'it'\\''s me' .*--request-id \w+$")

        holdfast.json("release", "orders/7", "--lease-id", first["lease_id"])
        script = f'holdfast() {{ "{harness.BINARY}" "$@"; }}; {command} -o json'
        again = harness.subprocess.run(["bash", "-c", script], text=True, capture_output=True,
                                       check=True, timeout=harness.DEADLINE)
        grant = harness.json.loads(again.stdout)
        self.assertEqual((grant["outcome"], grant["request_id"]), ("GRANTED", command.split()[-1]))
        self.assertEqual(holdfast.json("status")["holds"], 1)

    def test_bench_reports(self):
        holdfast = self.server()
        path = self.path("report.json")
        report = holdfast.load("--mode", "stream", "--concurrency", "2", "--json", path)
        self.assertEqual(report["options"]["mode"], "stream")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(harness.json.load(file), report)
        self.assertEqual(holdfast.json("status")["holds"], 0)

    def test_bench_capacity_refuses(self):
        no_etcd = harness.run("bench", "capacity", "--etcd", "/nonexistent/etcd")
        self.assertEqual((no_etcd.code, no_etcd.out), (69, ""), no_etcd)
        self.assertIn("/nonexistent/etcd is not installed", no_etcd.err)
        too_short = harness.run("bench", "capacity", "--duration", "1s")
        self.assertEqual(too_short.code, 64, too_short)
        self.assertIn("duration", too_short.err)

    def test_help_teaches(self):
        verbs = ("acquire renew release cancel break lock describe list watch check-token status elect "
                 "leader proclaim server backup restore recover demo").split()
        verbs += ["session open", "session keepalive", "session close", "session describe",
                  "namespace create", "namespace set", "namespace get", "namespace list",
                  "namespace delete", "journal inspect", "journal verify", "bench locks",
                  "bench peers", "bench capacity"]
        root = harness.run("--help")
        self.assertEqual(root.code, 0, root)
        for verb in verbs:
            self.assertIn(verb.split()[0], root.out)
            answer = harness.run(*verb.split(), "--help")
            self.assertEqual(answer.code, 0, answer)
            self.assertIn(f"holdfast {verb}", answer.out)
            self.assertIn("Example:", answer.out)
            self.assertIn("Exit codes:", answer.out)
        self.assertRegex(harness.run("--version").out, r"^holdfast \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    harness.main()
