#!/usr/bin/env python3
"""Runs the SQL of docs/WHEN_NOT_TO.md in a PostgreSQL of its own, and compares the answers.

In the blocks tagged `sql` each line is a statement, `-- => TEXT` behind it is the first line of the
answer, and the lines `-- A` and `-- B` say on which of two connections the next ones run. Each block begins on A.
"""

import contextlib
import glob
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile

PAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs/WHEN_NOT_TO.md")
DEADLINE_SECONDS = 60


def programs():
    found = glob.glob("/usr/lib/postgresql/*/bin")
    if not found:
        sys.exit("PostgreSQL is not installed: ./dev deps")
    return max(found, key=lambda path: int(path.split("/")[-2]))


def as_server_user():
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam("postgres")
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


@contextlib.contextmanager
def postgres():
    """A cluster that only listens to a socket in its folder."""
    folder = tempfile.mkdtemp(prefix="holdfast-pg-")
    prefix, bin_folder, data = as_server_user(), programs(), os.path.join(folder, "data")
    control = [*prefix, os.path.join(bin_folder, "pg_ctl"), "-D", data, "-w", "-t", str(DEADLINE_SECONDS)]
    try:
        if prefix:
            shutil.chown(folder, "postgres", "postgres")
        run([*prefix, os.path.join(bin_folder, "initdb"), "-D", data, "-U", "tester", "-A", "trust", "-N"], folder)
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        run([*control, "-l", os.path.join(folder, "log"), "-o", options, "start"], folder)
        try:
            yield folder
        finally:
            run([*control, "-m", "immediate", "stop"], folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(command, folder):
    # Not into a pipe: the server that pg_ctl leaves behind would keep it open.
    with open(os.path.join(folder, "out"), "w+b") as out:
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out,
                              stderr=subprocess.STDOUT, timeout=DEADLINE_SECONDS, check=False)
        out.seek(0)
        if done.returncode != 0:
            sys.exit(f"{command}: exit {done.returncode}\n{out.read().decode()}")


class Connection:
    END = "end-of-answer"

    def __init__(self, folder):
        self.psql = subprocess.Popen(
            ["psql", "-X", "-A", "-t", "-h", folder, "-U", "tester", "postgres"], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C"})

    def answer(self, statement):
        self.psql.stdin.write(f"{statement}\n\\echo {self.END}\n")
        self.psql.stdin.flush()
        lines = []
        for line in self.psql.stdout:
            if line.rstrip("\n") == self.END:
                return "\n".join(lines)
            lines.append(line.rstrip("\n"))
        raise SystemExit(f"psql ended: {lines}")

    def close(self):
        self.psql.stdin.close()
        self.psql.stdout.close()
        self.psql.wait()


def statements(page):
    """(connection, statement, expected answer) of all blocks, in order."""
    for block in re.findall(r"^```sql\n(.*?)^```$", page, re.M | re.S):
        name = "A"
        for line in block.splitlines():
            if line in ("-- A", "-- B"):
                name = line[-1]
            else:
                statement, arrow, expected = line.partition(" -- => ")
                if not arrow or not expected:
                    raise SystemExit(f"{PAGE}: no expected answer: {line}")
                yield name, statement, expected


def main():
    with open(PAGE, encoding="utf-8") as file:
        wanted = list(statements(file.read()))
    if len(wanted) < 30:
        sys.exit(f"{PAGE}: only {len(wanted)} statements")
    failed = 0
    with postgres() as folder, contextlib.ExitStack() as stack:
        connections = {name: stack.enter_context(contextlib.closing(Connection(folder))) for name in "AB"}
        for name, statement, expected in wanted:
            answer = connections[name].answer(statement)
            if answer.split("\n")[0] != expected:
                failed += 1
                print(f"{name}: {statement}\n  expected: {expected}\n  answer:   {answer}")
    print(f"{len(wanted)} statements, {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
