"""Reads console blocks of a documentation page: commands behind `$ `, and what they print.

A command goes on while its text ends inside of quotes, or in a line that is indented by 4 spaces.
What is printed is compared as JSON if it is JSON, else as text; `…` matches any text.
"""

import json
import re
import subprocess

MARK = "=== end of command"


def steps_of(page):
    """[(command, expected output)] of all blocks tagged `console`, in order."""
    steps = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.M | re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append([line[2:], []])
            elif line.startswith("    ") and not steps[-1][1]:
                steps[-1][0] += "\n" + line
            else:
                steps[-1][1].append(line)
    return [(command, "\n".join(lines).strip()) for command, lines in steps]


def run(steps, environment, timeout):
    """What each command printed and gave, in one shell."""
    script = []
    for command, _ in steps:
        script += [command, f'echo; echo "{MARK} $?"']
    done = subprocess.run(["bash", "-c", "\n".join(script)], env=environment, text=True, timeout=timeout,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    answers = re.findall(rf"(.*?)^{MARK} (\d+)\n", done.stdout, re.M | re.S)
    if len(answers) != len(steps):
        raise AssertionError(f"{len(answers)} of {len(steps)} commands ran:\n{done.stdout}")
    return [(out.strip(), int(code)) for out, code in answers]


def text_matches(expected, actual):
    pattern = ".+".join(re.escape(part) for part in expected.split("…"))
    return re.fullmatch(pattern, actual) is not None


def matches(expected, actual):
    if isinstance(expected, dict):
        return (isinstance(actual, dict) and expected.keys() == actual.keys() and
                all(matches(value, actual[key]) for key, value in expected.items()))
    if isinstance(expected, list):
        return (isinstance(actual, list) and len(expected) == len(actual) and
                all(map(matches, expected, actual)))
    if isinstance(expected, str):
        return isinstance(actual, str) and text_matches(expected, actual)
    return expected == actual


def value_of(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def output_matches(expected, actual):
    """All of it as one JSON value, or line by line, where a line may be `name: JSON`."""
    if (wanted := value_of(expected)) is not None:
        return matches(wanted, value_of(actual))
    lines = expected.splitlines(), actual.splitlines()
    return len(lines[0]) == len(lines[1]) and all(map(line_matches, *lines))


def line_matches(expected, actual):
    name, _, rest = expected.partition(": ")
    if (wanted := value_of(rest)) is not None and isinstance(wanted, dict):
        return actual.startswith(name + ": ") and matches(wanted, value_of(actual.partition(": ")[2]))
    return text_matches(expected, actual)
