#!/usr/bin/env python3
"""Runs clang-tidy on every tracked source file, and only on what changed since it last passed.

A file that passed leaves a stamp in build/tidy-cache. Its name is a hash of the file, of
everything of ours that it includes, of .clang-tidy and of the compile command.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
import time

CACHE = os.path.join("build", "tidy-cache")
# The static analyzer and the bugprone checks walk all of a big header too, and cost 10 to 40 s for
# each file that includes one. Logic lives in files that do not; these get the quick checks.
HEAVY = re.compile(rb'^\s*#\s*include\s*[<"](grpc|CLI/|toml|nlohmann|spdlog|benchmark/|'
                   rb'[^">]*\.pb\.h)', re.M)
NOT_IN_HEAVY_FILES = "-clang-analyzer-*,-bugprone-*,bugprone-use-after-move"
NOT_IN_TESTS = NOT_IN_HEAVY_FILES + ",-cppcoreguidelines-*,-performance-*"
INCLUDE = re.compile(rb'^\s*#\s*include\s*[<"]([^">]+)[">]', re.M)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def closure(path, seen):
    """The file and all files of the repository that it includes, directly or not."""
    if path in seen or not os.path.isfile(path):
        return seen
    seen.add(path)
    for target in INCLUDE.findall(read(path)):
        for root in ("src", "."):
            closure(os.path.normpath(os.path.join(root, target.decode())), seen)
    return seen


def stamp_of(path, members, command):
    digest = hashlib.sha256(read(".clang-tidy") + path.encode() + command.encode())
    for member in sorted(members):
        digest.update(member.encode() + b"\0" + hashlib.sha256(read(member)).digest())
    return os.path.join(CACHE, digest.hexdigest()[:32])


def checks_for(path, members):
    if path.startswith("tests/") or path.endswith("_test.cc"):
        return ["--checks=" + NOT_IN_TESTS]
    if any(HEAVY.search(read(member)) for member in members):
        return ["--checks=" + NOT_IN_HEAVY_FILES]
    return []


def check(path, members, build):
    begin = time.monotonic()
    command = ["clang-tidy", "-p", build, "--quiet", *checks_for(path, members), path]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    findings = result.stdout if result.stdout.strip() else result.stderr
    return result.returncode == 0, findings, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/dev", help="folder of compile_commands.json")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("files", nargs="*", help="only these (default: every tracked source)")
    options = parser.parse_args()

    tracked = subprocess.run(["git", "ls-files", "*.cc"], check=True, capture_output=True,
                             text=True).stdout.split()
    wanted = set(options.files or tracked)
    work = {}
    for entry in json.loads(read(os.path.join(options.build, "compile_commands.json"))):
        path = os.path.relpath(os.path.join(entry["directory"], entry["file"]))
        if path in wanted:
            members = closure(path, set())
            stamp = stamp_of(path, members, entry["command"].replace(os.getcwd(), ""))
            if not os.path.exists(stamp):
                work[path] = (members, stamp)
    print(f"clang-tidy: {len(work)} of {len(wanted)} files to check", flush=True)

    os.makedirs(CACHE, exist_ok=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(check, path, work[path][0], options.build): path
                   for path in sorted(work)}
        for done, future in enumerate(concurrent.futures.as_completed(running), 1):
            path = running[future]
            passed, findings, seconds = future.result()
            print(f"[{done}/{len(work)}] {path} {seconds:.1f} s", flush=True)
            if passed:
                open(work[path][1], "w", encoding="utf-8").close()
            else:
                failed += 1
                print(findings, flush=True)
    if failed:
        print(f"clang-tidy: {failed} files failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
