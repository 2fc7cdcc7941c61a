"""What the tests of faults on a replicated cluster share."""

import unittest

import harness
from chaos_history import History, check_log
from cluster import Cluster
from links import Links

REFUSED_OR_UNKNOWN = (69, 74)
PATIENCE = 120.0  # seconds; usually one or two, but the machine may be busy with other tests


class ClusterCase(unittest.TestCase):
    maxDiff = None
    WORDS = ()
    ETCD_WORDS = ()

    def setUp(self):
        self.cluster = Cluster(*self.WORDS, links=Links(), etcd_words=self.ETCD_WORDS)
        self.addCleanup(self.cluster.close)
        self.nodes, self.etcd, self.links = self.cluster.nodes, self.cluster.etcd, self.cluster.links

    @staticmethod
    def token(granted):
        return int(granted["fencing_token"])

    def epoch(self):
        return int(self.cluster.status(self.cluster.wait_leader())["epoch"])

    def others(self, *numbers):
        return [number for number in range(3) if number not in numbers]

    def background(self, number, *words):
        """A call at one node."""
        call = self.nodes[number].background(*words)
        self.addCleanup(call.close)
        return call

    def heal(self, links):
        for link in links:
            self.links.heal(link)

    def wait_served(self, *numbers):
        """Each of the nodes grants."""
        for number in numbers or range(3):
            harness.wait_until(
                lambda n=number: self.nodes[n].run("acquire", f"served/{n}", "--timeout", "1s", "--ttl",
                                                   "100s", "--request-id", f"served-{n}").code == 0,
                f"n{number} grants\n{self.cluster.logged()}", PATIENCE)

    def wait_role(self, number, role):
        harness.wait_until(lambda: (self.cluster.status(number) or {}).get("role") == role,
                           f"n{number} is {role}\n{self.cluster.logged()}", PATIENCE)

    def wait_entries(self, count):
        """The log, which gets five ticks a second, grows by this much."""
        def index():
            return max(int((self.cluster.status(number) or {"index": 0})["index"]) for number in range(3))
        first = index()
        harness.wait_until(lambda: index() >= first + count, f"{count} entries\n{self.cluster.logged()}",
                           PATIENCE)

    def assert_log_is_sound(self):
        history = History()
        check_log(history, self.etcd.entries())
        self.assertEqual([], history.violations)

    def assert_one_effect(self, name, request, known=None):
        """Asked again, each node gives the same grant."""
        answers = []
        for number in range(3):
            def granted(n=number):
                answer = self.nodes[n].run("acquire", name, "--ttl", "100s", "--request-id", request, "-o",
                                           "json", "--timeout", "2s")
                return answer.json if answer.code == 0 else None
            answers.append(harness.wait_until(granted, f"{name} is granted at n{number}", PATIENCE))
        leases = {(answer["lease_id"], answer["fencing_token"]) for answer in answers + ([known] if known else [])}
        self.assertEqual(1, len(leases), answers)
        return answers[0]
