"""A replicated cluster whose links lose, delay and refuse: between nodes, to etcd, and inside of etcd."""

import harness
from cluster_case import REFUSED_OR_UNKNOWN, ClusterCase

ENTRIES = 20      # of the log that have to come while a fault stands: four seconds of ticks
BEYOND_TIMEOUT = 2.5  # seconds each way; a node waits for 2 s for an append


class AsymmetricPartition(ClusterCase):
    def test_a_leader_that_hears_no_answers_acknowledges_nothing_and_is_replaced(self):
        """What it sends is done by etcd, but no answer comes back."""
        held = self.cluster.json("acquire", "held", "--ttl", "100s", "--owner", "first")
        leader, epoch = self.cluster.wait_leader(), self.epoch()
        links = self.cluster.store_links[leader]
        for link in links:
            self.links.deafen(link, "in")
        calls = [self.background(leader, "acquire", f"unheard/{i}", "--ttl", "100s", "--request-id", f"r-{i}",
                                 "--timeout", "4s", "-o", "json") for i in range(4)]
        others = self.others(leader)
        self.wait_served(*others)
        answers = [call.wait() for call in calls]
        for answer in answers:
            self.assertIn(answer.code, (0, *REFUSED_OR_UNKNOWN), answer)
        other = self.nodes[others[0]]
        other.json("release", "held", "--lease-id", held["lease_id"])
        second = other.json("acquire", "held", "--ttl", "100s", "--owner", "second")
        stale = self.nodes[leader].run("describe", "held", "--timeout", "1s", "-o", "json")
        if stale.code == 0:  # passed on to who leads
            self.assertEqual("second", stale.json["holder"]["owner"])
        self.assertGreater(sum(link.lost for link in links), 0)
        self.wait_entries(ENTRIES)
        self.heal(links)
        self.wait_role(leader, "standby")
        for i, answer in enumerate(answers):
            self.assert_one_effect(f"unheard/{i}", f"r-{i}", answer.json if answer.code == 0 else None)
        self.assertEqual(second["fencing_token"],
                         self.nodes[leader].json("describe", "held")["holder"]["fencing_token"])
        self.assertLessEqual(self.epoch(), epoch + 3, "nobody deposes the others again and again")
        self.assert_log_is_sound()

    def test_a_leader_whose_appends_do_not_arrive_is_replaced(self):
        leader, epoch = self.cluster.wait_leader(), self.epoch()
        links = self.cluster.store_links[leader]
        for link in links:
            self.links.deafen(link, "out")
        call = self.background(leader, "acquire", "lost", "--ttl", "100s", "--request-id", "r", "--timeout", "4s")
        self.wait_served(*self.others(leader))
        self.assertIn(call.wait().code, (0, *REFUSED_OR_UNKNOWN))
        self.heal(links)
        self.wait_role(leader, "standby")
        self.assert_one_effect("lost", "r")
        self.assertLessEqual(self.epoch(), epoch + 3)
        self.assert_log_is_sound()

    def test_an_append_that_is_applied_after_its_timeout_has_one_effect(self):
        leader = self.cluster.wait_leader()
        links = self.cluster.store_links[leader]
        for link in links:
            self.links.slow(link, BEYOND_TIMEOUT)
        calls = [self.background(leader, "acquire", f"late/{i}", "--ttl", "100s", "--request-id", f"r-{i}",
                                 "--timeout", "12s", "-o", "json") for i in range(4)]
        answers = [call.wait() for call in calls]
        for answer in answers:
            self.assertIn(answer.code, (0, *REFUSED_OR_UNKNOWN), answer)
        self.assertGreater(sum(link.delayed for link in links), 0)
        self.heal(links)
        self.wait_served()
        for i, answer in enumerate(answers):
            self.assert_one_effect(f"late/{i}", f"r-{i}", answer.json if answer.code == 0 else None)
        self.assert_log_is_sound()


class NonTransitiveLinks(ClusterCase):
    def test_two_nodes_that_cannot_reach_each_other_do_not_depose_the_leader(self):
        """One standby cannot reach the leader; everybody reaches etcd."""
        leader, epoch = self.cluster.wait_leader(), self.epoch()
        alone, other = self.others(leader)
        links = [self.cluster.peer_links[alone][leader], self.cluster.peer_links[leader][alone]]
        for link in links:
            self.links.cut(link)
        answer = self.nodes[alone].run("acquire", "a", "--timeout", "2s")
        self.assertIn(answer.code, REFUSED_OR_UNKNOWN, answer)
        self.wait_entries(ENTRIES)
        self.wait_served(leader, other)
        self.assertEqual((leader, epoch), (self.cluster.leader(), self.epoch()))
        self.assertGreater(links[0].ended, 0)
        self.heal(links)
        self.wait_served(alone)

    def test_nodes_that_each_reach_another_member_of_etcd_have_a_stable_leader(self):
        links = [self.cluster.store_links[node][member] for node in range(3) for member in range(3)
                 if node != member]
        for link in links:
            self.links.cut(link)
        self.wait_served()
        epoch = self.epoch()
        self.wait_entries(ENTRIES)
        self.wait_served()
        self.assertLessEqual(self.epoch(), epoch + 1)
        self.heal(links)
        self.wait_entries(ENTRIES)
        self.assertLessEqual(self.epoch(), epoch + 1)
        self.assert_log_is_sound()

    def test_two_members_of_etcd_that_cannot_reach_each_other_stop_nobody(self):
        """Each pair in turn, so with and without the leader of etcd."""
        epoch = self.epoch()
        for one, other in ((0, 1), (0, 2), (1, 2)):
            links = [self.etcd.peer_links[one][other], self.etcd.peer_links[other][one]]
            for link in links:
                self.links.cut(link)
            gap = self.cluster.gap(lambda: None)
            self.assertLess(gap, harness.DEADLINE)
            self.wait_entries(ENTRIES)
            self.assertGreater(sum(link.ended for link in links), 0)
            self.heal(links)
        self.assertLessEqual(self.epoch(), epoch + 6, "nobody deposes the others again and again")
        self.assert_log_is_sound()


class LostZone(ClusterCase):
    def test_a_zone_that_is_cut_off_serves_nobody_and_follows_when_it_is_back(self):
        """The leader and its member of etcd have each other, and nobody else."""
        zone = self.cluster.wait_leader()
        held = self.cluster.json("acquire", "held", "--ttl", "100s", "--owner", "first")
        links = [self.cluster.store_links[zone][other] for other in self.others(zone)]
        links += [self.cluster.store_links[other][zone] for other in self.others(zone)]
        for ways in (self.cluster.peer_links, self.etcd.peer_links):
            for other in self.others(zone):
                links += [ways[zone][other], ways[other][zone]]
        for link in links:
            self.links.deafen(link, "in", "out")
        self.wait_served(*self.others(zone))
        answer = self.nodes[zone].run("acquire", "inside", "--timeout", "3s")
        self.assertIn(answer.code, REFUSED_OR_UNKNOWN, answer)
        answer = self.nodes[zone].run("describe", "held", "--timeout", "3s")
        self.assertIn(answer.code, REFUSED_OR_UNKNOWN, answer)
        outside = self.nodes[self.others(zone)[0]]
        self.assertEqual("HELD", outside.json("acquire", "held", code=75)["outcome"])
        self.assertEqual("RENEWED", outside.json("renew", "held", "--lease-id", held["lease_id"])["outcome"])
        self.heal(links)
        self.wait_role(zone, "standby")
        self.wait_served()
        self.assertEqual(held["fencing_token"],
                         self.nodes[zone].json("describe", "held")["holder"]["fencing_token"])
        self.assert_log_is_sound()


class SlowConsensus(ClusterCase):
    DELAY = 0.45  # seconds each way between members: a commit takes 0.9 s, more than a node waits at first
    ETCD_WORDS = ("--heartbeat-interval", "500", "--election-timeout", "5000")  # for such a distance

    def test_an_etcd_whose_commits_take_a_second_does_not_stop_the_log(self):
        links = [link for ways in self.etcd.peer_links for link in ways]
        for link in links:
            self.links.slow(link, self.DELAY)
        self.wait_entries(5)
        self.heal(links)
        self.wait_served()


if __name__ == "__main__":
    harness.main()
