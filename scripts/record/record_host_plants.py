#!/usr/bin/env python3
"""Judges the host account: what gpuprof claims for a planted cause against what removing the cause gains.

usage: record_host_plants.py GPUPROF PYTHON FOLDER [CAUSE ...]

PYTHON has torch. Each cause of testdata/programs/host is recorded once, into FOLDER, and PAIRS blocks of its steps
with the cause and without it run in turns, not recorded. The gain is the median of the differences. A line for each
cause has the rule that names it, the sum of the claims that name it, and the ratio of two shares: of the claim in the
recorded program's step, or of a cause in some steps in the mean step after them, and of the gain in the step with the
cause. Shares stay when the machine's speed changes between the two. The gain of a loader is that of the printed
change. The gain in CPU time of the thread that makes the steps stands beside it: a line that computes claims that
time only, and on a busy machine its removal also saves the waits for a CPU, which starved-machine claims. A cause
whose recording and times are in FOLDER is only analysed again, with the rules of GPUPROF.
"""

import json
import os
import statistics
import subprocess
import sys

PAIRS = 6
HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "..", "..", "testdata", "programs", "host")
# By cause: the rule that may name it, and a text that the finding has.
PLANTED = {
    "sleep": ("outside-operators", "time.sleep"),
    "preprocess": ("outside-operators", "features"),
    "native": ("outside-operators", "zlib.compress"),
    "sorting": ("outside-operators", "in step"),
    "checkpoint": ("checkpoint-write", "torch.save"),
    "logging": ("logging", "self.log.info"),
    "printing": ("logging", "print("),
    "lock": ("outside-operators", "with self.lock"),
    "subprocess": ("outside-operators", "subprocess.run"),
    "getitem": ("dataloader-stall", ""),
    "epochs": ("dataloader-stall", "persistent_workers"),
    "float64": ("float64-parameters", ""),
    "foreach": ("optimizer-loop", ""),
    "anomaly": ("anomaly-mode", ""),
    "threads": ("too-many-threads", ""),
    "recompute": ("recomputation", ""),
    "starved": ("starved-machine", ""),
}
EVERYDAY = {
    "confusion": ("outside-operators", "in step"),
    "csv": ("dataloader-stall", ""),
    "tokens": ("dataloader-stall", "in collate"),
    "files": ("dataloader-stall", "in item"),
    "storage": ("dataloader-stall", "time.sleep"),
    "database": ("dataloader-stall", "execute"),
    "pickled": ("dataloader-stall", ""),
    "item": ("item", ".item()"),
    "json": ("outside-operators", "json.loads"),
    "collector": ("outside-operators", "gc.collect"),
    "interpreter": ("outside-operators", "interpreter lock"),
    "retry": ("outside-operators", "time.sleep"),
    "ranking": ("outside-operators", "in step"),
    "copies": ("outside-operators", "numpy"),
    "deepcopy": ("outside-operators", "deepcopy"),
    "regex": ("outside-operators", "re.compile"),
    "metric": ("outside-operators", "in step"),
    "command": ("outside-operators", "subprocess.check_output"),
    "digest": ("outside-operators", "hashlib"),
    "saving": ("checkpoint-write", "torch.save"),
    "progress": ("logging", "print("),
}
HEALTHY = ("plain", "mlp", "conv", "recurrent", "fed")
# Rules that claim no time of a cause: a healthy program may have them.
HINTS = ("host-operator",)


def command(python, cause, *more):
    file = "planted.py" if cause in PLANTED or cause == "plain" else "everyday.py"
    return [python, os.path.join(PROGRAMS, file), cause, *more]


def measure(gpuprof, python, cause, folder):
    """Record the cause, and measure what removing it gains."""
    # The starts of workers are a part of the step: a block has as many of them as the program.
    run = [gpuprof, "run", "--quiet", "-o", os.path.join(folder, "out"), "--"]
    subprocess.run(run + command(python, cause, "--steps", "400"), check=True, capture_output=True)
    if cause in HEALTHY:
        return
    pairs = command(python, cause, "--pairs", str(PAIRS), "--steps", "16")
    out = subprocess.run(pairs, check=True, capture_output=True, text=True).stdout
    with open(os.path.join(folder, "times.json"), "w", encoding="utf-8") as f:
        f.write(out.strip().splitlines()[-1])


def judge(gpuprof, cause, folder):
    """The line of a cause, from its recording and times."""
    run = [gpuprof, "analyze", "--format", "json", os.path.join(folder, "out")]
    analysis = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    findings, host = analysis["findings"], analysis.get("host") or {}
    claims = [(f["rule"], round(f.get("claim_step_ns", 0) / 1e6, 3)) for f in findings]
    if cause in HEALTHY:
        return {"cause": cause, "healthy": not [r for r, _ in claims if r not in HINTS], "findings": claims}
    rule, text = (PLANTED | EVERYDAY)[cause]
    named = [f for f in findings if rule in ("", f["rule"]) and text in f.get("title", "") + f.get("pytorch", "")]
    claim = sum(f.get("claim_step_ns", 0) + f.get("rare_step_ns", 0) for f in named) / 1e6
    with open(os.path.join(folder, "times.json"), encoding="utf-8") as f:
        times = json.load(f)
    gains = sorted(a - b for a, b in zip(times["with_ms"], times["without_ms"]))
    gain = statistics.median(gains)
    cpu = statistics.median(a - b for a, b in zip(times["with_cpu_ms"], times["without_cpu_ms"]))
    share = gain / statistics.median(times["with_ms"])
    step = min(v for v in (host.get("ns", 0), host.get("bare_ns", 0)) if v > 0) / 1e6
    claimed = sum(f.get("claim_step_ns", 0) / 1e6 / step + f.get("rare_share", 0) for f in named)
    return {"cause": cause, "named": bool(named), "findings": claims, "claim_ms": round(claim, 3), "gain_ms": round(gain, 3), "gain_cpu_ms": round(cpu, 3), "gains_ms": [round(gains[0], 3), round(gains[-1], 3)],
            "without_ms": round(statistics.median(times["without_ms"]), 3), "step_ms": round(step, 3), "ratio": round(claimed / share, 2) if gain > 0 and claim else None}


def main():
    gpuprof, python, work, *only = sys.argv[1:]
    for cause in only or [*PLANTED, *EVERYDAY, *HEALTHY]:
        folder = os.path.join(work, cause)
        if not os.path.exists(folder):
            measure(gpuprof, python, cause, folder)
        print(json.dumps(judge(gpuprof, cause, folder)), flush=True)


if __name__ == "__main__":
    main()
