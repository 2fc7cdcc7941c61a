#!/usr/bin/env python3
"""Runs what README.md tells a newcomer to type. Usage: readme_test.py HOLDFAST

`./dev` lines in any fenced block are looked up in `./dev help`, and `./dev demo` runs as
`HOLDFAST demo`, since installing and building would repeat what happened before this test.

The blocks tagged `sh` of the section "Quick start" run in order in one shell, with `holdfast` on
the path, a server on a port and a data folder of this test, and these rules:
- a line `holdfast server ...` only says where the server is: this test has started it already;
- a command must exit with 0, or with the number that its comment names: `# exit 75`.
"""

import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time

DEADLINE_SECONDS = 60


def commands_in(text, tag):
    """The lines of the fenced blocks whose tag matches, with continued lines joined."""
    blocks = re.findall(rf"^```{tag}\n(.*?)^```$", text, re.M | re.S)
    return [line.strip() for line in "".join(blocks).replace("\\\n", " ").splitlines()
            if line.strip() and not line.startswith("#")]


def free_address():
    while True:
        port = random.randint(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return f"127.0.0.1:{port}"
            except OSError:
                continue


def check_door_commands(lines, binary):
    described = subprocess.run(["./dev", "help"], check=True, capture_output=True, text=True).stdout
    for line in lines:
        command = shlex.split(line, comments=True)[1]
        if not re.search(rf"^  {re.escape(command)}\b", described, re.M):
            sys.exit(f"README: `{line}`: ./dev help knows no {command}")
        if command == "demo":
            print(f"$ {line}", flush=True)
            subprocess.run([binary, "demo"], check=True, timeout=240)


def script_of(lines):
    script = ["set -u"]
    for line in lines:
        exit_code = re.search(r"#.*\bexit (\d+)\b", line)
        expected = exit_code.group(1) if exit_code else "0"
        script += [f"echo {shlex.quote('$ ' + line)}", line, "code=$?",
                   f'if [ "$code" != {expected} ]; then '
                   f'echo "README: exited with $code, not {expected}"; exit 1; fi']
    return "\n".join(script)


def wait_until_ready(server, binary, environment):
    deadline = time.monotonic() + DEADLINE_SECONDS
    while subprocess.run([binary, "status"], env=environment, check=False,
                         capture_output=True).returncode != 0:
        try:
            sys.exit(f"the server ended with {server.wait(timeout=0.1)}")
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                sys.exit("the server is not ready")


def run_block(lines, binary, scratch):
    address = free_address()
    server_lines = [shlex.split(line.rstrip("& "), comments=True)
                    for line in lines if line.startswith("holdfast server")]
    commands = script_of([line for line in lines if not line.startswith("holdfast server")])
    for arguments in server_lines:
        if "--listen" in arguments:
            commands = commands.replace(arguments[arguments.index("--listen") + 1], address)
    os.symlink(binary, os.path.join(scratch, "holdfast"))
    environment = dict(os.environ, HOLDFAST_ENDPOINTS=address,
                       PATH=scratch + os.pathsep + os.environ["PATH"])
    with subprocess.Popen([binary, "server", "--data-dir", os.path.join(scratch, "data"),
                           "--listen", address]) as server:
        try:
            wait_until_ready(server, binary, environment)
            if subprocess.run(["bash", "-c", commands], env=environment, check=False,
                              timeout=DEADLINE_SECONDS).returncode != 0:
                sys.exit("a command of the README failed")
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=DEADLINE_SECONDS)


def main():
    binary = os.path.abspath(sys.argv[1])
    with open("README.md", encoding="utf-8") as file:
        readme = file.read()
    section = re.search(r"^## Quick start\n(.*?)(?=^## |\Z)", readme, re.M | re.S)
    door = [line for line in commands_in(readme, r"\w*") if line.startswith("./dev")]
    commands = commands_in(section.group(1) if section else "", "sh")
    if not door or not commands:
        sys.exit("README: it must show ./dev commands, and holdfast commands under Quick start")
    check_door_commands(door, binary)
    with tempfile.TemporaryDirectory() as scratch:
        run_block(commands, binary, scratch)


if __name__ == "__main__":
    main()
