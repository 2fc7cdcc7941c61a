"""A client that vanishes leaves no waiter and no connection behind after the grace."""

import os
import signal

import harness


def connections(server):
    """Sockets and other files that the server has open."""
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


class Vanished(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.holdfast = self.server("--set", "keepalive.time=1s", "--set", "keepalive.timeout=500ms")
        self.holdfast.json("namespace", "set", "default", "--detach-grace", "500ms")
        self.lease = self.holdfast.json("acquire", "a", "--ttl", "10m")

    def waiter(self, count):
        call = self.background(self.holdfast, "acquire", "a", "--wait", "10m", "-o", "json")
        harness.wait_until(lambda: self.holdfast.json("status")["waiters"] == count, f"{count} waiters")
        return call

    def nothing_is_left(self, before):
        harness.wait_until(lambda: self.holdfast.json("status")["waiters"] == 0, "no waiter")
        self.assertEqual(self.holdfast.json("describe", "a")["queue"], [])
        harness.wait_until(lambda: connections(self.holdfast) <= before, "no connection")
        self.assertEqual(self.holdfast.json("describe", "a")["holder"]["lease_fp"], self.lease["lease_fp"])

    def test_killed_waiters(self):
        harness.wait_until(lambda: self.holdfast.json("status")["waiters"] == 0, "a quiet server")
        before = connections(self.holdfast) + 1  # those of the status calls may still be closing
        waiters = [self.waiter(count) for count in (1, 2, 3)]
        for waiter in waiters:
            waiter.send(signal.SIGKILL)
        self.nothing_is_left(before)

    def test_half_open_waiter(self):
        before = connections(self.holdfast) + 1
        waiter = self.waiter(1)
        waiter.send(signal.SIGSTOP)  # its kernel goes on acknowledging, it answers no ping
        self.nothing_is_left(before)
        waiter.send(signal.SIGKILL)

    def test_killed_watchers(self):
        before = connections(self.holdfast) + 1
        watches = [self.background(self.holdfast, "watch", "-o", "json") for _ in range(3)]
        for watch in watches:
            watch.wait_line(lambda line: "STARTED" in line, "the start of the watch")
            watch.send(signal.SIGKILL)
        harness.wait_until(lambda: connections(self.holdfast) <= before, "no connection")

    def test_killed_leader_is_followed_after_its_lease(self):
        self.holdfast.json("namespace", "set", "default", "--lock-delay", "0s")
        leader = self.background(self.holdfast, "elect", "main", "--value", "v", "--ttl", "2s", "-o", "json")
        leader.wait_line(lambda line: "LEADING" in line, "LEADING")
        leader.send(signal.SIGKILL)
        follower = self.background(self.holdfast, "elect", "main", "--value", "w", "-o", "json")
        follower.wait_line(lambda line: "LEADING" in line, "LEADING")
        self.assertEqual(self.holdfast.json("leader", "main")["value"], "w")
        causes = [t["cause"] for t in self.holdfast.json("describe", "main")["transitions"]]
        self.assertIn("EXPIRED", causes)


if __name__ == "__main__":
    harness.main()
