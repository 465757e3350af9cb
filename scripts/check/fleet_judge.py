#!/usr/bin/env python3
"""What gpuprof fleet must say of jobs that ran under a launcher: for scripts/check/fleet_launchers.sh.

    fleet_judge.py ranks JOB RANKS LAUNCHER NODES REPORT       all ranks are there, and rank 3 has the slowest step
    fleet_judge.py named JOB LAUNCHER SLOW EVEN                of the job whose rank 2 stands still, that rank is named first
    fleet_judge.py cost JOB LAUNCHER SLOW EVEN [SLOW EVEN…]    that, and the cost is right, over pairs of jobs with and without it
    fleet_judge.py --self-test

The cost of a rank is at least what the step is shorter without it, and at most 1.35 times that. Each pair gives one ratio of
the two; a 99 % interval of their geometric mean has to meet [1, 1.35]. An interval that is wide meets everything, so one
whose ends are more than 1.25 times apart decides nothing. Exit code 1: wrong; 3: it takes more pairs.
"""

import json
import math
import random
import statistics
import sys

LEAST, MOST = 1, 1.35
PAIRS = 5
WIDEST = 1.25  # so that a cost that is a fifth too small, or half as much again as allowed, is outside
# Student's t for 99 % in the middle, by degrees of freedom.
T99 = {4: 4.604, 5: 4.032, 6: 3.707, 7: 3.499, 8: 3.355, 9: 3.250, 10: 3.169, 11: 3.106, 12: 3.055, 13: 3.012, 14: 2.977}


def interval(ratios):
    logs = [math.log(r) for r in ratios]
    middle = statistics.mean(logs)
    half = T99[len(logs) - 1] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


def verdict(ratios):
    """"right", "wrong", or "open" where it takes more pairs."""
    if len(ratios) < PAIRS:
        return "open"
    _, low, high = interval(ratios)
    if high < LEAST or low > MOST:
        return "wrong"
    return "right" if high / low <= WIDEST else "open"


def read(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def first(report):
    named = report["waiting"]["stragglers"]
    return named[0] if named else {"ranks": [], "cost_s": 0, "cause": report["waiting"].get("unclaimed", "nothing is named")}


def ranks(job, count, launcher, nodes, path):
    r = read(path)
    slow = [m["slowest"][0]["rank"] for m in r["metrics"] if m["name"] == "step"]
    got = (r["world"], r["launcher"], len(r["nodes"]), len(r["missing_ranks"]), len(r["problems"]), slow)
    print(f"{job}: {got[0]} ranks by {got[1]} on {got[2]} nodes, {got[3]} missing, {got[4]} left out; slowest step: rank {slow}")
    return got == (int(count), launcher, int(nodes), 0, 0, [3])


def named(job, launcher, path, *_):
    r, s = read(path), first(read(path))
    print(f"{job}: {r['world']} ranks by {r['launcher']}; step {r['waiting']['step_s'] * 1e3:.1f} ms; named: rank {s['ranks']}, up to {s['cost_s'] * 1e3:.1f} ms; {s['cause']}")
    return r["launcher"] == launcher and r["exit_code"] == 0 and s["ranks"] == [2]


def cost(job, launcher, *paths):
    ok, ratios = True, []
    for slow, even in zip(paths[::2], paths[1::2]):
        ok = named(job, launcher, slow) and ok
        with_it, without = (read(p)["waiting"]["step_s"] for p in (slow, even))
        gain = with_it - without
        if gain <= 0:
            print(f"{job}: the step is not shorter without the slow rank ({without * 1e3:.1f} ms)")
            return 1
        ratios.append(first(read(slow))["cost_s"] / gain)
        print(f"{job}: without the slow rank {without * 1e3:.1f} ms; the cost is {ratios[-1]:.3f} times the gain")
    if not ok:
        return 1
    what = verdict(ratios)
    if len(ratios) >= PAIRS:
        middle, low, high = interval(ratios)
        print(f"{job}: over {len(ratios)} pairs {middle:.3f} times the gain (99 %: {low:.3f} to {high:.3f}): {what}")
    return {"right": 0, "wrong": 1, "open": 3}[what]


def self_test():
    """Costs of 1 and 1.03 times the gain are found right, and planted wrong ones wrong, with ratios that scatter by 5 %."""
    draw = random.Random(27)
    for factor, want in ((1, "right"), (1.03, "right"), (1.3, "right"), (0.5, "wrong"), (0.75, "wrong"), (2, "wrong"), (1.7, "wrong")):
        got = {"right": 0, "wrong": 0, "open": 0}
        for _ in range(400):
            ratios = [factor * math.exp(draw.gauss(0, 0.05)) for _ in range(PAIRS)]
            while verdict(ratios) == "open" and len(ratios) < 2 * PAIRS:
                ratios.append(factor * math.exp(draw.gauss(0, 0.05)))
            got[verdict(ratios)] += 1
        print(f"a cost of {factor} times the gain: {got}")
        # A ratio of exactly 1 is called wrong once in 200 by the interval itself.
        if got[want] < 0.98 * 400 or want == "wrong" and got["right"] > 0:
            return False
    noise = [math.exp(draw.gauss(0, 0.5)) for _ in range(2 * PAIRS)]
    print(f"ratios that scatter by half: {verdict(noise)}")
    return verdict(noise) == "open" and verdict([1, 1.01]) == "open"


def main():
    what, *rest = sys.argv[1:] or ["--help"]
    if what == "--self-test":
        return int(not self_test())
    if what == "cost":
        return cost(*rest)
    if what in ("ranks", "named"):
        return int(not {"ranks": ranks, "named": named}[what](*rest))
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())
