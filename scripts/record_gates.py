"""Reads the gates of record_gates.sh: a line each, how much to slow down, the record."""

import glob
import json
import math
import os
import statistics
import sys
import time


def load(path):
    with open(path) as f:
        return json.load(f)


def metric(gate, name):
    return next((m for m in gate["metrics"] if m["name"] == name), None)


def log_medians(metric, side):
    """Log run medians of one side, of every stage of the gate that measured it."""
    sources = [metric.get("samples")] + [(metric.get(stage) or {}).get("samples") for stage in ("stage1", "stage2")]
    runs = [run for s in sources if s for run in s[side] or []]
    return [math.log(statistics.median(run)) for run in runs if run]


def spread(gates):
    """Standard deviation between processes of one job, pooled over jobs and sides."""
    squares, freedom = 0.0, 0
    for gate in gates:
        for side in ("old", "new"):
            logs = log_medians(metric(gate, "step"), side)
            if len(logs) > 1:
                squares += statistics.variance(logs) * (len(logs) - 1)
                freedom += len(logs) - 1
    return math.sqrt(squares / freedom) if freedom else 0.0


def between(gates):
    """Standard deviation between jobs, of the old side's median."""
    centres = [statistics.median(log_medians(metric(g, "step"), "old")) for g in gates]
    return statistics.stdev(centres) if len(centres) > 1 else None


def share(gates, stage):
    """The stage's part of the step."""
    parts = []
    for gate in gates:
        whole, part = metric(gate, "step"), metric(gate, "step/" + stage)
        if part is None:
            sys.exit(f"record_gates: the workload has no stage {stage}; set STAGE and KERNEL")
        parts.append(part["old"] / whole["old"])
    return statistics.median(parts)


def named(gate, stage):
    """Whether the gate names the stage: its interval lies above 1, and it is the first cause."""
    m = metric(gate, "step/" + stage)
    return bool(m and m["ci95"][0] is not None and m["ci95"][0] > 1 and gate["causes"] and gate["causes"][0]["stage"] == stage)


def seconds(path):
    """How long the gate of a file took, None where that was not kept."""
    try:
        with open(os.path.splitext(path)[0] + ".seconds") as f:
            return float(f.read())
    except OSError:
        return None


def taken(paths):
    """Median and longest seconds of gates."""
    known = [s for s in map(seconds, paths) if s is not None]
    return {"median": statistics.median(known), "longest": max(known)} if known else None


def line(label, stage, path):
    gate = load(path)
    step = metric(gate, "step")
    lo, hi = step["ci95"]
    interval = f"{lo:.3f} to {hi:.3f}" if lo is not None else "unknown"
    worst = [m["name"] for m in gate["metrics"] if m["verdict"] in ("regressed", "inconclusive")]
    cause = gate["causes"][0]["stage"] if gate["causes"] else "none"
    print(f"{label}: {gate['verdict']}, exit {gate['exit_code']}, stages {gate.get('gate_stages')}, "
          f"{len(gate['order']) // 2} pairs, {seconds(path) or 0:.0f} s, step x{step['ratio']:.3f} ({interval}), first cause {cause}, not passed: {', '.join(worst) or 'none'}", flush=True)


def plant(stage, size, paths):
    gates = [load(p) for p in paths]
    size = max(3 * spread(gates), 0.05) if size == "spread" else float(size)
    print(f"{size:.4f} {size / share(gates, stage):.4f}")


def machine():
    model = ""
    try:
        with open("/proc/cpuinfo") as f:
            model = next((l.split(":", 1)[1].strip() for l in f if l.startswith("model name")), "")
    except OSError:
        pass
    return f"{model or os.uname().machine}, {os.cpu_count()} CPUs, {os.uname().sysname} {os.uname().release}"


def verdicts(gates):
    out = {}
    for g in gates:
        out[g["verdict"]] = out.get(g["verdict"], 0) + 1
    return out


def record(stage, kernel, by, commit, minutes, command, setting, scratch, out):
    paths = [sorted(glob.glob(f"{scratch}/{name}-*.json")) for name in ("unchanged", "slowed")]
    same, slow = ([load(p) for p in of] for of in paths)
    size, kernel_share = (float(v) for v in by.split())
    ratios = lambda gates: [metric(g, "step")["ratio"] for g in gates]
    r = {
        "machine": machine(), "date": time.strftime("%Y-%m-%d"), "commit": commit, "command": command, "setting": setting, "minutes": int(minutes),
        "workload": same[0].get("workload"), "preset": same[0].get("preset"),
        "spread_between_processes": spread(same), "spread_between_gates": between(same),
        "unchanged": {"gates": len(same), "failed": sum(g["exit_code"] == 1 for g in same), "inconclusive": sum(g["exit_code"] == 3 for g in same), "seconds": taken(paths[0]), "verdicts": verdicts(same), "step_ratios": ratios(same)},
    }
    if slow:
        r["slowed"] = {
            "gates": len(slow), "stage": stage, "kernel": kernel, "planted_share_of_step": size, "planted_share_of_kernel": kernel_share,
            "found": sum(g["exit_code"] == 1 for g in slow), "found_and_named": sum(g["exit_code"] == 1 and named(g, stage) for g in slow),
            "inconclusive": sum(g["exit_code"] == 3 for g in slow), "seconds": taken(paths[1]), "verdicts": verdicts(slow), "step_ratios": ratios(slow),
        }
    with open(out + ".json", "w") as f:
        json.dump(r, f, indent=1)
        f.write("\n")
    apart = r["spread_between_gates"]
    between_text = "unknown from one" if apart is None else f"{100 * apart:.2f} %"
    lasting = lambda s: "" if s is None else f" A gate took {s['median']:.0f} s in the median, at most {s['longest']:.0f} s."
    spell = lambda v: ", ".join(f"{n} {k}" for k, n in sorted(v.items()))
    text = [
        "# Gates on a real machine", "",
        f"{r['machine']}; {r['date']}; commit {commit}; `{setting} {command}`, {minutes} minutes. Workload {r['workload']}, preset {r['preset']}, host device.", "",
        f"- Spread between processes of one job: {100 * r['spread_between_processes']:.2f} % (standard deviation of the step's median). Between gates: {between_text}.",
        f"- Unchanged: {r['unchanged']['failed']} of {len(same)} gates failed ({spell(r['unchanged']['verdicts'])}). Step ratios {min(ratios(same)):.3f} to {max(ratios(same)):.3f}.{lasting(r['unchanged']['seconds'])}",
    ]
    if slow:
        s = r["slowed"]
        text.append(f"- Slowed: kernel {kernel} of stage {stage} by {100 * kernel_share:.1f} %, planned as {100 * size:.1f} % of the step: {s['found']} of {len(slow)} gates found it, "
                    f"{s['found_and_named']} of them with the stage shown to be slower and named as first cause ({spell(s['verdicts'])}). Step ratios {min(ratios(slow)):.3f} to {max(ratios(slow)):.3f}.{lasting(s['seconds'])}")
    with open(out + ".md", "w") as f:
        f.write("\n".join(text) + "\n")
    print("\n".join(text[2:]))
    print(f"wrote {out}.md and {out}.json")


if __name__ == "__main__":
    verb, args = sys.argv[1], sys.argv[2:]
    {"line": line, "plant": lambda s, size, *p: plant(s, size, p), "record": record}[verb](*args)
