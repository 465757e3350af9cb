#!/usr/bin/env python3
"""Stands in for the gpuprof program in tests: it writes its arguments to FAKE_LOG, and answers from a table.

FAKE_FOREIGN=1: it answers `version` as another project's program does. FAKE_VERDICT: the verdict of gate.
A trace whose name begins with "bad" is refused as gpuprof refuses one.
"""

import json
import os
import sys

ANALYSIS = {
    "kind": "analysis", "schema_version": "2.1.0", "step": {"count": 4, "ns": 1000000, "starved_ns": 250000, "queued_ns": 0, "classes": {"gemm": 700000, "copy": 50000}},
    "bound": {"text": "The program is bound by compute."}, "devices": [{"id": 0}], "warnings": [{"code": "few-steps", "message": "4 steps were recorded"}],
    "findings": [{"rule": "item", "severity": "high", "title": "reads <script>alert(1)</script> & waits", "claim_step_ns": 131000, "claim_share": 0.131,
                  "pytorch": "torch.stack(values).tolist()", "command": "gpuprof run -o NEW -- YOUR COMMAND", "sites": [{"where": "train.py(3): step"}]}],
}
MEMORY = {
    "kind": "memory", "schema_version": "1.2.0", "warnings": [],
    "devices": [{"id": 0, "peak": {"requested_bytes": 2097152, "sites": [{"where": "/home/u/train.py:3 in f", "bytes": 1048576, "category": "activation"}]}}],
    "findings": [{"rule": "fragmentation", "severity": "low", "title": "The allocator reserved more.", "claim_bytes": 1048576, "claim_share": 0.5, "pytorch": "X=1"}],
}


def names(path):
    with open(path, encoding="utf-8") as f:
        return [b["fullname"] for d in json.load(f) for b in d["benchmarks"]]


def gate(old, new):
    verdict = os.environ.get("FAKE_VERDICT", "same")
    metrics = []
    for name in dict.fromkeys(names(new)):
        m = {"name": name, "unit": "s", "old": 1.0, "new": 1.1, "ratio": 1.1, "ci95": [1.08, 1.12], "mde": 0.04, "verdict": verdict}
        if name not in names(old):
            m = {"name": name, "unit": "s", "old": None, "new": 1.1, "ratio": None, "ci95": [None, None], "mde": None, "verdict": "added"}
        metrics.append(m)
    return {"kind": "comparison", "verdict": verdict, "metrics": metrics}, {"regressed": 1, "inconclusive": 3}.get(verdict, 0)


def main():
    arguments = sys.argv[1:]
    if os.environ.get("FAKE_LOG"):
        with open(os.environ["FAKE_LOG"], "a", encoding="utf-8") as f:
            f.write(json.dumps(arguments) + "\n")
    verb, rest = arguments[0], [a for a in arguments[1:] if not a.startswith("-")]
    code = 0
    if verb == "version":
        if os.environ.get("FAKE_FOREIGN"):
            sys.exit("usage: gpuprof [-h] script")
        out = {"name": "gpuprof", "version": "0", "schemas": {"run": "1.8.0"}}
    elif verb == "analyze" and os.path.basename(rest[0]).startswith("bad"):
        print("gpuprof: a note", file=sys.stderr)
        print(json.dumps({"error": {"message": "reading trace %s: it ends early" % rest[0], "cause": "EOF", "fix": "record it again", "exit_code": 4}}), file=sys.stderr)
        sys.exit(4)
    elif verb == "analyze":
        out = MEMORY if rest[0].endswith(".pickle") else ANALYSIS
        if "trace-" in rest[0]:  # a recording of this process, which the command of a finding names
            ANALYSIS["findings"][0]["command"] += " " + os.path.basename(rest[0])
    elif verb == "compare":
        out, code = {"kind": "comparison", "verdict": "inconclusive", "metrics": [], "old": rest[0], "new": rest[1]}, 3
    elif verb == "gate":
        out, code = gate(rest[0], rest[1])
    elif verb == "report":
        given = json.load(sys.stdin)
        print("report of", given["kind"])
        sys.exit(0)
    print(json.dumps(out))
    sys.exit(code)


main()
