"""Renews leases over RESP as fast as it can, for the race of renewals with releases.

Usage: renewer.py ADDRESS. Each line of standard input is a JSON object of names and lease ids. All
are renewed in turns until each has been refused three times. The answers are a line `renewing` after the
first turn, and at the end for each name a list of [time of sending, outcome, cause], times of
CLOCK_BOOTTIME in seconds.
"""

import json
import sys
import time

from resp_test import Resp

REFUSALS = 3


def race(connection, leases):
    history = {name: [] for name in leases}
    left = dict.fromkeys(leases, REFUSALS)
    started = False
    while left:
        sent = []
        for name in left:
            sent.append((name, time.clock_gettime(time.CLOCK_BOOTTIME)))
            connection.send("HOLDFAST.RENEW", name, leases[name])
        for name, at in sent:
            reply = connection.reply()
            answer = dict(zip(reply[::2], reply[1::2]))
            history[name].append([at, answer["outcome"], answer.get("cause", "")])
            if answer["outcome"] != "RENEWED":
                left[name] -= 1
        left = {name: count for name, count in left.items() if count > 0}
        if not started:
            print("renewing", flush=True)
            started = True
    return history


def main():
    connection = Resp(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(race(connection, json.loads(line))), flush=True)


main()
