#!/usr/bin/env python3
"""Every test that docs/FAULTS.md names exists, and the page names every test of the faults files."""

import ast
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "FAULTS.md")
E2E = os.path.join(ROOT, "tests", "e2e")
NAME = re.compile(r"`(?:(\w+) )?(\w+)\.(\w+)`|`scenario ([\w-]+)`")
NAMES_MIN = 50


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def tests_of(file):
    """CLASS.test of a file of end-to-end tests."""
    return {f"{group.name}.{member.name}"
            for group in ast.parse(read(os.path.join(E2E, file))).body if isinstance(group, ast.ClassDef)
            for member in group.body
            if isinstance(member, ast.FunctionDef) and member.name.startswith("test_")}


def cpp_tests():
    found = set()
    for top in ("src", "tests"):
        for folder, _, files in os.walk(os.path.join(ROOT, top)):
            for name in files:
                if name.endswith("_test.cc"):
                    found.update(re.findall(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)",
                                            read(os.path.join(folder, name)), re.M))
    return {f"{suite}.{test}" for suite, test in found}


def shown_by(page):
    """The last cell of each row."""
    rows = [line.split("|") for line in page.splitlines() if line.startswith("|")]
    return [row[-2] for row in rows if row[-2].strip() not in ("shown by", "---")]


def main():
    errors, named, known_cpp = [], set(), cpp_tests()
    for cell in shown_by(read(PAGE)):
        found = list(NAME.finditer(cell))
        if not found or len(found) != cell.count("`") / 2:
            errors.append(f"not a list of tests:{cell}")
        for match in found:
            file, group, test, scenario = match.groups()
            named.add(match.group(0).strip("`"))
            if scenario:
                exists = os.path.isfile(os.path.join(ROOT, "tests", "scenario", scenario + ".txt"))
            elif file:
                path = f"{file}_test.py"
                exists = os.path.isfile(os.path.join(E2E, path)) and f"{group}.{test}" in tests_of(path)
            else:
                exists = f"{group}.{test}" in known_cpp
            if not exists:
                errors.append(f"there is no test {match.group(0)}")
    for file in ("faults", "faults_restart", "clock", "cluster_trim", "cluster_faults_etcd",
                 "cluster_faults_links", "cluster_faults_locks", "cluster_faults_nodes"):
        for test in sorted(tests_of(f"{file}_test.py")):
            if f"{file} {test}" not in named:
                errors.append(f"`{file} {test}` is not on the page")
    if len(named) < NAMES_MIN:
        errors.append(f"only {len(named)} tests are named")
    for error in errors:
        print(f"docs/FAULTS.md: {error}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
