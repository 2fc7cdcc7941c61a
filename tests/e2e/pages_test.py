"""docs/CLI.md against `--help` of every verb; docs/ERRORS.md and docs/RESP.md against code and .proto files."""

import os
import re
import unittest

import harness
import resp_test

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EVERYWHERE = {"0", "64", "69", "77"}  # exit codes that each verb may give; 70 is a defect
COMMON = {"--help", "--output"}


def text_of(path):
    with open(os.path.join(REPOSITORY, path), encoding="utf-8") as file:
        return file.read()


class Help:
    """What `holdfast VERB --help` says."""

    def __init__(self, path):
        answer = harness.run(*path, "--help")
        if answer.code != 0:
            raise AssertionError(answer)
        self.text = answer.out
        self.usage = re.search(r"^Usage: holdfast (.*)$", self.text, re.M).group(1)
        names = re.findall(r"^  ((?:-\w,)?--[a-z][a-z,-]*)", self.text, re.M)
        self.options = {name for group in names for name in group.split(",") if name.startswith("--")}
        self.positionals = self.usage.partition("[OPTIONS]")[2].strip()
        self.codes = set(re.findall(r"^  (\d+) +\S", self.text.partition("Exit codes:")[2], re.M))

    def below(self):
        """Names of verbs, if this is a group of them."""
        if not self.usage.endswith("SUBCOMMAND"):
            return []
        chapters = self.text.partition("\nOptions:")[2]
        return re.findall(r"^  ([a-z][a-z-]*)  +\S", chapters, re.M)


def all_verbs(path=()):
    found = Help(path)
    names = found.below()
    if not names:
        return {" ".join(path): found}
    return {verb: one for name in names for verb, one in all_verbs((*path, name)).items()}


def table(page, heading):
    """The rows of the first table behind a heading, without the two lines of its head."""
    section = re.split(r"^#", page.partition(f"\n{heading}\n")[2], maxsplit=1, flags=re.M)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    # A bar within code is written \|.
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def quoted(cell):
    return set(re.findall(r"`([^`]+)`", cell))


class CommandLine(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.verbs = all_verbs()
        cls.page = text_of("docs/CLI.md")
        cls.service = {option for option in Help(("status",)).options if option not in COMMON}

    def row_of(self, verb):
        found = self.verbs[verb]
        service = self.service <= found.options
        own = sorted(found.options - COMMON - (self.service if service else set()))
        call = f"{verb} {found.positionals}".strip()
        return [f"`{call}`", " ".join(f"`{name}`" for name in own), "yes" if service else "",
                ", ".join(sorted(found.codes - EVERYWHERE, key=int))]

    def test_the_table_of_verbs(self):
        wanted = [self.row_of(verb) for verb in self.verbs]
        found = table(self.page, "## Every verb")
        lines = ["| " + " | ".join(row) + " |" for row in wanted]
        self.assertEqual(sorted(found), sorted(wanted), "docs/CLI.md, Every verb, should be:\n" + "\n".join(lines))

    def test_the_codes_that_any_verb_may_give(self):
        for verb, found in self.verbs.items():
            self.assertLessEqual(EVERYWHERE, found.codes, verb)

    def test_the_table_of_exit_codes(self):
        rows = table(self.page, "## What all verbs have in common")
        described = {row[0] for row in rows if row[0].isdigit()}
        self.assertEqual(described, {code for found in self.verbs.values() for code in found.codes} | {"70"})

    def test_the_table_of_service_options(self):
        rows = table(self.page, "## What all verbs have in common")
        described = {name for row in rows for name in re.findall(r"--[a-z][a-z-]*", row[0])}
        self.assertEqual(described, self.service)
        help_text = Help(("status",)).text
        for row in rows:
            for variable in quoted(row[1]) if len(row) > 1 else ():
                if variable.startswith("HOLDFAST_"):
                    self.assertIn(f"(Env:{variable})", help_text)

    def test_each_synopsis(self):
        seen = 0
        for heading, synopsis in re.findall(r"^### (.+)\n\n`holdfast ([^`]+)`", self.page, re.M):
            if heading not in self.verbs:
                continue
            seen += 1
            named = set(re.findall(r"--[a-z][a-z-]*", synopsis))
            own = {name for name in self.row_of(heading)[1].replace("`", "").split()}
            self.assertEqual(named - self.service, own, heading)
        self.assertGreater(seen, 10)

    def test_no_page_names_an_option_that_is_not_there(self):
        known = {name for found in self.verbs.values() for name in found.options} | {"--version"}
        for page in ("docs/CLI.md", "docs/ERRORS.md", "docs/SEMANTICS.md"):
            unknown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text_of(page))) - known
            self.assertEqual(unknown, set(), page)


class Errors(unittest.TestCase):
    page = text_of("docs/ERRORS.md")
    locks = text_of("proto/holdfast/v1/locks.proto")
    types = text_of("proto/holdfast/v1/types.proto")

    def names_of(self, heading):
        return {name for row in table(self.page, heading) for name in quoted(row[0])}

    @staticmethod
    def enum(text, name):
        body = re.search(rf"enum {name} \{{(.*?)\}}", text, re.S).group(1)
        return {value for value in re.findall(r"^\s*(\w+) = \d+;", body, re.M) if "UNSPECIFIED" not in value}

    def test_error_codes(self):
        rows = {next(iter(quoted(row[0]))): row for row in table(self.page, "## Error codes")}
        names = set(re.findall(r'return "(\w+)";', text_of("src/base/result.cc")))
        self.assertEqual(set(rows), names)
        on_the_wire = self.enum(self.types, "Code")
        self.assertLessEqual(on_the_wire - {"FAILED_PRECONDITION"}, names)

    def test_refusals(self):
        wanted = {name.removeprefix("ACQUIRE_") for name in self.enum(self.locks, "RefusalCode")}
        self.assertEqual(self.names_of("## Refusals of acquire and campaign"), wanted)
        described = table(text_of("docs/CLI.md"), "### acquire")
        self.assertEqual({name for row in described for name in quoted(row[0])}, wanted | {"GRANTED"})

    def test_causes(self):
        self.assertEqual(self.names_of("## Causes"), self.enum(self.types, "Cause"))

    def test_exit_codes_of_errors(self):
        """An error of each kind that a command line can bring about has the exit code of the table."""
        rows = {next(iter(quoted(row[0]))): row[2] for row in table(self.page, "## Error codes")}
        for words, code in ((("acquire", "a", "--ttl", "30"), "INVALID_ARGUMENT"),
                            (("status", "--endpoints", "127.0.0.1:1", "--timeout", "500ms"), "UNAVAILABLE"),
                            (("journal", "verify", "/nowhere/at/all"), "NOT_FOUND")):
            answer = harness.run(*words, "-o", "json")
            self.assertEqual(answer.json["error"]["code"], code, answer)
            self.assertEqual(rows[code], str(answer.code), answer)


class RespPage(resp_test.RespTest):
    """docs/RESP.md against what the front says about itself."""

    page = text_of("docs/RESP.md")

    def described(self):
        """The arguments of each verb. `.CLOSE` behind `HOLDFAST.SESSION.OPEN` has the same beginning."""
        verbs = {}
        for names, arguments in table(self.page, "## Verbs"):
            first = re.search(r"`([\w.]+)`", names).group(1)
            for name in re.findall(r"`([\w.]+)`", names):
                verbs[first.rpartition(".")[0] + name if name.startswith(".") else name] = arguments
        return verbs

    def test_verbs(self):
        self.resp_server()
        one = self.connect()
        pushing = {"HOLDFAST.WATCH", "HOLDFAST.OBSERVE", "HOLDFAST.UNWATCH"}
        verbs = {entry[0].upper() for entry in one.call("COMMAND")}
        described = self.described()
        self.assertEqual(set(described), verbs | pushing)
        compared = 0
        for verb in verbs:
            usage = re.search(rf"usage: {re.escape(verb)} (.*?) \(field", str(one.call(verb)))
            if usage:
                compared += 1
                words = {word for word in re.findall(r"\b[A-Z]{3,}\b", usage.group(1))}
                self.assertEqual(set(re.findall(r"\b[A-Z]{3,}\b", described[verb])), words - {"NAMESPACE"}, verb)
        self.assertGreater(compared, 10)

    def test_error_codes(self):
        described = {name for row in table(self.page, "## Answers") for name in quoted(row[0]) if name.isupper()}
        replies = text_of("src/gateway/resp_replies.cc").partition("PrefixOf(ErrorCode code)")[2]
        codes = set(re.findall(r'return "([A-Z]+)";', replies.partition("\n}\n")[0]))
        for name in os.listdir(os.path.join(REPOSITORY, "src/gateway")):
            codes |= set(re.findall(r'Error\("([A-Z]+)"', text_of("src/gateway/" + name)))
        self.assertEqual(described, codes)


if __name__ == "__main__":
    harness.main()
