"""Faults at random, of every class, for long enough that each comes; `./dev chaos` goes on for longer.
And that the checks of a run find what they look for."""

import base64
import os
import socket
import threading
import unittest
from unittest import mock

import chaos
import harness
from chaos_history import History, check, check_log
from links import Links
from slow_disk import Impossible, SlowDisk

SECONDS = 120
SEED = 20


class ChaosTest(unittest.TestCase):
    def test_faults_at_random_break_nothing(self):
        result = chaos.run(seconds=SECONDS, seed=SEED)
        self.assertEqual([], result["violations"], result)
        self.assertEqual([], result["not_fired"], result)
        self.assertGreater(result["grants"], 300, result)


    def test_a_run_in_which_no_disk_can_be_slow_fails(self):
        with mock.patch.object(chaos, "check_possible", side_effect=Impossible("ptrace is refused")):
            result = chaos.run(seconds=1, seed=1, only=["slow_disk"])
        self.assertEqual(["slow_disk is impossible on this machine: ptrace is refused"], result["violations"])
        self.assertEqual(["slow_disk_member", "slow_disk_node"], result["not_fired"])


class DeckTest(unittest.TestCase):
    def test_a_class_that_is_not_seen_to_work_is_named(self):
        deck = chaos.Deck(["works", "fails"], seed=1)
        while deck.owed:
            name = deck.draw()
            deck.note(name, fired=name == "works")
        self.assertEqual(["fails"], deck.missing)
        self.assertEqual(chaos.TRIES, deck.failed["fails"])

    def test_each_class_comes_once_before_any_comes_twice_and_a_seed_gives_the_same_order(self):
        orders = []
        for _ in range(2):
            deck = chaos.Deck("abcdefgh", seed=7)
            orders.append([deck.draw() for _ in range(16)])
        self.assertEqual(orders[0], orders[1])
        self.assertEqual(set("abcdefgh"), set(orders[0][:8]))
        self.assertNotEqual(orders[0][:8], orders[0][8:])

    def test_classes_are_chosen_by_name_or_its_beginning(self):
        classes = ["cut_store", "slow_disk_node", "slow_disk_member"]
        self.assertEqual(["cut_store"], chaos.choose(classes, ["slow_disk"], []))
        self.assertEqual(["slow_disk_node"], chaos.choose(classes, [], ["slow_disk_node"]))
        with self.assertRaises(ValueError):
            chaos.choose(classes, ["slowdisk"], [])


class CheckTest(unittest.TestCase):
    @staticmethod
    def row(token, asked, resource="a", until=None, released=None):
        return {"resource": resource, "lease": f"l{token}{resource}", "token": token, "asked": asked,
                "answered": asked + 0.5, "until": asked + 3 if until is None else until, "released": released}

    def violations(self, *rows):
        history = History()
        for row in rows:
            history.grant(row)
        check(history)
        return history.violations

    def assert_found(self, text, *rows):
        found = self.violations(*rows)
        self.assertTrue(any(text in violation for violation in found), found)

    def test_what_can_be_is_no_violation(self):
        self.assertEqual([], self.violations(
            self.row(1, 0.0, released=1.0), self.row(2, 0.9), self.row(3, 1.0, resource="b"), self.row(4, 4.0)))

    def test_a_lease_that_ended_early_is_found(self):
        self.assert_found("before the lease of 1 was over", self.row(1, 0.0), self.row(2, 1.0))

    def test_a_token_of_two_resources_is_found(self):
        self.assert_found("token 1 twice", self.row(1, 0.0), self.row(1, 9.0, resource="b"))

    def test_a_token_of_two_leases_is_found(self):
        self.assert_found("token 1 twice", self.row(1, 0.0), {**self.row(1, 9.0), "lease": "other"})

    def test_a_token_that_went_back_is_found(self):
        self.assert_found("token 4 was asked for after 5", self.row(5, 0.0), self.row(4, 9.0, resource="b"))

    def test_a_log_with_a_hole_or_a_slot_that_was_written_twice_is_found(self):
        def entries(*slots):
            return [{"key": base64.b64encode(b"/holdfast/log/%016x" % index).decode(), "version": version}
                    for index, version in slots]
        for slots, text in (([(1, "1"), (2, "1")], None), ([(1, "1"), (3, "1")], "holes"),
                            ([(1, "1"), (2, "2")], "2 times"), ([], "holes")):
            history = History()
            check_log(history, entries(*slots))
            self.assertEqual(text is not None, bool(history.violations), history.violations)
            self.assertTrue(text is None or text in history.violations[0], history.violations)


class ToolsTest(unittest.TestCase):
    """Each fault of a link does what it is called."""

    def setUp(self):
        self.links = Links()
        self.addCleanup(self.links.close)
        self.listener = socket.create_server(("127.0.0.1", harness.free_port()))
        self.addCleanup(self.listener.close)
        threading.Thread(target=self.echo, daemon=True).start()
        self.fan = self.links.fan("127.0.0.1:%d" % self.listener.getsockname()[1], {0: "me", 1: "other"},
                                  lambda: {os.getpid(): 0})
        self.link = self.fan.links[0]

    def echo(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                while data := connection.recv(100):
                    connection.sendall(data)

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.fan.port), harness.DEADLINE)
        self.addCleanup(connection.close)
        return connection

    def test_a_link_passes_delays_and_counts(self):
        connection = self.connect()
        connection.sendall(b"abc")
        self.assertEqual(b"abc", connection.recv(100))
        self.assertEqual((6, 0, 0), (self.link.passed, self.link.delayed, self.fan.links[1].passed))
        self.links.slow(self.link, 0.05)
        connection.sendall(b"abc")
        self.assertEqual(b"abc", connection.recv(100))
        self.assertEqual(6, self.link.delayed)

    def test_a_deaf_link_loses_and_its_connections_end_when_it_heals(self):
        for direction, reached in (("out", 0), ("in", 3)):
            connection = self.connect()
            before = self.link.passed
            self.links.deafen(self.link, direction)
            lost = self.link.lost
            connection.sendall(b"abc")
            harness.wait_until(lambda seen=lost: self.link.lost == seen + 3, "the bytes are lost")
            self.assertEqual(reached, self.link.passed - before)
            self.links.heal(self.link)
            self.assertEqual(b"", connection.recv(100))

    def test_a_cut_link_ends_connections_and_refuses(self):
        connection = self.connect()
        connection.sendall(b"abc")
        self.assertEqual(b"abc", connection.recv(100))
        self.links.cut(self.link)
        self.assertEqual(b"", connection.recv(100))
        self.assertEqual(b"", self.connect().recv(100))
        self.assertEqual(2, self.link.ended)

    def test_where_nothing_may_be_traced_a_slow_disk_is_impossible(self):
        with mock.patch.dict(os.environ, PATH="/nonexistent"), self.assertRaises(Impossible):
            SlowDisk(os.getpid(), 0.1)
        with self.assertRaises(Impossible):
            SlowDisk(2**22 + 1, 0.1)  # no such process


if __name__ == "__main__":
    harness.main()
