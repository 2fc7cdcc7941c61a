"""Who may do what: bearer tokens, roles, namespaces, TLS and client certificates."""

import subprocess

import harness

IDENTITIES = """
[[identity]]
name = "root"
role = "admin"
token_file = "{folder}/root.token"

[[identity]]
name = "worker"
role = "user"
token_file = "{folder}/worker.token"
namespaces = ["jobs"]
"""


class Access(harness.TestCase):
    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def tokens(self):
        for name in ("root", "worker", "stranger"):
            self.write(name + ".token", f"the-token-of-{name}-0123456789abcdef\n")
        return self.write("holdfast.toml", IDENTITIES.format(folder=self.folder))

    def as_(self, name):
        return {"HOLDFAST_TOKEN_FILE": self.path(name + ".token")}

    def test_bearer_tokens_and_roles(self):
        audit = self.path("audit.jsonl")
        holdfast = self.server("--config", self.tokens(), "--audit-log", audit)
        for env in ({}, self.as_("stranger")):
            answer = holdfast.run("status", "-o", "json", env=env)
            self.assert_error(answer, 77)
            self.assertEqual(answer.json["error"]["code"], "UNAUTHENTICATED")
        holdfast.json("namespace", "create", "jobs", env=self.as_("root"))
        worker = self.as_("worker")
        grant = holdfast.json("acquire", "a", "--namespace", "jobs", env=worker)
        self.assertEqual(holdfast.json("describe", "a", "--namespace", "jobs", env=worker)["holder"]["principal"],
                         "worker")
        denied = [("acquire", "a"), ("namespace", "create", "x"),
                  ("namespace", "set", "jobs", "--strict", "true"),
                  ("break", "a", "--reason", "r", "--namespace", "jobs")]
        for words in denied:
            with self.subTest(words=words):
                answer = holdfast.run(*words, "-o", "json", env=worker)
                self.assert_error(answer, 77)
                self.assertEqual(answer.json["error"]["code"], "PERMISSION_DENIED")
        # Whoever knows a lease id of somebody else may not use it.
        stolen = holdfast.run("release", "a", "--lease-id", grant["lease_id"], "--namespace", "jobs",
                              env=self.as_("stranger"))
        self.assertEqual(stolen.code, 77)
        with open(audit, encoding="utf-8") as file:
            text = harness.wait_until(lambda: (lines := file.read()) and "worker" in lines and lines, "audit")
        self.assertNotIn("the-token-of", text + holdfast.logged())

    def test_missing_token_file(self):
        answer = harness.run("status", "--token-file", self.path("none"), "-o", "json")
        self.assert_error(answer, 64, field="token_file")

    def openssl(self, *words):
        subprocess.run(["openssl", *words], check=True, capture_output=True)

    def certificate(self, name, subject, *extensions):
        """Signed by ca.pem, which is made with the first one."""
        ca, ca_key = self.path("ca.pem"), self.path("ca.key")
        if name == "ca":
            self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                         "-keyout", ca_key, "-out", ca, "-subj", subject, "-days", "2")
            return
        request = self.path(name + ".csr")
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                     self.path(name + ".key"), "-out", request, "-subj", subject)
        extension_file = self.write(name + ".ext", "\n".join(extensions))
        self.openssl("x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial",
                     "-out", self.path(name + ".pem"), "-days", "2", "-extfile", extension_file)

    def test_tls_and_client_certificates(self):
        if harness.shutil.which("openssl") is None:
            self.skipTest("there is no openssl to make certificates with")
        self.certificate("ca", "/CN=test ca")
        self.certificate("server", "/CN=server", "subjectAltName=IP:127.0.0.1")
        self.certificate("client", "/CN=worker-7", "extendedKeyUsage=clientAuth")
        holdfast = self.server("--set", "tls.cert=" + self.path("server.pem"), "--set",
                               "tls.key=" + self.path("server.key"), "--set",
                               "tls.client_ca=" + self.path("ca.pem"))
        mine = ("--ca", self.path("ca.pem"), "--cert", self.path("client.pem"), "--key",
                self.path("client.key"))
        holdfast.json("acquire", "a", *mine)
        holder = holdfast.json("describe", "a", *mine)["holder"]
        self.assertEqual(holder["principal"], "worker-7")
        quick = ("--timeout", "1s")
        self.assertEqual(holdfast.run("status", *quick).code, 69)  # no TLS
        self.assertEqual(holdfast.run("status", "--ca", self.path("ca.pem"), *quick).code, 69)
        self.assertEqual(holdfast.run("status", "--tls", *mine[2:], *quick).code, 69)  # unknown CA
        self.assertEqual(holdfast.run("namespace", "create", "x", *mine).code, 77)


if __name__ == "__main__":
    harness.main()
