"""The wall clock jumps by an hour either way, on the server and on clients, and nothing happens. The boot
clock goes on while a machine is suspended: what that ends for a client is over when it wakes."""

import json
import os
import shutil
import signal
import struct
import subprocess
import time

import harness

SHIM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wall_clock_shim.c")
HOUR = 3600


class Clock(harness.TestCase):
    def setUp(self):
        super().setUp()
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            self.skipTest("there is no C compiler for the library that shifts the clock")
        self.library = self.path("shim.so")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", self.library, SHIM, "-ldl"], check=True)
        self.shift_file = self.path("shift")
        self.jump(0)

    def jump(self, seconds):
        """Every process under the shim sees it at once."""
        if not os.path.exists(self.shift_file):
            with open(self.shift_file, "wb") as file:
                file.write(struct.pack("q", seconds))
            return
        with open(self.shift_file, "r+b", buffering=0) as file:
            file.write(struct.pack("q", seconds))

    def env(self, **more):
        return {"LD_PRELOAD": self.library, "WALL_CLOCK_SHIFT_FILE": self.shift_file, **more}

    def wall_of_server(self, holdfast):
        """What the server takes for the time, in seconds from ours."""
        name = f"probe/{os.urandom(4).hex()}"
        holdfast.json("acquire", name)
        since = holdfast.json("describe", name)["holder"]["since"]
        seconds = time.mktime(time.strptime(since[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
        return seconds - time.time()

    def test_jumps_on_the_server(self):
        holdfast = self.server(env=self.env())
        self.assertLess(abs(self.wall_of_server(holdfast)), 60)
        holdfast.json("namespace", "set", "default", "--lock-delay", "0s")
        lease = holdfast.json("acquire", "a", "--ttl", "1m")
        for shift in (HOUR, -HOUR, 0):
            begin = time.monotonic()
            short = holdfast.json("acquire", f"short/{shift}", "--ttl", "2s")
            waiter = self.background(holdfast, "acquire", f"short/{shift}", "--wait", "20s", "-o", "json")
            bounded = self.background(holdfast, "acquire", "a", "--wait", "1s", "-o", "json")
            harness.wait_until(lambda: holdfast.json("status")["waiters"] == 2, "two waiters")
            self.jump(shift)
            refused = bounded.wait()  # a bounded wait ends in time
            self.assertEqual((refused.code, refused.json["outcome"]), (75, "WAIT_TIMEOUT"), refused)
            granted = waiter.wait()
            lasted = time.monotonic() - begin
            self.assertEqual(granted.code, 0, granted)
            self.assertGreater(int(granted.json["fencing_token"]), int(short["fencing_token"]))
            self.assertTrue(2.0 <= lasted < 12.0, f"a lease of 2 s lasted {lasted} s")
            renewed = holdfast.json("renew", "a", "--lease-id", lease["lease_id"])
            self.assertTrue(59_000 < renewed["remaining_ms"] <= 60_000, renewed)
            if shift > 0:
                self.assertGreater(self.wall_of_server(holdfast), HOUR - 60)  # the shim works
        holdfast.restart()
        self.assertEqual(holdfast.json("describe", "a")["holder"]["lease_fp"], lease["lease_fp"])

    def test_jumps_on_the_holder(self):
        holdfast = self.server()
        leader = self.background(holdfast, "elect", "main", "--value", "v", "--ttl", "2s", "-o", "json",
                                 env=self.env())
        leader.wait_line(lambda line: "LEADING" in line, "LEADING")
        token = holdfast.json("leader", "main")["fencing_token"]
        for shift in (HOUR, -HOUR):
            self.jump(shift)
            begin = time.monotonic()
            harness.wait_until(lambda: time.monotonic() - begin > 3, "a lease and a half")
            self.assertEqual(holdfast.json("leader", "main").get("fencing_token"), token)
        self.assertEqual([line for line in leader.lines if "LOST" in line], [])

    def test_jumps_on_a_waiter(self):
        holdfast = self.server()
        holdfast.json("acquire", "a", "--ttl", "1m")
        for shift in (HOUR, -HOUR):
            begin = time.monotonic()
            waiter = self.background(holdfast, "acquire", "a", "--wait", "1s", "-o", "json", env=self.env())
            harness.wait_until(lambda: holdfast.json("status")["waiters"] == 1, "it waits")
            self.jump(shift)
            refused = waiter.wait()
            lasted = time.monotonic() - begin
            self.assertEqual((refused.code, refused.json["outcome"]), (75, "WAIT_TIMEOUT"), refused)
            self.assertTrue(1.0 <= lasted < 4.0, f"a wait of 1 s lasted {lasted} s")

    def test_a_holder_whose_machine_was_suspended(self):
        """Its boot clock says so, and nothing else can: the service is stopped before it wakes."""
        holdfast = self.server()
        leader = self.background(holdfast, "elect", "main", "--value", "v", "--ttl", "1m", "-o", "json",
                                 env=self.env(SHIFT_BOOT_CLOCK="1"))
        leader.wait_line(lambda line: "LEADING" in line, "LEADING")
        holdfast.process.send_signal(signal.SIGSTOP)
        self.addCleanup(holdfast.process.send_signal, signal.SIGCONT)
        begin = time.monotonic()
        self.jump(61)
        lost = json.loads(leader.wait_line(lambda line: "LOST" in line, "LOST"))
        self.assertLess(time.monotonic() - begin, 1.0)
        self.assertEqual(lost["cause"], "EXPIRED")
        self.assertEqual(leader.wait().code, 76)

    def test_a_server_whose_machine_was_suspended(self):
        """State time moves on by one second at most, so that no lease of a live client ends early."""
        holdfast = self.server(env=self.env(SHIFT_BOOT_CLOCK="1"))
        lease = holdfast.json("acquire", "a", "--ttl", "30s")
        index = holdfast.json("status")["index"]
        self.jump(HOUR)
        harness.wait_until(lambda: holdfast.json("status")["index"] > index + 1, "two ticks")
        self.assertGreater(holdfast.json("status")["uptime_ms"], HOUR * 1000)  # the shim works
        holder = holdfast.json("describe", "a")["holder"]
        self.assertEqual(holder["lease_fp"], lease["lease_fp"])
        self.assertTrue(25_000 < holder["lease_left_ms"] <= 30_000, holder)
        renewed = holdfast.json("renew", "a", "--lease-id", lease["lease_id"])
        self.assertTrue(29_000 < renewed["remaining_ms"] <= 30_000, renewed)


if __name__ == "__main__":
    harness.main()
