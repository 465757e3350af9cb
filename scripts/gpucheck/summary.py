"""What gpu-check found: summary.json for programs (summary.schema.json says how it looks), summary.txt for people."""
import gzip
import json
import math
import statistics

SCHEMA_VERSION = "1.0.0"
OVERHEAD_LIMIT = 1.01
NULL_LIMIT = 0.01      # the median of A/A ratios
NULL_EACH = 0.05       # the threshold of a comparison: no A/A pair may cross it
PEER_FACTOR = 10       # csr over e3nn eager


def read_lines(path):
    if not path.exists():
        return []
    out = []
    for line in path.read_text().splitlines():
        try:
            out.append(json.loads(line))
        except ValueError:
            continue  # cut off in the middle
    return out


def read_runs(path):
    """The runs in one file of gpuprof run, none if it is unreadable."""
    try:
        with gzip.open(path) as f:
            doc = json.load(f)
    except (OSError, ValueError, EOFError):
        return []
    if isinstance(doc, list):
        return doc
    return doc.get("runs", [doc]) if "step" not in doc else [doc]


def check(name, ok, text, value=None, limit=""):
    """ok None is not measured."""
    return {"name": name, "status": "not-measured" if ok is None else "pass" if ok else "fail", "value": value, "limit": limit, "text": text}


def build(folder, header, records):
    dry = header["dry"]
    figures = read_lines(folder / "figures.jsonl")
    peers = [p for p in read_lines(folder / "peers.jsonl")]
    runs = {p.name[:-8]: r for p in sorted((folder / "runs").glob("*.json.gz")) for r in read_runs(p)} if (folder / "runs").exists() else {}
    checks = figure_checks(figures) + run_checks(runs, dry) + null_check(folder, dry) + peer_checks(figures, peers, dry) + trace_checks(folder, dry)
    result = {
        "schema_version": SCHEMA_VERSION, **header, "device": device(runs, folder),
        "verdict": verdict(records, checks), "parts": records, "checks": checks,
        "table": rows(figures, peers, runs | variants(folder), dry), "not_measured": missing(figures, peers),
    }
    return clean(result)


def clean(v):
    """JSON has no NaN and no infinity."""
    if isinstance(v, float):
        return v if math.isfinite(v) else None
    if isinstance(v, dict):
        return {k: clean(x) for k, x in v.items()}
    return [clean(x) for x in v] if isinstance(v, list) else v


def verdict(records, checks):
    states = [r["status"] for r in records] + [c["status"] for c in checks]
    if "fail" in states:
        return "fail"
    return "incomplete" if not records or {"timeout", "not-run"} & set(states) else "pass"


def device(runs, folder):
    for r in runs.values():
        d = r["device"]
        return {"kind": d.get("kind"), "name": d.get("name"), "arch": d.get("arch"), "cores": d.get("cores"), "cpu": d.get("cpu"), "kernel": d.get("kernel"),
                "facts": d.get("facts", {})}
    try:  # no run was asked for: what gpuprof explain list devices said
        listed = json.loads((folder / "devices.json").read_text())["devices"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return next(({"kind": d["name"].partition(":")[0], "name": d["doc"].partition(",")[0]} for d in listed if d["name"] != "host"), {})


def figure_checks(figures):
    out = []
    for f in figures:
        if f.get("limit"):
            value = f.get("value")
            text = "dry" if f.get("dry") else f"{value:.4g} {f['unit']}" if value is not None else f.get("note") or "not measured"
            out.append(check(f["name"], f.get("pass"), text, value, f["limit"]))
    return out


def reference(r, more=""):
    """Whether a run is whole and equal to the reference, and the words for it."""
    compared = r.get("checks") or []  # a run that ended early may lack anything
    bad = [c["stage"] for c in compared if not c["pass"]]
    return (r["status"] == "complete" and bool(compared) and not bad,
            f"{r['status']}{', ' + r['reason'] if r.get('reason') else ''}; {more}{len(compared)} stages compared" + (f", wrong: {', '.join(bad)}" if bad else ""))


def run_checks(runs, dry):
    out = []
    for name, r in runs.items():
        out.append(check(f"run/{name}/reference", *reference(r)))
        o = r.get("overhead")
        low, high = o["ci95"] if o else (None, None)
        limit = "instrumented over bare, upper end at most 1.01"
        # What small measures is as short as a GPU's launches: how dear its probes are says nothing of the GPU.
        short = r.get("preset") == "small"
        if dry or short or high is None:
            out.append(check(f"run/{name}/overhead", None, "dry" if dry else "not judged: its step is made for a CPU" if short else "not measured", None, limit))
        else:
            # An interval with the limit inside says nothing of the probes but that the steps scatter.
            ok = True if high <= OVERHEAD_LIMIT else False if low > OVERHEAD_LIMIT else None
            out.append(check(f"run/{name}/overhead", ok, f"{'not decided: ' if ok is None else ''}{o['ratio']:.4f} [{low:.4f}, {high:.4f}]", high, limit))
    return out


def null_quantities(r):
    """What an A/A comparison judges of a run: the step, the stage that matters most, and all the device does in a step."""
    stages = {s["name"]: s["device"]["median"] for s in r.get("stages") or [] if s["parent"] == "step" and s.get("device")}
    out = {"step": r["step"]["median"]}
    if "tensor_product" in stages:
        out["tensor_product"] = stages["tensor_product"]
    if stages:
        out["device"] = sum(stages.values())
    return out


def null_check(folder, dry):
    """The same program against itself: neighbours in time are paired, the first of a pair and the second in turn."""
    if not (folder / "null").exists():
        return []
    runs = [null_quantities(r) for p in sorted((folder / "null").glob("*.json.gz")) for r in read_runs(p) if r.get("step")]
    pairs = [(runs[i], runs[i + 1]) if i % 4 == 0 else (runs[i + 1], runs[i]) for i in range(0, len(runs) - 1, 2)]
    return [null_of(name, [a[name] / b[name] for a, b in pairs if name in a and name in b], dry) for name in ("step", "tensor_product", "device")]


def null_of(name, ratios, dry):
    limit = f"median ratio within {NULL_LIMIT:.0%} of 1, no pair beyond {NULL_EACH:.0%}"
    if dry or len(ratios) < 3:
        return check(f"null/e3nn/{name}", None, "dry" if dry else f"{len(ratios)} pairs are too few", None, limit)
    middle, worst = statistics.median(ratios), max(abs(x - 1) for x in ratios)
    return check(f"null/e3nn/{name}", abs(middle - 1) <= NULL_LIMIT and worst <= NULL_EACH, f"{len(ratios)} pairs, median ratio {middle:.4f}, furthest {worst:.2%}", middle, limit)


def measured(figures):
    return {f["name"]: f["value"] for f in figures if f.get("value") is not None}


def peer_checks(figures, peers, dry):
    own, out = measured(figures), []
    for name in ("mace-large", "deepaw"):
        eager = next((p["value"] for p in peers if p["name"] == f"tensor_product/{name}" and p["peer"] == "e3nn" and p.get("value")), None)
        csr = own.get(f"tensor_product/{name}/csr")
        if dry or eager is None or csr is None:
            out.append(check(f"peer/e3nn/{name}", None, "dry" if dry else "not measured", None, "csr at least ten times as fast as e3nn"))
        else:
            out.append(check(f"peer/e3nn/{name}", eager >= PEER_FACTOR * csr, f"e3nn {eager:.3g} s, csr {csr:.3g} s: {eager / csr:.1f}x", eager / csr, "at least 10"))
    return out


def trace_checks(folder, dry):
    path = folder / "traces" / "analysis.json"
    if not path.exists():
        return []
    out = []
    for t in json.loads(path.read_text()):
        if dry:
            out.append(check(f"trace/{t['name']}", None, "dry: a trace without a GPU", None, "the planted problem is found first, the clean twin is quiet"))
            continue
        out.append(check(f"trace/{t['name']}", t["first"] in t["expected"] and not set(t["expected"]) & set(t["clean"]),
                         f"first finding {t['first'] or 'none'}, of the clean twin {', '.join(t['clean']) or 'none'}", None, f"{' or '.join(t['expected'])} first, the clean twin quiet"))
        saved, claim = t["saved_ns"], t["claim_ns"]
        ok = None if not saved or not claim or saved < 0 else saved <= claim <= 1.35 * saved
        text = "not comparable" if ok is None else f"claimed {claim / 1e6:.3g} ms a step, the clean twin saves {saved / 1e6:.3g} ms"
        out.append(check(f"trace/{t['name']}/claim", ok, text, None, "between 1 and 1.35 times what the clean twin saves"))
    return out


def step_bound(stages):
    """The sum of the stages' roofline bounds; none where a stage that launches kernels has none. (Copies over the link have none.)"""
    counted = [s for s in stages if s["parent"] == "step"]
    if any(s.get("no_bound") and s.get("counters", {}).get("launches") for s in counted):
        return None
    return sum(s["floor_s"] for s in counted) or None


def variants(folder):
    """The runs of the precision sweeps that no other part makes, by workload, preset and precision."""
    out = {}
    for path in sorted((folder / "sweeps").glob("*-precision.json.gz")):
        for r in read_runs(path):
            precision = (r.get("knobs") or {}).get("precision", "fp32")
            if precision != "fp32":
                out[f"{r['workload']}-{r['preset']}/{precision}"] = r
    return out


def rivals(peers, fits):
    """The peers that measured the same, the fastest first."""
    found = sorted((p for p in peers if p.get("value") and fits(p["name"])), key=lambda p: p["value"])
    return [{"name": p["peer"], "value": p["value"], "extra": p.get("extra", {})} for p in found]


def rows(figures, peers, runs, dry):
    """measured / roofline bound / peers, one row a figure and a row a run."""
    out = []
    for f in figures:
        if f["unit"] == "1" or f["unit"] == "runs":
            continue
        out.append({"name": f["name"], "unit": f["unit"], "measured": f.get("value"), "floor": f.get("floor"), "extra": f.get("extra") or {}, "note": f.get("note", ""),
                    "peers": [] if dry else rivals(peers, lambda p: f["name"].removesuffix("-own") == p or f["name"].startswith(p + "/"))})
    for name, r in runs.items():
        step, stages = r.get("step"), r.get("stages") or []
        out.append({"name": f"run/{name}/step", "unit": "s", "measured": step["median"] if step and not dry else None,
                    "floor": None if dry else step_bound(stages), "extra": {} if dry else energy(r), "note": r["mode"],
                    "peers": [] if dry else rivals(peers, lambda p: name.endswith("-train") and p == name.replace("-", "/", 1))})
        for stage, of in STAGES.items():
            s = next((s for s in stages if s["name"] == stage and s["parent"] == "step" and s.get("device")), None)
            if s:
                out.append({"name": f"run/{name}/{stage}", "unit": "s", "measured": None if dry else s["device"]["median"], "floor": None if dry else s["floor_s"] or None, "extra": {},
                            "note": "device time of the stage" + made_of(r, stage),
                            "peers": [] if dry else rivals(peers, lambda p: p == of(name))})
        image = (r.get("requests") or {}).get("throughput_per_s")
        if image:
            out.append({"name": f"run/{name}/request", "unit": "s", "measured": None if dry else 1 / image, "floor": None, "extra": {},
                        "note": "time per request at saturation", "peers": [] if dry else rivals(peers, lambda p: p == name.replace("-", "/", 1))})
    return out


# Stages that others measure too, and what they call it.
STAGES = {"gru": lambda run: "" if run.endswith("-train") else run.replace("-", "/", 1).removesuffix("-own"), "law": lambda run: run.replace("-", "/", 1),
          "tensor_product_bwd": lambda run: run.replace("e3nn-", "tensor_product_bwd/", 1).removesuffix("-forces")}


def made_of(r, stage):
    """What computes a stage, where there are several ways."""
    kernels = (r.get("input") or {}).get("tensor_product_grad_kernels")
    if stage == "tensor_product_bwd" and kernels:
        return f"; kernel {' | '.join(kernels)}"
    return f"; its products are {products(r)}" if stage == "gru" else ""


def products(r):
    """Whose matrix products a run's GRU is made of, by the names of its kernels and the libraries found."""
    names, facts = [s["name"] for s in r["stages"] if s["parent"] == "gru"], r["device"].get("facts") or {}
    if any("cudnn" in n for n in names):
        return "cuDNN's"
    return "cuBLAS's" if facts.get("cublas") and any(n.startswith("gemm_") for n in names) else "our own"


def energy(r):
    """Joules per step, gross and less the idle power, with the clocks of the time in which the run was watched."""
    out = {}
    e = r.get("energy") or {}
    if e.get("valid"):
        out = {"energy_gross_j": e["gross_step_j"], "energy_net_j": e.get("net_step_j"), "idle_w": e.get("idle_w")}
    for name, track in (("sm_clock_hz", "gpu_sm_clock"), ("memory_clock_hz", "gpu_memory_clock")):
        seen = [v for v in ((r.get("telemetry") or {}).get(track) or {}).get("value") or [] if v]
        if seen and out:
            out[name] = statistics.median(seen)
    return out


def missing(figures, peers):
    """What a reader of the table would look for, and why it is not there."""
    out = [f"{f['name']}: {f['note']}" for f in figures if f.get("value") is None and not f.get("dry") and f.get("note")]
    return out + [f"{p['name']}, {p['peer']}: {p['note']}" for p in peers if p.get("value") is None]


def quantity(v, unit):
    if v is None:
        return "-"
    if unit == "s":
        for scale, name in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
            if v >= scale:
                return f"{v / scale:.4g} {name}"
        return f"{v * 1e9:.4g} ns"
    for scale, name in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if v >= scale:
            return f"{v / scale:.4g} {name}{unit}"
    return f"{v:.4g} {unit}"


def grid(lines):
    widths = [max(len(l[i]) for l in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(l, widths)).rstrip() for l in lines)


def compiler(device):
    """The driver, which compiles PTX and so is a part of every figure; nothing where none was reached."""
    facts = device.get("facts") or {}
    return f"driver {facts['driver']}, CUDA {facts.get('cuda', '?')}, " if facts.get("driver") else ""


def render(r):
    out = ["DRY RUN: no GPU was used and no figure was kept.\n" if r["dry"] else "", f"{r.get('tool', 'gpu-check')} {r['started']}, {r['seconds']:.0f} of {r['budget_s']:.0f} s, "
           f"{r['device'].get('name', 'no device was reached')}, {compiler(r['device'])}gpuprof {r['made_by'].get('version', '?')} ({r['made_by'].get('commit', '?')})\n"]
    table = [["WHAT", "MEASURED", "BOUND", "x BOUND", "PEER", "PEER / OURS", ""]]
    for row in r["table"]:
        m, floor = row["measured"], row["floor"]
        for i, peer in enumerate(row["peers"] or [None]):
            ours = [row["name"], quantity(m, row["unit"]), quantity(floor, row["unit"]), f"{m / floor:.2f}" if m and floor else "-"] if i == 0 else [""] * 4
            table.append(ours + [f"{peer['name']} {quantity(peer['value'], 's')}" if peer else "-", f"{peer['value'] / m:.2f}" if peer and m else "-", row["note"] if i == 0 else ""])
    watched = [["ENERGY PER STEP", "GROSS", "NET", "IDLE", "SM CLOCK", "MEMORY CLOCK"]]
    for row in r["table"]:
        e = row["extra"]
        if "energy_gross_j" in e:
            watched.append([row["name"], quantity(e["energy_gross_j"], "J"), quantity(e.get("energy_net_j"), "J"), quantity(e.get("idle_w"), "W"),
                            quantity(e.get("sm_clock_hz"), "Hz"), quantity(e.get("memory_clock_hz"), "Hz")])
    if len(watched) > 1:
        table = [grid(table), "", grid(watched)]
    else:
        table = [grid(table)]
    out += [*table, "", grid([["CHECK", "RESULT", "LIMIT", ""]] + [[c["name"], c["status"], c["limit"], c["text"]] for c in r["checks"]]), ""]
    out.append(grid([["PART", "RESULT", "SECONDS", ""]] + [[p["name"], p["status"], f"{p['seconds']:.0f}", p["detail"]] for p in r["parts"]]))
    if r["not_measured"]:
        out += ["", "Not measured:"] + ["  " + m for m in r["not_measured"]]
    for p in r["parts"]:
        for c in p["commands"]:
            if c["status"] in ("fail", "timeout") and c.get("tail"):
                out += ["", f"--- {p['name']}, {c['name']}:", c["tail"]]
    if r["left_out"]:
        out += ["", "Left out of the archive for its size: " + ", ".join(r["left_out"])]
    return "\n".join(out) + f"\n\nverdict: {r['verdict']}\n"
