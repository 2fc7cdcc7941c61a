"""Every field has limits, and an error names the field and what it takes. Nothing changes."""

import harness

LONG = "a" * 256
RESOURCE = "resource"


class BadInput(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder_of_all = harness.tempfile.mkdtemp(prefix="holdfast-e2e-")
        cls.addClassCleanup(harness.shutil.rmtree, cls.folder_of_all, ignore_errors=True)
        cls.holdfast = harness.Server(cls.folder_of_all + "/data", log=cls.folder_of_all + "/log")
        cls.addClassCleanup(harness.TestCase.end, cls.holdfast)

    def refused(self, *words, field=None, contains=None, code=64):
        answer = self.holdfast.run(*harness.with_options(words, "-o", "json"))
        self.assert_error(answer, code, field, contains)

    def test_text_is_one_line_on_standard_error(self):
        for words, field in ((("acquire", "BAD"), "resource"), (("acquire", "a", "--ttl", "30"), "ttl"),
                             (("namespace", "set", "default", "--ttl-max", "25h"), "ttl_max")):
            text = self.holdfast.run(*words)
            self.assertEqual((text.code, text.out), (64, ""), text)
            self.assertRegex(text.err, rf"^holdfast: [^\n]+ \(field={field}, limit=[^\n]+\)\n$")

    def test_resource_names(self):
        names = ["", "A", "a b", "-a", ".a", "/a", "a/", "a//b", "a/./b", "a/../b", "ä", "a\n", "a\t",
                 "a\x7f", "a\x1b[31m", "*", LONG]
        for name in names:
            with self.subTest(name=name[:20]):
                self.refused("acquire", "--", name, field=RESOURCE)
        for words in (("describe",), ("leader",), ("break", "--reason", "r"),
                      ("renew", "--lease-id", "1" * 32), ("release", "--lease-id", "1" * 32),
                      ("cancel", "--request-id", "r"), ("proclaim", "--lease-id", "1" * 32, "--value",
                                                           "v")):
            with self.subTest(verb=words[0]):
                self.refused(*words, "--", "A", field=RESOURCE)
        self.refused("check-token", "A", "1", field=RESOURCE)
        self.assertEqual(self.holdfast.run("describe", "a" * 255).code, 0)

    def test_ids(self):
        for lease in ("", "x", "0" * 32, "F" * 32, "f" * 31, "f" * 33, "g" * 32):
            with self.subTest(lease=lease):
                self.refused("renew", "a", "--lease-id", lease, field="lease_id")
        self.refused("release", "a", "--lease-id", "x", field="lease_id")
        self.refused("proclaim", "a", "--value", "v", "--lease-id", "x", field="lease_id")
        for session in ("x", "0" * 32, "g" * 32):
            with self.subTest(session=session):
                self.refused("acquire", "a", "--session", session, field="session_id")
        self.refused("session", "keepalive", "x", field="session_id")
        self.refused("session", "close", "x", field="session_id")
        for request in ("a b", "ä", "a\n", "r" * 65):
            with self.subTest(request=request):
                self.refused("acquire", "a", "--request-id", request, field="request_id")
        self.refused("cancel", "a", "--request-id", "a b", field="request_id")
        self.refused("session", "open", "--request-id", "a b", field="request_id")

    def test_unknown_and_expired_sessions(self):
        unknown = self.holdfast.json("acquire", "s", "--session", "1" * 32, code=76)
        self.assertEqual(unknown["outcome"], "SESSION_ENDED")
        self.assertIs(self.holdfast.json("session", "keepalive", "1" * 32, code=76)["alive"], False)
        session = self.holdfast.json("session", "open", "--ttl", "1s")["session_id"]
        harness.wait_until(
            lambda: self.holdfast.run("session", "describe", session).code == 76, "the end")
        expired = self.holdfast.json("acquire", "s", "--session", session, code=76)
        self.assertEqual(expired["outcome"], "SESSION_ENDED")
        self.refused("acquire", "s", "--session", session, "--ttl", "5s", contains="ttl")

    def test_times(self):
        for text in ("30", "0", "-1s", "1.5s", "1 s", "s", "", "5d", "1h30m", "9" * 30 + "s", "infinity"):
            with self.subTest(text=text):
                self.refused("acquire", "a", f"--ttl={text}", field="ttl")
        self.refused("acquire", "a", "--wait", "30", field="wait")
        unit = self.holdfast.run("acquire", "a", "--ttl", "30")
        self.assertIn('"30" has no unit: write 30s or 30ms', unit.err)
        for ttl in ("0s", "1ms", "999ms", "601s", "1000000h"):
            with self.subTest(ttl=ttl):
                self.refused("acquire", "a", "--ttl", ttl, field="ttl")
        self.refused("session", "open", "--ttl", "1ms", field="ttl")
        self.refused("acquire", "a", "--wait", "2h", field="wait")

    def test_texts(self):
        for owner in ("o" * 129, "a\nb", "\x07", "\x7f"):
            with self.subTest(owner=owner[:5]):
                self.refused("acquire", "a", "--owner", owner, field="owner")
        self.refused("session", "open", "--owner", "\x07", field="owner")
        self.refused("acquire", "a", "--metadata", "k=" + "v" * 1024, field="metadata")
        self.refused("acquire", "a", "--metadata", "=v", field="metadata")
        self.refused("acquire", "a", "--metadata", "novalue", field="metadata")
        many = [word for i in range(17) for word in ("--metadata", f"k{i}=v")]
        self.refused("acquire", "a", *many, field="metadata")
        self.refused("break", "a", "--reason", "", field="reason")
        self.refused("break", "a", "--reason", "r" * 257, field="reason")
        self.refused("proclaim", "a", "--lease-id", "1" * 32, "--value", "v" * 1025, field="value")

    def test_tokens(self):
        for token in ("-1", "x", "1.5", "", "99999999999999999999"):
            with self.subTest(token=token):
                self.refused("check-token", "a", token)
        self.refused("check-token", "a", str(2**53), field="fencing_token")

    def test_namespaces(self):
        for name in ("A", "a_b", "-a", "a" * 64, "ä", "a/b"):
            with self.subTest(name=name):
                self.refused("namespace", "create", "--", name, field="name")
        self.refused("namespace", "get", "A", field="name")
        self.refused("acquire", "a", "--namespace", "A", field="namespace")
        self.refused("acquire", "a", "--namespace", "nowhere", contains="nowhere")
        self.refused("describe", "a", "--namespace", "nowhere", contains="nowhere")
        self.assertEqual(
            self.holdfast.json("namespace", "set", "nowhere", "--strict", "true", code=64)["outcome"],
            "NAMESPACE_NOT_FOUND")
        for option, value in (("ttl-min", "1ms"), ("ttl-max", "25h"), ("ttl-default", "700s"),
                              ("wait-max", "25h"), ("lock-delay", "11m"), ("request-memory", "0s"),
                              ("detach-grace", "11m"), ("hold-max", "1000h")):
            with self.subTest(option=option):
                self.refused("namespace", "set", "default", f"--{option}", value,
                             field=option.replace("-", "_"))
        self.refused("namespace", "set", "default", "--holds-per-tenant", "0", field="holds_per_tenant")
        self.refused("namespace", "set", "default", "--waiters-per-resource", str(2**40),
                     field="waiters_per_resource")
        self.refused("namespace", "set", "default", "--protection", "none", field="protection")

    def test_words(self):
        self.refused("acquire")
        self.refused("acquire", "a", "b")
        self.refused("acquire", "a", "--no-such-option")
        self.refused("renew", "a")
        self.refused("break", "a")
        self.refused("list", "--limit", "x", field="limit")
        self.refused("status", "--timeout", "5", field="timeout")
        self.refused("status", "--endpoints", "nowhere", field="endpoints")
        answer = harness.run("acquir", "a")
        self.assertEqual(answer.code, 64)
        self.assertIn("did you mean acquire?", answer.err)
        self.assertEqual(harness.run().code, 64)
        self.assertEqual(harness.run("status", "-o", "xml").code, 64)

    def test_service_is_as_before(self):
        lease = self.holdfast.json("acquire", "sane")
        self.assertEqual(lease["outcome"], "GRANTED")
        self.holdfast.json("release", "sane", "--lease-id", lease["lease_id"])


if __name__ == "__main__":
    harness.main()
