#!/usr/bin/env python3
"""Comparisons of which the answer is known, on one machine in one session, and what gpuprof compare says of them.

    gates.py --gpuprof PROGRAM --device cuda --out FOLDER --seconds 160

Fresh processes of one workload are dealt to sides: several of the same work (A) and several of a known little more (B).
A round takes a process of every side in random order, the next takes them in the mirrored one; after six rounds every
side has the six processes that a verdict needs. Then each A is compared with each other A, of which none may be called
slower or faster, and each with each B, which has to be called slower. Comparisons share sides: they are not independent.

FOLDER/gates.json holds every process's figures from the first process on, and in the end every comparison and its verdict.
"""
import argparse
import collections
import datetime
import gzip
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

ROUNDS = 6          # processes a side, what a verdict needs
SAME, MORE = 7, 3   # sides: 21 comparisons of the same, 21 of more
COMPARE_S = 0.5     # at most, for a comparison

# More work of a known size: atoms of a perfect crystal, of which each has as many edges as any other. Everything that the
# device does in a step grows with them but the starts of its kernels.
WORK = {"preset": "mace-large", "knob": "batch", "same": 952, "more": 1000, "sets": [], "flags": ["--samples", "30", "--warmup", "30", "--max-time", "1800ms"]}
DRY = {"preset": "small", "knob": "batch", "same": 4, "more": 8, "sets": ["edges=40"], "flags": ["--samples", "10", "--warmup", "2"]}


def read_run(path):
    with gzip.open(path) as f:
        return json.load(f)


def figures(run):
    """What is kept of every process: medians of the step and of the stage that matters most, in seconds."""
    product = next((s["device"]["median"] for s in run["stages"] if s["name"] == "tensor_product" and s["parent"] == "step" and s.get("device")), None)
    return {"started": run["started"], "step_s": run["step"]["median"], "tensor_product_s": product}


def seconds(text):
    """Of a time as gpuprof writes it, with as many digits as it needs."""
    whole, _, part = text.rstrip("Z").partition(".")
    return datetime.datetime.strptime(whole + "+0000", "%Y-%m-%dT%H:%M:%S%z").timestamp() + float("0." + (part or "0"))


def merge(runs):
    """One run of several processes, as gpuprof run --runs makes it, of what a comparison reads."""
    out = json.loads(json.dumps(runs[0]))
    series = lambda s, others: s and s.update(runs=sum((o["runs"] for o in others if o), []))
    series(out["step"], [r["step"] for r in runs])
    for stage in out["stages"]:
        same = [s for r in runs for s in r["stages"] if (s["parent"], s["name"]) == (stage["parent"], stage["name"])]
        for kind in ("device", "host", "exposed"):
            series(stage.get(kind), [s.get(kind) for s in same])
    if out.get("throughput"):
        series(out["throughput"]["series"], [r["throughput"]["series"] for r in runs])
    out["order"], out["flags"], blocks = [], [], 0
    for r in runs:
        shift = seconds(r["started"]) - seconds(runs[0]["started"])
        out["order"] += [[block + blocks, side, start + shift] for block, side, start in r["order"]]
        out["flags"] += r["flags"]
        blocks = out["order"][-1][0] + 1 if out["order"] else 0
    bad = next((r for r in runs if r["status"] != "complete"), None)
    if bad:
        out["status"], out["reason"] = bad["status"], bad.get("reason", "")
    return out


class Gates:
    def __init__(self, args, work, same, more):
        self.args, self.work = args, work
        self.sides = {**{f"A{i + 1}": work["same"] for i in range(same)}, **{f"B{i + 1}": work["more"] for i in range(more)}}
        self.runs = {name: [] for name in self.sides}
        self.result = {
            "workload": "e3nn", "preset": work["preset"], "planted": work["more"] / work["same"] - 1,
            "sides": f"{work['knob']}={work['same']} (A) and {work['knob']}={work['more']} (B)", "command": " ".join(self.argv("A1", "FILE")[1:]), "compare": " ".join(self.compare_argv("OLD", "NEW")[1:]),
            "ended": False, "failed": [], "processes": {name: [] for name in self.sides}, "comparisons": [], "counts": {}}

    def argv(self, side, path):
        out = [self.args.gpuprof, "run", "e3nn", "--quiet", "--device", self.args.device, "--preset", self.work["preset"], "--no-energy", "--force",
               "--set", f"{self.work['knob']}={self.sides[side]}", *self.work["flags"], "-o", path]
        for s in self.work["sets"]:
            out += ["--set", s]
        return out

    def compare_argv(self, old, new):
        # The sides are of one session, process by process in turn: nothing between sessions is left to assume.
        return [self.args.gpuprof, "compare", old, new, "--quiet", "--session-spread", "0%", "--metric", "step", "--metric", "step/tensor_product", "--format", "json"]

    def write(self):
        aside = self.args.out / "gates.json.part"
        aside.write_text(json.dumps(self.result, indent=1) + "\n")
        os.replace(aside, self.args.out / "gates.json")

    def process(self, side, keep=True):
        path = self.args.out / "one.json.gz"
        path.unlink(missing_ok=True)
        p = subprocess.run(self.argv(side, str(path)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if not keep:
            pass
        elif p.returncode or not path.exists():
            self.result["failed"].append(f"{side}: exit code {p.returncode}: {p.stderr.strip()[-300:]}")
            print(self.result["failed"][-1], file=sys.stderr, flush=True)
        else:
            run = read_run(path)
            self.runs[side].append(run)
            self.result["processes"][side].append(figures(run))
        path.unlink(missing_ok=True)
        self.write()

    def measure(self, rng, end):
        """All rounds; sides that would not have theirs by the end are given up, whole comparisons are worth more."""
        # The first process of each work compares with the reference, which later ones need not, and has no time left to warm up.
        for side in ("A1", "B1"):
            self.process(side, keep=False)
        order = []
        for i in range(ROUNDS):
            order = [s for s in reversed(order) if s in self.sides] if i % 2 else rng.sample(sorted(self.sides), len(self.sides))
            took = []
            for side in order:
                began = time.monotonic()
                self.process(side)
                took.append(time.monotonic() - began)
            self.shed(ROUNDS - 1 - i, statistics.median(took), end)
            print(f"round {i + 1} of {ROUNDS}: {len(self.sides)} sides, {sum(took):.1f} s", file=sys.stderr, flush=True)

    def shed(self, rounds, each, end):
        while len(self.sides) > 3 and rounds * len(self.sides) * each + len(list(self.pairs())) * COMPARE_S > end - time.monotonic():
            more = [s for s in self.sides if s[0] == "B"]
            same = [s for s in self.sides if s[0] == "A"]
            del self.sides[more[-1] if len(more) > 1 and 2 * len(more) >= len(same) else same[-1]]

    def pairs(self):
        same = [s for s in self.sides if s[0] == "A"]
        return itertools.chain(itertools.combinations(same, 2), itertools.product(same, [s for s in self.sides if s[0] == "B"]))

    def compare(self):
        merged = {}
        for side in self.sides:
            if len(self.runs[side]) == ROUNDS:
                merged[side] = self.args.out / f"{side}.json.gz"
                with gzip.open(merged[side], "wt") as f:
                    json.dump(merge(self.runs[side]), f)
        for old, new in self.pairs():
            if old in merged and new in merged:
                self.result["comparisons"].append(self.judge(old, new, merged))
        self.result["counts"] = count(self.result["comparisons"])
        self.result["ended"] = True
        self.write()

    def judge(self, old, new, files):
        p = subprocess.run(self.compare_argv(str(files[old]), str(files[new])), capture_output=True, text=True)
        out = {"old": old, "new": new, "kind": "more" if new[0] == "B" else "same", "exit_code": p.returncode}
        try:
            doc = json.loads(p.stdout)
        except ValueError:
            self.result["failed"].append(f"{old} with {new}: exit code {p.returncode}: {p.stderr.strip()[-300:]}")
            return out
        for m in doc["metrics"]:
            out[m["name"]] = {k: m.get(k) for k in ("verdict", "ratio", "ci95", "reason")}
        out["first_cause"] = doc["causes"][0]["stage"] if doc.get("causes") else None
        return out


def count(comparisons):
    """How often each verdict was given, by what was compared and by metric."""
    out = {}
    for kind in ("same", "more"):
        of = [c for c in comparisons if c["kind"] == kind]
        out[kind] = {"comparisons": len(of), **{m: dict(collections.Counter(c.get(m, {}).get("verdict", "none") for c in of)) for m in ("step", "step/tensor_product")}}
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--gpuprof", required=True)
    ap.add_argument("--device", default="cuda")
    ap.add_argument("--out", type=pathlib.Path, required=True)
    ap.add_argument("--seconds", type=float, default=160, help="time for everything (160)")
    ap.add_argument("--seed", type=int, default=None, help="of the order of processes")
    ap.add_argument("--dry", action="store_true", help="tiny sizes and few sides: no figure means anything")
    args = ap.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 31)
    end = time.monotonic() + args.seconds
    gates = Gates(args, DRY if args.dry else WORK, *((2, 1) if args.dry else (SAME, MORE)))
    gates.result["seed"] = seed
    gates.measure(random.Random(seed), end)
    gates.compare()
    print(json.dumps(gates.result["counts"]))
    return 1 if gates.result["failed"] or not gates.result["comparisons"] else 0


if __name__ == "__main__":
    sys.exit(main())
