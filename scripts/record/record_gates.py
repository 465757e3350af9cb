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


def seconds(path):
    """How long a gate took."""
    with open(path.removesuffix(".json") + ".seconds") as f:
        return int(f.read())


def metric(gate, name):
    return next((m for m in gate["metrics"] if m["name"] == name), None)


def pairs(metric):
    """Samples of the old and the new process of every pair, of every stage of the gate that measured the metric."""
    out = []
    for source in [metric.get("samples")] + [(metric.get(stage) or {}).get("samples") for stage in ("stage1", "stage2")]:
        if source:
            out += [pair for pair in zip(source["old"] or [], source["new"] or []) if all(pair) and pair not in out]
    return out


def turn_by_turn(pair):
    """A pair's log ratio: the median of its turns' where both processes took as many, else of the processes' medians."""
    old, new = pair
    if len(old) == len(new):
        return statistics.median(math.log(b / a) for a, b in zip(old, new))
    return math.log(statistics.median(new) / statistics.median(old))


def pooled(groups):
    """Standard deviation within groups."""
    squares, freedom = 0.0, 0
    for values in groups:
        if len(values) > 1:
            squares += statistics.variance(values) * (len(values) - 1)
            freedom += len(values) - 1
    return math.sqrt(squares / freedom) if freedom else 0.0


def spread_of_pairs(gates):
    """Between the pairs of a gate: what a verdict rests on."""
    return pooled([[turn_by_turn(p) for p in pairs(metric(g, "step"))] for g in gates])


def spread_of_processes(gates):
    """Between processes of one side of a gate, each by its median alone: what pairing takes away."""
    return pooled([[math.log(statistics.median(p[side])) for p in pairs(metric(g, "step"))] for g in gates for side in (0, 1)])


def named(gate, stage):
    """Whether the gate failed and names the stage: its interval lies above 1, and it is the first cause."""
    m = metric(gate, "step/" + stage)
    return bool(gate["exit_code"] == 1 and m and m["ci95"][0] is not None and m["ci95"][0] > 1 and gate["causes"] and gate["causes"][0]["stage"] == stage)


def percent(x):
    return f"{100 * x:.2f} %"


def line(label, stage, path):
    gate = load(path)
    step = metric(gate, "step")
    lo, hi = step["ci95"]
    interval = f"{lo:.3f} to {hi:.3f}" if lo is not None else "unknown"
    worst = [m["name"] for m in gate["metrics"] if m["verdict"] in ("regressed", "inconclusive")]
    cause = gate["causes"][0]["stage"] if gate["causes"] else "none"
    print(f"{label}: {gate['verdict']}, exit {gate['exit_code']}, {seconds(path)} s, stages {gate.get('gate_stages')}, {len(pairs(step))} pairs that spread by {percent(spread_of_pairs([gate]))}, "
          f"step x{step['ratio']:.3f} ({interval}), first cause {cause}, not passed: {', '.join(worst) or 'none'}", flush=True)


def plant(stage, size, path):
    """By which share the stage's kernel has to take longer for the step to take size longer."""
    whole, part = metric(load(path), "step"), metric(load(path), "step/" + stage)
    if part is None:
        sys.exit(f"record_gates: the workload has no stage {stage}; set STAGE and KERNEL")
    print(f"{float(size) * whole['old'] / part['old']:.4f}")


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


def times(paths):
    took = [seconds(p) for p in paths]
    return {"median": statistics.median(took), "max": max(took), "all": took}


def about(paths):
    """What is recorded of both kinds of gates."""
    gates = [load(p) for p in paths]
    return {
        "gates": len(gates), "failed": sum(g["exit_code"] == 1 for g in gates), "verdicts": verdicts(gates), "seconds": times(paths),
        "step_ratios": [metric(g, "step")["ratio"] for g in gates], "spread_between_pairs": spread_of_pairs(gates),
        "spread_between_processes": spread_of_processes(gates),
        "in_turn": not any(w["code"] == "no-turns" for g in gates for w in g["warnings"]),
    }


def spell(kind):
    ratios, took = kind["step_ratios"], kind["seconds"]
    return (f"{', '.join(f'{n} {k}' for k, n in sorted(kind['verdicts'].items()))}. Step ratios {min(ratios):.3f} to {max(ratios):.3f}; pairs of processes of a gate spread by {percent(kind['spread_between_pairs'])} "
            f"turn by turn, processes of one side by {percent(kind['spread_between_processes'])} (standard deviations). A gate took {took['median']:.0f} s in the median, {took['max']} s at most.")


def record(stage, kernel, share, commit, command, setting, budget, scratch, out):
    kinds = {}
    for kind in ("unchanged", "slowed"):
        paths = sorted(glob.glob(f"{scratch}/{kind}-*.json"), key=lambda p: int(p.rsplit("-", 1)[1].split(".")[0]))
        if paths:
            kinds[kind] = about(paths)
            first = load(paths[0])
            if kind == "slowed":
                with open(f"{scratch}/by") as f:
                    by = float(f.read())
                kinds[kind] |= {"stage": stage, "kernel": kernel, "planted_share_of_step": float(share), "planted_share_of_kernel": by,
                                "found_and_named": sum(named(load(p), stage) for p in paths)}
    minutes = math.ceil(sum(sum(k["seconds"]["all"]) for k in kinds.values()) / 60)
    r = {"machine": machine(), "date": time.strftime("%Y-%m-%d"), "commit": commit, "command": command, "setting": setting, "minutes": minutes,
         "workload": first.get("workload"), "preset": first.get("preset"), **kinds}
    with open(out + ".json", "w") as f:
        json.dump(r, f, indent=1)
        f.write("\n")
    text = ["# Gates on a real machine", "",
            f"{r['machine']}; {r['date']}; commit {commit}; `{setting} {command}`, {minutes} minutes. Workload {r['workload']}, preset {r['preset']}, host device.", ""]
    if "unchanged" in kinds:
        u = kinds["unchanged"]
        text.append(f"- Unchanged: {u['failed']} of {u['gates']} gates failed: {spell(u)}")
    if "slowed" in kinds:
        s = kinds["slowed"]
        text.append(f"- Slowed: kernel {kernel} of stage {stage} by {100 * s['planted_share_of_kernel']:.1f} %, which is {100 * s['planted_share_of_step']:.1f} % of the step: {s['failed']} of {s['gates']} gates found it, "
                    f"{s['found_and_named']} of them with the stage as first cause: {spell(s)}")
    if not all(k["in_turn"] for k in kinds.values()):
        text.append("- Some gates measured their sides one process after the other (warning `no-turns`).")
    with open(out + ".md", "w") as f:
        f.write("\n".join(text) + "\n")
    print("\n".join(text[2:]))
    print(f"wrote {out}.md and {out}.json")


if __name__ == "__main__":
    verb, args = sys.argv[1], sys.argv[2:]
    {"line": line, "plant": plant, "record": record}[verb](*args)
