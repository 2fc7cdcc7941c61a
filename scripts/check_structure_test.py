#!/usr/bin/env python3
"""Tests of check_structure.py: each rule on a small tree that breaks it and one that keeps it."""

import os
import tempfile
import unittest

from check_structure import Checker


def findings(files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as file:
                file.write(text if isinstance(text, bytes) else text.encode())
        return [f"{f.path}:{f.line}: {f.message}" + (" (warning)" if f.warning else "")
                for f in Checker(root, files).run()]


def messages(path, text, **more):
    """Findings of one source file that CMake knows, without those about other files."""
    files = {path: text, os.path.dirname(path) + "/CMakeLists.txt": os.path.basename(path)}
    files.update({name.replace("__", "/") + ".h": body for name, body in more.items()})
    return [f.split(": ", 1)[0].rsplit(":", 1)[1] + ": " + f.split(": ", 1)[1]
            for f in findings(files) if f.startswith(path + ":")]


class Arrows(unittest.TestCase):
    def test_lower_layers_may_be_used(self):
        code = '#include "core/x.h"\n#include "base/y.h"\n'
        self.assertEqual(messages("src/codec/a.cc", code), [])

    def test_higher_layer_is_refused(self):
        self.assertEqual(messages("src/core/a.cc", '\n#include "engine/x.h"\n'),
                         ["2: <engine/x.h> in the core",
                          "2: core must not use engine (engine/x.h)"])
        self.assertEqual(messages("src/journal/a.cc", '#include "core/x.h"\n'),
                         ["1: journal must not use core (core/x.h)"])

    def test_generated_code_counts_as_proto(self):
        include = "#include <holdfast/v1/locks.pb.h>\n"
        self.assertEqual(messages("src/client/a.cc", include), [])
        self.assertEqual(messages("src/engine/a.cc", include),
                         ["1: engine must not use proto (holdfast/v1/locks.pb.h)"])

    def test_tests_folder_may_include_everything(self):
        self.assertEqual(messages("tests/model/a.cc", '#include "server/x.h"\n'), [])

    def test_unknown_module(self):
        self.assertEqual(messages("src/misc/a.cc", ""),
                         ["1: module misc is not in the table of modules"])

    def test_include_without_module(self):
        files = {"src/base/a.h": "", "src/base/a.cc": '#include "a.h"\n#include "base/a.h"\n',
                 "src/base/CMakeLists.txt": "a.cc"}
        self.assertEqual(findings(files),
                         ['src/base/a.cc:1: write "base/a.h": includes start at src/'])

    def test_heavy_header_in_a_header(self):
        files = {"src/cli/a.h": "#include <CLI/CLI.hpp>\n", "src/cli/a.cc": '#include "cli/a.h"\n',
                 "src/cli/CMakeLists.txt": "a.cc"}
        self.assertEqual(findings(files),
                         ["src/cli/a.h:1: CLI/CLI.hpp is heavy: include it in a .cc only"])


class Core(unittest.TestCase):
    def test_banned_code(self):
        for code in ["std::chrono::steady_clock c;", "auto t = Clock::now();", "double ratio;",
                     "std::unordered_map<int, int> m;", "std::hash<int> h;", 'getenv("X");',
                     "std::mutex m;", "#include <thread>", "#include <fmt/core.h>",
                     '#include "base/log.h"', "int r = rand();"]:
            self.assertNotEqual(messages("src/core/a.cc", code + "\n"), [], code)
            self.assertEqual(messages("src/engine/a.cc", code + "\n"), [], code)

    def test_words_in_comments_and_strings_are_fine(self):
        self.assertEqual(messages("src/core/a.cc", '// no double here\nauto s = "float";\n'), [])

    def test_allowed_headers(self):
        code = ('#include <map>\n#include <absl/container/flat_hash_map.h>\n'
                '#include "absl/container/btree_map.h"\n#include "base/time.h"\n')
        self.assertEqual(messages("src/core/a.cc", code), [])

    def test_iteration_over_a_hashed_container(self):
        declare = "absl::flat_hash_map<int, std::pair<int, int>> table_;\n"
        what = "iteration over a hashed container in the core: its order differs between replicas"
        self.assertEqual(messages("src/core/a.cc", declare + "for (auto& [k, v] : table_) {}\n"),
                         [f"2: {what}"])
        self.assertEqual(messages("src/core/a.cc", declare + "auto i = x.table_.begin();\n"),
                         [f"2: {what}"])
        use = '#include "core/a.h"\nfor (auto& e : s.table_) {}\n'
        self.assertEqual(messages("src/core/a.cc", use, src__core__a=declare), [f"2: {what}"])
        alias = "using Table = absl::node_hash_set<int>;\nTable ids_;\n"
        self.assertEqual(messages("src/core/a.cc", alias + "for (int id : ids_) {}\n"),
                         [f"3: {what}"])

    def test_lookup_is_fine(self):
        declare = "absl::flat_hash_map<int, int> table_;\nstd::vector<int> list_;\n"
        code = "for (int x : list_) {}\nif (table_.find(1) != table_.end()) {}\n"
        self.assertEqual(messages("src/core/a.cc", declare + code), [])


class Sizes(unittest.TestCase):
    def test_files(self):
        self.assertEqual(messages("src/base/a.cc", "\n" * 600), [])
        self.assertEqual(messages("src/base/a.cc", "\n" * 601),
                         ["601: 601 lines, more than 600 (warning)"])
        self.assertEqual(messages("src/base/a.cc", "\n" * 701),
                         ["701: 701 lines, the limit is 700: this is two things"])
        self.assertEqual(messages("src/base/a_test.cc", "\n" * 900), [])
        self.assertNotEqual(messages("src/base/a_test.cc", "\n" * 901), [])

    def test_functions(self):
        def function(lines, head="int F(int a)"):
            return "namespace x {\nclass C {\n" + head + " {" + "\n" * (lines - 1) + "}\n};\n}\n"
        self.assertEqual(messages("src/base/a.cc", function(70)), [])
        self.assertEqual(messages("src/base/a.cc", function(71)),
                         ["3: a function of 71 lines, the limit is 70 (warning)"])
        self.assertEqual(messages("src/base/a.cc", function(91)),
                         ["3: a function of 91 lines, the limit is 70"])
        self.assertEqual(messages("src/base/a_test.cc", function(110)),
                         ["3: a function of 110 lines, the limit is 70 (warning)"])
        self.assertEqual(messages("src/base/a_test.cc", function(111)),
                         ["3: a function of 111 lines, the limit is 70"])
        constructor = function(91, "C(int a) : a_{a}, b_{}")
        self.assertEqual(messages("src/base/a.cc", constructor),
                         ["3: a function of 91 lines, the limit is 70"])
        self.assertEqual(messages("src/base/a.cc", "int F() { return 1; }\n" * 99), [])


class Habits(unittest.TestCase):
    def test_unfinished_work_and_tabs_and_paths(self):
        self.assertEqual(messages("src/base/a.cc", "// TO" "DO: later\n"),
                         ["1: unfinished work: finish it or file an issue"])
        self.assertEqual(messages("src/base/a.cc", "\n\tint a;\n"), ["2: a tab"])
        self.assertEqual(messages("src/base/a.cc", "// see /wo" "rk/x\n"),
                         ["1: a path of one machine"])
        self.assertEqual(messages("src/base/a.cc", "// see docs/work/x\n"), [])

    def test_sleeps_in_tests(self):
        for code in ["std::this_thread::sle" "ep_for(x);", "usle" "ep(1);"]:
            self.assertNotEqual(messages("src/base/a_test.cc", code + "\n"), [], code)
            self.assertNotEqual(messages("tests/e2e/a.cc", code + "\n"), [], code)
            self.assertEqual(messages("src/base/a.cc", code + "\n"), [], code)
        self.assertEqual(messages("tests/support/a.cc", "usle" "ep(1);\n"), [])

    def test_dead_files(self):
        files = {"src/base/CMakeLists.txt": "holdfast_module(base SOURCES a.cc)",
                 "src/proto/CMakeLists.txt": "holdfast/v1/a.proto",
                 "proto/holdfast/v1/a.proto": "", "proto/holdfast/v1/b.proto": "",
                 "src/base/a.cc": '#include "base/a.h"\n', "src/base/a.h": "",
                 "src/base/b.cc": "", "src/base/b.h": "", "data.bin": b"\xff\x00\t"}
        self.assertEqual(findings(files),
                         ["proto/holdfast/v1/b.proto:1: in no CMakeLists.txt: dead file",
                          "src/base/b.cc:1: in no CMakeLists.txt: dead file",
                          "src/base/b.h:1: included by nobody: dead file"])

    def test_packages(self):
        files = {"scripts/packages.txt": "# list\ng++\nlld\n",
                 "docs/DEPENDENCIES.md": "# D\n| `lld` | links |\n"}
        self.assertEqual(findings(files), ["scripts/packages.txt:1: docs/DEPENDENCIES.md gives no "
                                           "reason for g++"])

    def test_markdown(self):
        files = {"docs/A.md": "# A\n[b](B.md#x) [c](https://x.y) [d](D.md)\n```\n# code\n```\n",
                 "docs/B.md": "## no title\n"}
        self.assertEqual(findings(files), ["docs/A.md:2: broken link D.md",
                                           "docs/B.md:1: 0 titles of level 1, must be one"])


if __name__ == "__main__":
    unittest.main()
