"""gpu-record: what later runs on this GPU are compared with, and how well this machine's verdicts hold."""
import json
import pathlib
import sys

import parts
import runner
import summary

# Seconds on an H200, as in parts.py. Together they are more than the usual time: gates gives up sides, claims and sweeps
# are cut, and a second call has the rest.
SECONDS = {"baselines": 95, "gates": 131, "tune": 95, "claims": 195, "sweeps": 90, "doctor-bench": 75}
NAMES = list(SECONDS)
# As many processes as fit; a verdict against them counts the sessions that gpu-check and later days add.
PROCESSES = 3
BASELINES = [tuple(name.split("-", 1)) for name in parts.MAIN]
FOUND = 19 / 20  # of the comparisons with more work


def table(args, programs, wanted, left):
    """The parts of gpu-record. left() is how many seconds there are for everything."""
    makers = dict(zip(NAMES, (baselines, gates, tune, claims, sweeps, parts.doctor_bench)))
    return parts.made(parts.Table(args, programs, left), makers, wanted)


def baselines(t):
    out = []
    for workload, preset in BASELINES:
        if t.dry and preset != "deepaw":
            continue
        out.append(t.run("baselines", f"{workload}-{preset}", workload, t.pick(preset, "small"), seconds=4, processes=t.pick(PROCESSES, 2), limit=45))
    return t.part("baselines", t.pick(130, 60), out, least=20 if not t.dry else 5)


def gates(t):
    limit = t.pick(160, 60)
    seconds = min(limit, t.left()) - 4  # it ends by itself, with what it has compared
    here = pathlib.Path(__file__).parent
    return t.part("gates", limit, [parts.Command("gates", [sys.executable, "-B", str(here / "gates.py"), "--gpuprof", t.gpuprof, "--device", t.device, "--out", str(t.args.out / "gates"),
                                                           "--seconds", f"{seconds:.0f}", *t.pick([], ["--dry"])])], least=60 if not t.dry else 5)


def tuned(t, name, budget, *argv):
    """A search or the claims: the JSON is kept up to date on the way, so that what stops it loses the rest alone."""
    folder = t.args.out / name.partition("-")[0]
    folder.mkdir(exist_ok=True)
    files = [x for ext in (".json", ".md") for x in ("-o", str(folder / (name + ext)))]
    return t.verb(name, "tune", *argv, "--device", t.device, "--budget", f"{budget:.0f}s", "--force", "--format", "markdown", *files, limit=budget + 30)


def tune(t):
    if t.dry:
        return t.part("tune", 30, [tuned(t, "tune-e3nn-deepaw", 2, "e3nn", "--preset", "small", "--knob", "sync", *t.settings("e3nn"))])
    return t.part("tune", 125, [tuned(t, "tune-e3nn-deepaw", 45, "e3nn", "--preset", "deepaw"), tuned(t, "tune-gruflow-energyflow", 30, "gruflow", "--preset", "energyflow")], least=50)


def claims(t):
    budget = t.pick(min(170, t.left() - 25), 2)
    return t.part("claims", t.pick(200, 30), [tuned(t, "claims", budget, "--claims")], least=65 if not t.dry else 5)


def sweeps(t):
    return t.part("sweeps", t.pick(110, 100), parts.size_sweeps(t), least=10)


def build(folder, header, records):
    dry = header["dry"]
    runs = {p.name[:-8]: r for p in sorted((folder / "baselines").glob("*.json.gz")) for r in summary.read_runs(p)}
    checks = baseline_checks(runs) + gate_checks(folder, dry) + tune_checks(folder, dry)
    return summary.clean({
        "schema_version": summary.SCHEMA_VERSION, "tool": "gpu-record", **header, "device": summary.device(runs, folder),
        "verdict": summary.verdict(records, checks), "parts": records, "checks": checks, "table": summary.rows([], [], runs, dry), "not_measured": []})


def baseline_checks(runs):
    out = []
    for name, r in runs.items():
        processes = len(r["step"]["runs"]) if r.get("step") else 0
        out.append(summary.check(f"baseline/{name}", *summary.reference(r, f"{processes} processes, "), None, "complete and equal to the reference"))
    return out


def read(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def gate_checks(folder, dry):
    doc = read(folder / "gates" / "gates.json")
    if doc is None:
        return []
    out = []
    for kind, name, called, limit in (("same", "gates/unchanged", ("regressed", "improved"), "none called slower or faster"),
                                      ("more", "gates/slowed", ("regressed",), f"at least {FOUND:.0%} called slower")):
        counts = doc["counts"].get(kind, {})
        n = counts.get("comparisons", 0)
        what = "the same work" if kind == "same" else f"{doc['planted']:+.1%} of work"
        for metric in ("step", "step/tensor_product"):
            of = f"{name}/{metric.rpartition('/')[2]}"
            found = sum(counts.get(metric, {}).get(v, 0) for v in called)
            if dry or n == 0:
                out.append(summary.check(of, None, "dry" if dry else "no comparison was reached", None, limit))
                continue
            text = f"{what}: {n} comparisons, {', '.join(f'{v} {k}' for k, v in sorted(counts[metric].items()))}"
            out.append(summary.check(of, found >= FOUND * n if kind == "more" else found == 0, text, found, limit))
    return out


def tune_checks(folder, dry):
    out = []
    for path in sorted((folder / "tune").glob("*.json")):
        doc = read(path)
        if doc:
            best = (doc.get("recommended") or {}).get("text") or "nothing is recommended"
            out.append(summary.check(path.stem.replace("-", "/", 1), None, "dry" if dry else f"{doc['status']}: {best}"))
    doc = read(folder / "claims" / "claims.json")
    if doc:
        verdicts = {}
        for c in doc["claims"]:
            verdicts[c["verdict"]] = verdicts.get(c["verdict"], 0) + 1
        out.append(summary.check("claims", None, "dry" if dry else f"{doc['status']}: " + ", ".join(f"{n} {v}" for v, n in sorted(verdicts.items()))))
    return out


TOOL = runner.Tool(
    name="gpu-record", about="Record what later runs on this GPU are compared with; results in record.tar.gz.", parts=SECONDS, table=table,
    build=build, render=summary.render, archive="record", budget=420,
    order=["summary.json", "summary.txt", "baselines", "gates", "tune", "claims", "sweeps", "doctor-bench.json", "logs"],
    # A dry run's times are of no GPU: they are not handed on.
    dry_order=["summary.json", "summary.txt"])

if __name__ == "__main__":
    sys.exit(runner.main(TOOL))
