#!/usr/bin/env python3
"""Judges the host account: what gpuprof claims for a planted cause against what removing the cause gains.

usage: record_host_plants.py GPUPROF PYTHON [CAUSE ...]

PYTHON has torch. Each cause of testdata/programs/host/planted.py is recorded once. Then PAIRS pairs of the
program with the cause and without it run in turns (ABBA), not recorded; the gain is the median of the
differences of their mean steps. The table has the rule that names the cause, the claim and its ratio to the gain.
"""

import json
import os
import subprocess
import sys
import tempfile

PAIRS = 4
HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "..", "testdata", "programs", "host", "planted.py")
# By cause: rules that may name it, and a text that the finding has.
CAUSES = {
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


def mean(python, cause, *more):
    out = subprocess.run([python, PROGRAM, cause, *more], check=True, capture_output=True, text=True).stdout
    return json.loads(out.strip().splitlines()[-1])["mean_ms"]


def main():
    gpuprof, python, *only = sys.argv[1:]
    for cause in only or CAUSES:
        rule, text = CAUSES[cause]
        with tempfile.TemporaryDirectory() as work:
            folder = os.path.join(work, "out")
            subprocess.run([gpuprof, "run", "--quiet", "-o", folder, "--", python, PROGRAM, cause], check=True, capture_output=True)
            with open(os.path.join(folder, "analysis.json"), encoding="utf-8") as f:
                analysis = json.load(f)
        findings = analysis["findings"]
        named = [f for f in findings if f["rule"] == rule and text in f.get("title", "") + f.get("pytorch", "")]
        claim = sum(f.get("claim_step_ns", 0) for f in named[:1]) / 1e6
        gains = []
        for i in range(PAIRS):
            order = [(), ("--fixed",)] if i % 2 == 0 else [("--fixed",), ()]
            took = {more: mean(python, cause, *more) for more in order}
            gains.append(took[()] - took[("--fixed",)])
        gain = sorted(gains)[len(gains) // 2]
        first = findings[0]["rule"] if findings else "none"
        print(json.dumps({"cause": cause, "named": bool(named), "first": first, "claim_ms": round(claim, 3), "gain_ms": round(gain, 3), "gains_ms": [round(g, 3) for g in gains],
                          "ratio": round(claim / gain, 2) if gain > 0 and claim else None}), flush=True)


if __name__ == "__main__":
    main()
