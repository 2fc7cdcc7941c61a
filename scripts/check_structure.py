#!/usr/bin/env python3
"""Checks what compilers do not: module arrows, purity of the core, sizes, dead files, habits.

Usage: check_structure.py [ROOT]. Reads the files that git tracks, prints `file:line: message`
and exits with 1 if any of them is an error. The rules are explained in docs/HACKING.md.
"""

import os
import re
import subprocess
import sys
from collections import namedtuple

Finding = namedtuple("Finding", "path line message warning")

# Who may include whom. `proto` is generated code; tests/ and bench/ may include everything.
BELOW_ENGINE = {"base", "core", "codec", "storage", "journal"}
ARROWS = {
    "base": set(),
    "core": {"base"},
    "codec": {"base", "core"},
    "storage": {"base"},
    "journal": {"base", "storage"},
    "etcd": {"base", "journal"},
    "proto": set(),
    "engine": BELOW_ENGINE,
    "server": BELOW_ENGINE | {"engine", "etcd", "proto"},
    "gateway": BELOW_ENGINE | {"engine", "server"},
    "region": BELOW_ENGINE | {"engine"},
    "client": {"base", "proto"},
    "bench": {"base", "proto"},
    **dict.fromkeys(("exec", "orders"), {"base", "client"}),
    **dict.fromkeys(("fence", "bucket"), {"base"}),
    "check": {"base", "core"},
    "agent": {"base", "client", "bucket"},
    "sim": BELOW_ENGINE | {"engine", "client", "check"},
}
ARROWS["cli"] = set(ARROWS) - {"orders", "sim"}

HEAVY_HEADERS = re.compile(r"^(grpc|grpcpp|CLI|toml\+\+|nlohmann|spdlog|boost)/|\.pb\.h$")
CORE_BANNED_HEADERS = set("random thread mutex shared_mutex atomic future condition_variable ctime "
                          "iostream fstream filesystem cstdlib cstdio".split())
CORE_BANNED = [
    (r"\b(system|steady|high_resolution)_clock\b", "a clock: state time comes with the batch"),
    (r"::now\s*\(", "a clock: state time comes with the batch"),
    (r"\b(rand|srand|random_device|mt19937\w*|getenv)\b", "an input that is not in the log"),
    (r"\b(float|double)\b", "floating point: results differ between machines"),
    (r"\b(std::hash\b|unordered_\w+)", "hashing that differs between machines"),
    (r"\bstd::(thread|mutex|atomic|cout|cerr)\b", "threads, locks or output"),
    (r"\b(LogInfo|LogWarning|LogError|LogDebug|spdlog)\b|\blog::\w+\s*\(", "logging"),
]
EVERYWHERE_BANNED = [
    (r"\b(TO" r"DO|FIX" r"ME)\b", "unfinished work: finish it or file an issue"),
    (r"\t", "a tab"),
    (r"(?<![\w.])/(work/|tmp/w\b|root/)", "a path of one machine"),
]
# tests/support holds the one polling helper with a deadline, which may pause between two looks.
SLEEPS = re.compile(
    r"\b(sleep_for|sleep_until|SleepFor|usleep|nanosleep)\b|\btime\.sleep\b|^\s*sleep\s")
LINES_WARN, LINES_ERROR, TEST_LINES_ERROR = 600, 700, 900
FUNCTION_WARN, FUNCTION_ERROR, TEST_FUNCTION_ERROR = 70, 90, 110
PACKAGES = "scripts/packages.txt"
HASHED = re.compile(r"absl::(?:flat|node)_hash_(?:map|set)\s*<")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.M)


def blank(text):
    """Replaces comments and literals by spaces, so that offsets and line numbers stay."""
    pattern = re.compile(
        r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'
        r"(?<!\w)'(?:\\.|[^'\\\n])*'", re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def include_name(path):
    """How others write it: installed headers of a module lie in src/MODULE/include/holdfast/."""
    return re.sub(r"^src/(\w+/include/)?", "", path)


def module_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def is_test(path):
    return path.startswith("tests/") or path.endswith(("_test.cc", "_test.py"))


class Checker:
    def __init__(self, root, paths):
        self.root = root
        self.findings = []
        self.texts = {}
        for path in sorted(paths):
            try:
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    self.texts[path] = file.read()
            except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
                continue  # binary fixtures, and files deleted but still in the index
        self.public = {include_name(p): module_of(p) for p in self.texts if "/include/" in p}
        self.code = {p: blank(t) for p, t in self.texts.items() if p.endswith((".h", ".cc"))}
        self.includes = {
            p: [(line_of(self.texts[p], m.start(1)), m.group(1))
                for m in INCLUDE.finditer(self.texts[p])] for p in self.code}

    def report(self, path, line, message, warning=False):
        self.findings.append(Finding(path, line, message, warning))

    def ban(self, path, text, rules, where=""):
        for match, what in ((m, w) for rule, w in rules for m in re.finditer(rule, text, re.M)):
            self.report(path, line_of(text, match.start()), f"{what}{where}")

    def run(self):
        for path, text in self.texts.items():
            self.ban(path, text, EVERYWHERE_BANNED)
            self.check_sizes(path, text)
            if is_test(path) and not path.startswith("tests/support/"):
                self.ban(path, text, [(SLEEPS.pattern, "a sleep in a test: poll with a deadline")])
            if path.endswith(".md"):
                self.check_markdown(path, text)
        for path, code in self.code.items():
            self.check_arrows(path)
            self.check_functions(path, code)
            if module_of(path) == "core" and not is_test(path):
                self.check_core(path, code)
        self.check_dead_files()
        self.check_packages()
        return sorted(self.findings)

    def check_sizes(self, path, text):
        lines = text.count("\n") if path.endswith((".h", ".cc", ".py", ".sh", ".proto")) else 0
        limit = TEST_LINES_ERROR if is_test(path) else LINES_ERROR
        if lines > limit:
            self.report(path, lines, f"{lines} lines, the limit is {limit}: this is two things")
        elif lines > LINES_WARN and not is_test(path):
            self.report(path, lines, f"{lines} lines, more than {LINES_WARN}", warning=True)

    def check_arrows(self, path):
        if (module := module_of(path)) is None:
            return
        if module not in ARROWS:
            self.report(path, 1, f"module {module} is not in the table of modules")
            return
        for line, target in self.includes[path]:
            used = self.public.get(target) or (
                "proto" if target.startswith("holdfast/") else target.split("/")[0])
            if used in ARROWS and used != module and used not in ARROWS[module]:
                self.report(path, line, f"{module} must not use {used} ({target})")
            if path.endswith(".h") and HEAVY_HEADERS.search(target):
                self.report(path, line, f"{target} is heavy: include it in a .cc only")
            if os.path.exists(os.path.join(self.root, os.path.dirname(path), target)):
                self.report(path, line, f"write \"{module}/{target}\": includes start at src/")

    def check_core(self, path, code):
        self.ban(path, code, CORE_BANNED, " in the core")
        for line, target in self.includes[path]:
            ours = (target.startswith(("base/", "core/", "absl/container/"))
                    or self.public.get(target) == "base")
            if ("/" in target and not ours) or target in CORE_BANNED_HEADERS | {"base/log.h"}:
                self.report(path, line, f"<{target}> in the core")
        hashed = self.hashed_names(code)
        for _, target in self.includes[path]:
            hashed |= self.hashed_names(self.code.get(f"src/{target}", ""))
        if hashed:
            name = rf"\b(?:{'|'.join(sorted(hashed))})"
            loop = rf"for\s*\([^;{{}}()]*[^:]:\s*[\w.>*()\[\]-]*{name}\s*\)"
            begin = rf"{name}\s*(?:\.|->)\s*c?begin\s*\("
            self.ban(path, code, [(f"{loop}|{begin}", "iteration over a hashed container")],
                     " in the core: its order differs between replicas")

    @staticmethod
    def hashed_names(code):
        """Variables declared with a hashed container type, directly or through an alias."""
        names, aliases = set(), set()
        for match in HASHED.finditer(code):
            depth, end = 1, match.end()
            while depth and end < len(code):
                depth += {"<": 1, ">": -1}.get(code[end], 0)
                end += 1
            aliases.update(re.findall(r"\busing\s+(\w+)\s*=\s*$", code[:match.start()]))
            names.update(re.findall(r"^[\s&*]*(\w+)", code[end:]))
        for alias in aliases:
            names.update(re.findall(rf"\b{alias}\b[\s&*]+(\w+)", code))
        return names - {"const"}

    def check_functions(self, path, code):
        """Brace counting: a function body is a block after `)` that lies in no other body."""
        code = re.sub(r"^\s*#.*(?:\\\n.*)*$", lambda m: re.sub(r"[^\n]", " ", m.group()), code,
                      flags=re.M)
        limit = TEST_FUNCTION_ERROR if is_test(path) else FUNCTION_ERROR
        bodies, start = [], 0  # one entry per open brace: None, or where its function begins
        for match in re.finditer(r"[{};]", code):
            head = code[start:match.start()]
            if match.group() == "{":
                signature = "(" in head and head.count("(") == head.count(")")
                after_initialisers = not head.strip() and code[start - 1:start] == "}"
                begin = start + len(head) - len(head.lstrip())
                opens = (signature or after_initialisers) and not any(b is not None for b in bodies)
                bodies.append(begin if opens else None)
            elif match.group() == "}" and bodies:
                if (begin := bodies.pop()) is not None:
                    line, last = line_of(code, begin), line_of(code, match.start())
                    length = last - line + 1
                    what = f"a function of {length} lines, the limit is {FUNCTION_WARN}"
                    if length > FUNCTION_WARN:
                        self.report(path, line, what, warning=length <= limit)
            start = match.end()

    def check_dead_files(self):
        built, protos = set(), set()  # protos are named below their import root, wherever that is
        for path, text in self.texts.items():
            if path.endswith("CMakeLists.txt"):
                for name in re.findall(r"[\w./+-]+\.(?:cc|proto)\b", text):
                    built.add(os.path.normpath(os.path.join(os.path.dirname(path), name)))
                    protos |= {name} if name.endswith(".proto") else set()
        included = {f"{root}{t}" for p, targets in self.includes.items() for _, t in targets
                    for root in ("src/", "", os.path.dirname(p) + "/") if p != f"{root}{t}"}
        for path in self.texts:
            proto = any(path.endswith("/" + name) for name in protos)
            if path.endswith((".cc", ".proto")) and path not in built and not proto:
                self.report(path, 1, "in no CMakeLists.txt: dead file")
            elif path.endswith(".h") and not {path, f"src/{include_name(path)}"} & included:
                self.report(path, 1, "included by nobody: dead file")

    def check_markdown(self, path, text):
        prose = re.sub(r"^(```|~~~).*?^\1", lambda m: "\n" * m.group().count("\n"), text,
                       flags=re.M | re.S)
        if (titles := len(re.findall(r"^# ", prose, re.M))) != 1:
            self.report(path, 1, f"{titles} titles of level 1, must be one")
        for match in re.finditer(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose):
            target = match.group(1)
            where = os.path.join(self.root, os.path.dirname(path), target)
            if not re.match(r"[a-z]+:", target) and not os.path.exists(where):
                self.report(path, line_of(prose, match.start()), f"broken link {target}")


    def check_packages(self):
        reasons = self.texts.get("docs/DEPENDENCIES.md", "")
        for package in re.findall(r"^[^#\s]+", self.texts.get(PACKAGES, ""), re.M):
            if f"`{package}`" not in reasons:
                self.report(PACKAGES, 1, f"docs/DEPENDENCIES.md gives no reason for {package}")


def main():
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ".")
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True)
    findings = Checker(root, listing.stdout.decode().split("\0")[:-1]).run()
    errors = [f for f in findings if not f.warning]
    for finding in findings:
        kind = "warning" if finding.warning else "error"
        print(f"{finding.path}:{finding.line}: {kind}: {finding.message}")
    print(f"structure: {len(errors)} errors, {len(findings) - len(errors)} warnings")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
