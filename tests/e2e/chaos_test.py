"""Faults at random, of every class, for long enough that each comes; `./dev chaos` goes on for longer."""

import unittest

import chaos
import harness

SECONDS = 120
SEED = 20


class ChaosTest(unittest.TestCase):
    def test_faults_at_random_break_nothing(self):
        result = chaos.run(seconds=SECONDS, seed=SEED)
        self.assertEqual([], result["violations"], result)
        self.assertEqual([], result["not_fired"], result)
        self.assertGreater(result["grants"], 300, result)

    def test_a_class_that_is_not_seen_to_work_is_named(self):
        deck = chaos.Deck(["works", "fails"], seed=1)
        while deck.owed:
            name = deck.draw()
            deck.note(name, fired=name == "works")
        self.assertEqual(["fails"], deck.missing)
        self.assertEqual(chaos.TRIES, deck.failed["fails"])


if __name__ == "__main__":
    harness.main()
