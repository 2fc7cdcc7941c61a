"""What holders and waiters see of a replicated cluster whose nodes die."""

import contextlib
import json
import signal
import socket

import harness
from chaos_history import Store
from cluster_case import REFUSED_OR_UNKNOWN, ClusterCase
from prober import command, parse


class Clients(ClusterCase):
    def setUp(self):
        super().setUp()
        self.cluster.json("namespace", "set", "default", "--protection", "fenced", "--lock-delay", "0s",
                          "--ttl-min", "1s")

    def anywhere(self, *words):
        """A call that knows every node."""
        call = harness.Background(harness.with_options(words, "--endpoints", self.cluster.endpoints))
        self.addCleanup(call.close)
        return call

    def queue(self, name):
        return [row["owner"] for row in self.cluster.json("describe", name)["queue"]]

    def kill_leader(self):
        leader = self.cluster.wait_leader()
        self.nodes[leader].kill()
        self.cluster.wait_leader()
        return leader

    def end_of(self, *words):
        """The call's answer, however often it has to be asked."""
        def done():
            answer = self.cluster.run(*words, "-o", "json", "--timeout", "5s")
            return None if answer.code in REFUSED_OR_UNKNOWN else answer
        return harness.wait_until(done, f"an answer to {words}").json


class Holders(Clients):
    MANY = 3000

    def test_a_holder_that_was_paused_over_a_failover_is_fenced(self):
        store = Store()
        paused = self.anywhere("elect", "main", "--value", "v", "--ttl", "3s", "-o", "json")
        first = self.token(json.loads(paused.wait_line(lambda line: "LEADING" in line, "LEADING")))
        self.assertTrue(store.write("main", first))
        paused.send(signal.SIGSTOP)
        self.kill_leader()
        other = self.anywhere("acquire", "main", "--wait", "60s", "--ttl", "60s", "-o", "json").wait(60).json
        self.assertEqual("GRANTED", other["outcome"])
        self.assertGreater(self.token(other), first)
        self.assertTrue(store.write("main", self.token(other)))
        self.assertFalse(store.write("main", first))
        paused.send(signal.SIGCONT)
        self.assertEqual(76, paused.wait().code)
        self.assertEqual(other["fencing_token"],
                         self.cluster.json("describe", "main")["holder"]["fencing_token"])

    def test_a_holder_keeps_its_lock_when_the_node_that_it_renews_at_dies_or_freezes(self):
        call = self.anywhere("lock", "main", "--ttl", "10s", "--", "sh", "-c",
                             "echo working; exec tail -f /dev/null")
        call.wait_line(lambda line: line == "working", "the command")
        token = self.cluster.json("describe", "main")["holder"]["fencing_token"]

        def renewed_without(number):
            """By another node: a lease that nobody renews is over by then."""
            before = self.state_time()
            harness.wait_until(lambda: self.state_time(number) > before + 12_000, "more than the lease", 60)
            self.assertIsNone(call.process.poll())
            self.assertEqual(token, self.nodes[self.others(number)[0]].json("describe", "main")["holder"][
                "fencing_token"])
        self.nodes[0].kill()  # the first of its endpoints
        renewed_without(0)
        self.nodes[0].start()
        self.wait_served(0)
        process = self.nodes[1].process
        process.send_signal(signal.SIGSTOP)
        self.addCleanup(process.send_signal, signal.SIGCONT)
        renewed_without(1)

    def state_time(self, but=None):
        return max(int((self.cluster.status(number) or {"state_time_ms": 0})["state_time_ms"])
                   for number in range(3) if number != but)

    def test_a_killed_holder_is_followed_after_the_lock_delay_over_a_failover(self):
        self.cluster.json("namespace", "set", "default", "--lock-delay", "20s")
        call = self.anywhere("elect", "main", "--value", "v", "--ttl", "2s", "-o", "json")
        first = self.token(json.loads(call.wait_line(lambda line: "LEADING" in line, "LEADING")))
        call.send(signal.SIGKILL)
        harness.wait_until(lambda: self.cluster.json("describe", "main")["state"] == "IN_DELAY", "the delay")
        self.kill_leader()
        refused = self.end_of("acquire", "main", "--ttl", "60s")
        self.assertEqual("DELAYED", refused["outcome"])
        following = self.end_of("acquire", "main", "--ttl", "60s", "--wait", "60s")
        self.assertEqual("GRANTED", following["outcome"])
        self.assertGreater(self.token(following), first)


    def test_many_leases_that_end_at_once_end_over_a_failover_and_a_live_one_does_not(self):
        live = self.anywhere("elect", "live", "--value", "v", "--ttl", "15s", "-o", "json")
        token = self.token(json.loads(live.wait_line(lambda line: "LEADING" in line, "LEADING")))
        self.acquire_many(self.nodes[self.others(self.cluster.wait_leader())[0]], self.MANY, 8000)
        self.kill_leader()

        def over():
            status = self.cluster.status(self.cluster.wait_leader())
            return status and status["holds"] == 1 and status["expiry_lag_ms"] == 0
        harness.wait_until(over, "all but one are over", 60)
        self.assertEqual(token, self.token(self.cluster.json("describe", "live")["holder"]))
        self.assertGreater(self.token(self.end_of("acquire", "many/0", "--ttl", "60s")), token + self.MANY)

    def acquire_many(self, node, count, ttl_ms):
        host, _, port = node.resp.rpartition(":")
        with socket.create_connection((host, int(port)), harness.DEADLINE) as connection:
            connection.sendall(b"".join(command(b"HOLDFAST.ACQUIRE", b"many/%d" % i, b"TTL", b"%d" % ttl_ms)
                                        for i in range(count)))
            data, granted = b"", 0
            while granted < count:
                data += connection.recv(1 << 20)
                at = 0
                with contextlib.suppress(IndexError):
                    while granted < count:
                        items, at = parse(data, at)
                        self.assertIn(b"GRANTED", items)
                        granted += 1
                data = data[at:]


class LostReplies(Clients):
    def test_an_acquire_whose_reply_was_lost_is_the_same_at_every_node_and_after_a_failover(self):
        words = ("acquire", "main", "--owner", "a", "--ttl", "100s", "--request-id", "r")
        held = self.cluster.json(*words)
        for node in self.nodes:
            again = node.json(*words)
            self.assertEqual((held["lease_id"], held["fencing_token"]),
                             (again["lease_id"], again["fencing_token"]))
        self.kill_leader()
        again = self.end_of(*words)
        self.assertEqual((held["lease_id"], held["fencing_token"]), (again["lease_id"], again["fencing_token"]))
        self.assertEqual("REQUEST_ID_REUSED", self.end_of(
            "acquire", "other", "--owner", "a", "--ttl", "100s", "--request-id", "r")["outcome"])
        self.end_of("release", "main", "--lease-id", held["lease_id"])
        following = self.end_of("acquire", "main", "--owner", "b", "--ttl", "100s")
        self.assertEqual(self.token(held) + 1, self.token(following))
        self.assertEqual("ENDED", self.end_of(*words)["outcome"])
        self.assertEqual("b", self.cluster.json("describe", "main")["holder"]["owner"])

    def test_a_release_whose_reply_was_lost_is_answered_again_after_a_failover(self):
        held = self.cluster.json("acquire", "main", "--owner", "a", "--ttl", "100s")
        self.cluster.json("release", "main", "--lease-id", held["lease_id"])
        following = self.cluster.json("acquire", "main", "--owner", "b", "--ttl", "100s")
        self.kill_leader()
        self.assertTrue(self.end_of("release", "main", "--lease-id", held["lease_id"])["released"])
        wrong = self.cluster.run("release", "main", "--lease-id", "00" * 16, "-o", "json", "--timeout", "5s")
        self.assertNotEqual(0, wrong.code, wrong)
        self.assertEqual(following["fencing_token"],
                         self.cluster.json("describe", "main")["holder"]["fencing_token"])


class Waiters(Clients):
    def test_a_waiter_whose_session_died_never_wins_over_a_failover(self):
        held = self.cluster.json("acquire", "main", "--ttl", "100s")
        session = self.cluster.json("session", "open", "--ttl", "8s")["session_id"]
        dead = self.anywhere("acquire", "main", "--owner", "dead", "--session", session, "--wait", "90s", "-o",
                             "json")
        harness.wait_until(lambda: self.queue("main") == ["dead"], "it waits")
        live = self.anywhere("acquire", "main", "--owner", "live", "--ttl", "60s", "--wait", "90s", "-o", "json")
        harness.wait_until(lambda: self.queue("main") == ["dead", "live"], "both wait")
        self.kill_leader()
        answer = dead.wait(60)
        self.assertEqual("SESSION_ENDED", answer.json["outcome"], answer)
        harness.wait_until(lambda: self.queue("main") == ["live"], "only the live one waits")
        self.end_of("release", "main", "--lease-id", held["lease_id"])
        granted = live.wait(60).json
        self.assertEqual("GRANTED", granted["outcome"])
        self.assertEqual(self.token(held) + 1, self.token(granted), "nobody was granted between them")

    def test_waiters_that_vanish_with_their_node_leave_nothing(self):
        held = self.cluster.json("acquire", "main", "--ttl", "100s")
        node = self.others(self.cluster.wait_leader())[0]
        gone = [self.background(node, "acquire", "main", "--owner", f"gone-{i}", "--wait", "90s")
                for i in range(5)]
        harness.wait_until(lambda: len(self.queue("main")) == 5, "they wait")
        live = self.anywhere("acquire", "main", "--owner", "live", "--ttl", "60s", "--wait", "90s", "-o", "json")
        harness.wait_until(lambda: len(self.queue("main")) == 6, "all wait")
        for call in gone:
            call.send(signal.SIGKILL)
        self.nodes[node].kill()
        harness.wait_until(lambda: self.queue("main") == ["live"], "only the live one waits", 60)
        self.end_of("release", "main", "--lease-id", held["lease_id"])
        self.assertEqual("GRANTED", live.wait(60).json["outcome"])

    def test_a_watch_goes_on_over_a_compaction_and_a_failover(self):
        leader = self.cluster.wait_leader()
        watch = self.background(self.others(leader)[0], "watch", "seen/", "-o", "json")
        # The watch has no line that says that it has begun.
        harness.wait_until(lambda: self.cluster.run("acquire", f"seen/before-{len(watch.lines)}", "--ttl", "60s")
                           and any("GRANTED" in line for line in watch.lines), "an event")
        self.etcd.call(0, "kv/compaction", {"revision": str(self.etcd.revision()), "physical": True})
        self.kill_leader()
        self.end_of("acquire", "seen/after", "--ttl", "60s")
        watch.wait_line(lambda line: "seen/after" in line and "GRANTED" in line, "the event after the failover")
        tokens = [int(event["fencing_token"]) for event in map(json.loads, watch.lines)
                  if event.get("fencing_token") and event.get("kind") == "GRANTED"]
        self.assertEqual(sorted(set(tokens)), tokens, watch.lines)
        self.assertIsNone(watch.process.poll())


if __name__ == "__main__":
    harness.main()
