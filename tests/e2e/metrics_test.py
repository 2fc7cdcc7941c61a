"""Metrics of the built binary: docs/METRICS.md against a live scrape in both directions, values, alert
rules, dashboard; `holdfast top`; warnings about a ttl that is too short."""

import json
import os
import pty
import re
import shutil
import subprocess

import access_test
import harness
import http_test
import resp_test

ROOT = http_test.ROOT
TYPES = re.compile(r"^# TYPE (\S+) (\S+)$", re.M)
SAMPLE = re.compile(r'^([a-z_]+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-z_]+)="([^"]*)"')
NAMES = re.compile(r"\bholdfast_[a-z0-9_]+")
ENDINGS = ("_bucket", "_sum", "_count")


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def documented():
    """name -> (type, labels) of the tables of docs/METRICS.md."""
    rows = {}
    for line in read("docs", "METRICS.md").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `holdfast_"):
            name = cells[0].strip("`")
            assert name not in rows, f"{name} is there twice"
            rows[name] = cells[1], frozenset(re.findall(r"`([a-z_]+)`", cells[2]))
    return rows


class Scrape:
    def __init__(self, text):
        self.types = dict(TYPES.findall(text))
        self.samples = {}  # (name, ((label, value), ...)) -> value
        self.labels = {}   # name of the family -> its labels
        for line in text.splitlines():
            if line.startswith("#"):
                continue
            name, labels, value = SAMPLE.match(line).groups()
            pairs = tuple(sorted(LABEL.findall(labels or "")))
            self.samples[name, pairs] = float(value)
            self.labels.setdefault(self.family(name), set()).update(key for key, _ in pairs if key != "le")

    def family(self, name):
        for ending in ENDINGS:
            base = name.removesuffix(ending)
            if base != name and self.types.get(base) == "histogram":
                return base
        return name

    def value(self, name, **labels):
        return self.samples.get((name, tuple(sorted(labels.items()))), 0)


class MetricsCase(http_test.HttpCase):
    def scrape(self):
        reply = self.call("GET", "/metrics")
        self.assertEqual(reply.status, 200, reply)
        return Scrape(reply.text)

    def grown(self, before, name, **labels):
        return self.scrape().value(name, **labels) - before.value(name, **labels)


class Page(MetricsCase):
    def test_page_and_scrape_name_the_same(self):
        holdfast = self.start("--set", "snapshot_bytes=1MiB", "--resp", f"127.0.0.1:{harness.free_port()}")
        # A snapshot has an age only when there is one.
        harness.wait_until(lambda: holdfast.load("--endpoints", holdfast.address, "--concurrency", "32") and
                           self.scrape().value("holdfast_snapshots_total") > 0, "a snapshot")
        scrape = self.scrape()
        page = documented()
        self.assertEqual(set(page), set(scrape.types))
        for name, (kind, labels) in page.items():
            self.assertEqual(kind, scrape.types[name], name)
            self.assertEqual(set(labels), scrape.labels[name], name)
        self.assertEqual({dict(labels)["front"] for name, labels in scrape.samples
                          if name == "holdfast_front_open_calls"}, {"grpc", "http", "resp"})
        self.assertGreater(scrape.value("holdfast_snapshot_age_seconds"), 0)

    def test_alerts_and_dashboard_use_only_what_there_is(self):
        page = documented()
        histograms = {name for name, (kind, _) in page.items() if kind == "histogram"}
        series = (set(page) - histograms) | {name + ending for name in histograms for ending in ENDINGS}
        alerts = read("deploy", "prometheus", "alerts.yml")
        dashboard = json.loads(read("deploy", "grafana", "holdfast.json"))
        expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
        expressions += [item["expr"] for item in dashboard["annotations"]["list"]]
        expressions += [item["query"] for item in dashboard["templating"]["list"] if item["type"] == "query"]
        self.assertGreater(len(expressions), 40)
        for text in [alerts, *expressions]:
            names = set(NAMES.findall(text))
            self.assertTrue(names, text)
            self.assertLessEqual(names, series, text)
        # Labels of selectors, and who sums by what.
        for text in [alerts, *expressions]:
            for name, selector in re.findall(r"(holdfast_[a-z0-9_]+)\{([^}]*)\}", text):
                family = name if name in page else name.rsplit("_", 1)[0]
                labels = set(re.findall(r"([a-z_]+)(?:=~|!~|!=|=)", selector)) - {"instance"}
                self.assertLessEqual(labels, page[family][1], text)

    def test_every_alert_is_explained(self):
        alerts = re.findall(r"- alert: (\w+)", read("deploy", "prometheus", "alerts.yml"))
        page = read("docs", "OPERATIONS.md")
        self.assertEqual([name for name in re.findall(r"^\| `(Holdfast\w+)` \|", page, re.M)], alerts)

    def test_promtool_accepts_the_rules(self):
        if shutil.which("promtool") is None:
            self.skipTest("promtool is not installed")
        rules = os.path.join(ROOT, "deploy", "prometheus", "alerts.yml")
        done = subprocess.run(["promtool", "check", "rules", rules], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_promtool_accepts_the_scrape(self):
        if shutil.which("promtool") is None:
            self.skipTest("promtool is not installed")
        self.start()
        done = subprocess.run(["promtool", "check", "metrics"], input=self.call("GET", "/metrics").text,
                              capture_output=True, text=True, check=False)
        # It wants no `_total` in gauges and the like; a count of commands has no better unit.
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))


class Values(MetricsCase):
    def test_requests_and_leases(self):
        self.start()
        before = self.scrape()
        first = self.acquire("a", ttl="30s")
        self.acquire("a", ttl="30s")
        self.acquire("b", ttl="5s")
        self.post("/v1/locks/renew", resource="a", lease_id=first["granted"]["lease_id"])
        self.post("/v1/locks/renew", resource="a", lease_id="1" * 32)
        self.get(f"/v1/locks/check-token?resource=a&fencing_token={first['granted']['fencing_token']}")
        self.get("/v1/locks/check-token?resource=a&fencing_token=999")
        after = self.scrape()
        for amount, name, labels in [
                (2, "holdfast_requests_total", {"verb": "acquire", "outcome": "GRANTED"}),
                (1, "holdfast_requests_total", {"verb": "acquire", "outcome": "HELD"}),
                (3, "holdfast_request_duration_seconds_count", {"verb": "acquire"}),
                (1, "holdfast_requests_total", {"verb": "renew", "outcome": "OK"}),
                (1, "holdfast_requests_total", {"verb": "renew", "outcome": "REFUSED"}),
                (1, "holdfast_renewals_failed_total", {"cause": "NEVER_HELD"}),
                (2, "holdfast_requests_total", {"verb": "check_token", "outcome": "OK"}),
                (1, "holdfast_token_checks_total", {"verdict": "CURRENT"}),
                (1, "holdfast_token_checks_total", {"verdict": "NEVER_ISSUED"}),
                (2, "holdfast_grants_total", {"cause": "ACQUIRED"}), (2, "holdfast_holds", {})]:
            self.assertEqual(after.value(name, **labels) - before.value(name, **labels), amount, (name, labels))
        self.assertGreater(after.value("holdfast_request_duration_seconds_sum", verb="acquire"), 0)
        self.assertGreaterEqual(self.grown(before, "holdfast_commit_duration_seconds_count"), 4)
        self.assertGreaterEqual(self.grown(before, "holdfast_journal_sync_duration_seconds_count"), 4)
        self.assertEqual(after.value("holdfast_journal_sync_duration_seconds_count"),
                         after.value("holdfast_journal_syncs_total"))
        self.assertGreater(after.value("holdfast_batch_bytes_sum"), after.value("holdfast_batch_commands_sum"))
        self.assertLess(after.value("holdfast_state_time_lag_seconds"), 10)
        self.assertGreaterEqual(after.value("holdfast_state_time_lag_seconds"), 0)

    def test_expiry(self):
        self.start()
        self.post("/v1/namespaces/set", name="default", policy={"ttl_min": "0.1s"})
        session = self.post("/v1/sessions/open", ttl="0.3s")
        self.acquire("a", ttl="0.2s")
        self.acquire("b", session_id=session["opened"]["session_id"])
        harness.wait_until(lambda: self.scrape().value("holdfast_lease_overrun_seconds_count") == 2, "two expiries")
        scrape = self.scrape()
        self.assertEqual(scrape.value("holdfast_leases_ended_total", cause="EXPIRED"), 1)
        self.assertEqual(scrape.value("holdfast_leases_ended_total", cause="SESSION_EXPIRED"), 1)
        self.assertEqual(scrape.value("holdfast_sessions_ended_total", cause="SESSION_EXPIRED"), 1)
        self.assertEqual(scrape.value("holdfast_sessions_opened_total"), 1)
        self.assertLess(scrape.value("holdfast_lease_overrun_seconds_sum"), 2 * 5)
        self.post("/v1/sessions/keep-alive", session_id=session["opened"]["session_id"])
        self.assertEqual(self.scrape().value("holdfast_keepalives_failed_total", cause="SESSION_EXPIRED"), 1)

    def test_waits_are_apart(self):
        self.start()
        held = self.acquire("a", ttl="60s")
        answer = self.later(self.acquire, "a", ttl="60s", wait="30s")
        harness.wait_until(lambda: self.scrape().value("holdfast_waiters") == 1, "a waiter")
        self.assertEqual(self.scrape().value("holdfast_front_engine_requests", front="http"), 1)
        self.post("/v1/locks/release", resource="a", lease_id=held["granted"]["lease_id"])
        self.assertTrue(answer()["granted"]["provisional"])
        self.acquire("a", wait="0.1s")
        scrape = self.scrape()
        self.assertEqual(scrape.value("holdfast_wait_duration_seconds_count"), 2)
        self.assertEqual(scrape.value("holdfast_request_duration_seconds_count", verb="acquire"), 1)
        self.assertEqual(scrape.value("holdfast_requests_total", verb="acquire", outcome="WAIT_TIMEOUT"), 1)
        self.assertEqual(scrape.value("holdfast_waits_total"), 2)
        self.assertEqual(scrape.value("holdfast_waiters_left_total", cause="WAIT_TIMED_OUT"), 1)
        self.assertEqual(scrape.value("holdfast_grants_total", cause="HANDED_OVER"), 1)

    def test_all_fronts_are_counted(self):
        resp = harness.free_port()
        holdfast = self.start("--resp", f"127.0.0.1:{resp}")
        self.acquire("a")
        holdfast.json("acquire", "b")
        connection = resp_test.Resp(f"127.0.0.1:{resp}")
        self.addCleanup(connection.close)
        connection.call("HOLDFAST.ACQUIRE", "c")
        connection.call("HOLDFAST.ACQUIRE", "c")
        scrape = self.scrape()
        self.assertEqual(scrape.value("holdfast_requests_total", verb="acquire", outcome="GRANTED"), 3)
        self.assertEqual(scrape.value("holdfast_requests_total", verb="acquire", outcome="HELD"), 1)
        self.assertEqual(scrape.value("holdfast_front_open_calls", front="resp"), 1)
        report = holdfast.load("--endpoints", holdfast.address, "--mode", "stream", "--concurrency", "4")
        granted = self.grown(scrape, "holdfast_requests_total", verb="acquire", outcome="GRANTED")
        self.assertGreaterEqual(granted, report["pairs"])
        connection.close()
        harness.wait_until(lambda: self.scrape().value("holdfast_front_open_calls", front="resp") == 0, "no calls")

    def test_denied_calls(self):
        access = access_test.Access("test_bearer_tokens_and_roles")
        access.folder = self.folder
        config = access.tokens()
        self.start("--config", config)
        self.assertEqual(self.call("GET", "/metrics").status, 401)
        token = {"Authorization": "Bearer the-token-of-worker-0123456789abcdef"}
        self.call("POST", "/v1/namespaces/create", json.dumps({"name": "x"}), {**http_test.JSON, **token})
        text = self.call("GET", "/metrics", headers=token).text
        self.assertEqual(Scrape(text).value("holdfast_front_denied_total", front="http"), 2)


class ShortTtl(MetricsCase):
    def test_warnings(self):
        holdfast = self.start("--set", "ttl.longest_pause=10s", "--set", "ttl.failover=4s",
                              "--set", "ttl.recovery=3s", "--set", "ttl.network_p99=500ms",
                              "--set", "ttl.clock_error=500ms")
        self.assertEqual(self.scrape().value("holdfast_recommended_ttl_min_seconds"), 30)
        self.assertEqual(holdfast.json("status")["recommended_ttl_min_ms"], 30_000)
        fine = holdfast.run("acquire", "a", "--ttl", "30s")
        self.assertEqual((fine.code, fine.err), (0, ""), fine)
        self.assertEqual(holdfast.run("acquire", "b").err, "")
        self.assertEqual(self.scrape().value("holdfast_short_ttl_grants_total"), 0)
        short = holdfast.run("acquire", "c", "--ttl", "29s", "-o", "json")
        self.assertEqual(short.code, 0, short)
        self.assertIn("below the 30s that the service recommends", short.err)
        self.assertEqual(short.json["outcome"], "GRANTED")
        short = holdfast.run("lock", "d", "--ttl", "10s", "--", "true")
        self.assertEqual(short.code, 0, short)
        self.assertIn("holdfast: warning: a ttl of 10s", short.err)
        short = holdfast.run("lock", "d", "--ttl", "10s", "-o", "json", "--", "true")
        self.assertIn("a ttl of 10s", json.loads(short.err)["warning"])
        elected = self.background(holdfast, "elect", "e", "--value", "v", "--ttl", "10s")
        elected.wait_line(lambda line: "LEADING" in line, "a leader")
        elected.process.terminate()
        self.assertIn("holdfast: warning: a ttl of 10s", elected.wait().err)
        self.assertEqual(self.scrape().value("holdfast_short_ttl_grants_total"), 4)
        # One line a minute, with the namespace.
        lines = [line for line in holdfast.logged().splitlines() if "below the recommended minimum" in line]
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("namespace=default", lines[0])


class Top(MetricsCase):
    def test_busiest_first(self):
        holdfast = self.start()
        lease = self.acquire("busy/1", ttl="60s")["granted"]["lease_id"]
        self.acquire("quiet", ttl="60s")
        for _ in range(9):
            self.post("/v1/locks/renew", resource="busy/1", lease_id=lease)
        self.acquire("busy/1", wait="0.1s")
        top = holdfast.json("top")
        self.assertEqual(set(top), {"window_ms", "operations", "error_max", "resources"})
        self.assertEqual(top["resources"][0], {"namespace": "default", "resource": "busy/1", "operations": 11,
                                               "error": 0, "acquires": 2, "waits": 1})
        self.assertEqual([row["resource"] for row in top["resources"]], ["busy/1", "quiet"])
        self.assertEqual(top["operations"], 12)
        self.assertGreater(top["window_ms"], 0)
        self.assertEqual(len(holdfast.json("top", "--limit", "1")["resources"]), 1)
        self.assertEqual(self.get("/v1/hot-resources?limit=1")["resources"][0]["resource"], "busy/1")
        table = holdfast.run("top")
        self.assertEqual(table.code, 0, table)
        self.assertLess(table.out.index("busy/1"), table.out.index("quiet"))
        self.assertNotIn("\x1b", table.out)

    def test_counts_of_many_are_bounded(self):
        holdfast = self.start("--set", "hot_resources=8")
        holdfast.load("--endpoints", holdfast.address, "--concurrency", "64")
        top = holdfast.json("top", "--limit", "1024")
        self.assertEqual(len(top["resources"]), 8)
        self.assertGreaterEqual(top["error_max"], top["operations"] // 8 - 1)
        for row in top["resources"]:
            self.assertLessEqual(row["error"], top["error_max"] + 1, top)

    def test_off(self):
        holdfast = self.start("--set", "hot_resources=0")
        self.acquire("a")
        self.assertEqual(holdfast.json("top")["resources"], [])

    def test_bad_input(self):
        holdfast = self.start()
        self.assert_error(holdfast.run("top", "--limit", "0", "-o", "json"), 64, "limit")
        self.assert_error(holdfast.run("top", "--limit", "1025", "-o", "json"), 64, "limit")
        self.assert_error(holdfast.run("top", "--interval", "1ms", "-o", "json"), 64, "interval")
        self.assert_error(holdfast.run("top", "--namespace", "nowhere", "-o", "json"), 64)
        self.assert_problem(self.call("GET", "/v1/hot-resources?limit=1025"), 400, field="limit")

    def test_only_the_callers_namespaces(self):
        access = access_test.Access("test_bearer_tokens_and_roles")
        access.folder = self.folder
        holdfast = self.start("--config", access.tokens())
        root, worker = access.as_("root"), access.as_("worker")
        holdfast.json("namespace", "create", "jobs", env=root)
        holdfast.json("acquire", "a", env=root)
        holdfast.json("acquire", "b", "--namespace", "jobs", env=root)
        names = [row["namespace"] for row in holdfast.json("top", env=worker)["resources"]]
        self.assertEqual(names, ["jobs"])
        self.assertEqual(len(holdfast.json("top", env=root)["resources"]), 2)
        self.assert_error(holdfast.run("top", "--namespace", "default", "-o", "json", env=worker), 77)
        rows = holdfast.json("top", "--namespace", "jobs", env=root)["resources"]
        self.assertEqual([row["resource"] for row in rows], ["b"])

    def test_refreshes_on_a_terminal(self):
        holdfast = self.start()
        self.acquire("a")
        master, terminal = pty.openpty()
        process = subprocess.Popen([harness.BINARY, "top", "--interval", "100ms", "--endpoints", holdfast.address],
                                   env=harness.clean_environment(), stdin=subprocess.DEVNULL, stdout=terminal,
                                   stderr=subprocess.PIPE)
        os.close(terminal)
        self.addCleanup(os.close, master)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        seen = b""
        while seen.count(b"\x1b[H\x1b[2J") < 3:
            seen += os.read(master, 4096)
        self.assertIn(b"resources", seen)
        process.terminate()
        self.assertEqual(process.wait(harness.DEADLINE), 0)


if __name__ == "__main__":
    harness.main()
