"""Node programs of tests: their packages come from the registry that npm is set up for."""

import fcntl
import os
import re
import shutil
import subprocess
import unittest

import harness

OFFLINE = re.compile(r"\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|ECONNRESET)\b")


def install(folder):
    """A copy of `folder` beside the program with the packages of its package-lock.json. Its path.

    Packages that are there already are used again. Skips the test where no registry answers.
    """
    name = os.path.basename(folder)
    target = os.path.join(os.path.dirname(harness.BINARY), "node", name)
    os.makedirs(target, exist_ok=True)
    with open(os.path.join(target, ".guard"), "w", encoding="ascii") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        for file in os.listdir(folder):
            if os.path.isfile(os.path.join(folder, file)):
                shutil.copy(os.path.join(folder, file), target)
        with open(os.path.join(target, "package-lock.json"), encoding="utf-8") as file:
            wanted = file.read()
        stamp = os.path.join(target, "node_modules", ".installed")
        if not os.path.exists(stamp) or open_text(stamp) != wanted:
            npm_ci(target)
            with open(stamp, "w", encoding="utf-8") as file:
                file.write(wanted)
    return target


def open_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def npm_ci(folder):
    done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"],
                          cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
                          check=False)
    if done.returncode != 0:
        if OFFLINE.search(done.stdout):
            raise unittest.SkipTest("no npm registry answers")
        raise AssertionError(f"npm ci: exit {done.returncode}\n{done.stdout}")
