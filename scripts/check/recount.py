#!/usr/bin/env python3
"""Counts the events of recordings again and compares with gpuprof analyze.

recount.py [--gpuprof BIN] [--self-test] [FILE | FOLDER]...

It reads Kineto JSON, Nsight Systems SQLite and PyTorch memory snapshots with
Python's own libraries and shares no code with gpuprof. For each device it
computes the kernels, the union of their times and the bytes of copies by
direction; for each name its events. A figure of the analysis that is exact must
be equal; a count of a finding is at most the number of such events in the file;
a direction in words is one that the file has; a claim is at most the step and
the recording, and claims of one device add up to a step at most. Without files
it takes the fixtures of testdata. Exit code 1: a figure differs; 3: no file was
compared.
"""

import argparse
import collections
import gzip
import json
import os
import pickle
import re
import sqlite3
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FIXTURES = ["testdata/traces", "testdata/memory"]
KERNELS = {"kernel"}
COPIES = {"gpu_memcpy", "memcpy"}
SETS = {"gpu_memset", "memset"}
CALLS = {"cuda_runtime", "cuda_driver", "runtime", "hip_runtime"}
OPERATORS = {"cpu_op", "operator"}
HOST = CALLS | OPERATORS | {"user_annotation", "python_function", "ac2g"}
SLACK = 0.001  # of a time that several rounded times add up to


def ns(value):
    """Microseconds as JSON has them, in whole nanoseconds."""
    whole, _, part = str(value).partition(".")
    if "e" in part.lower() or "e" in whole.lower():
        return round(float(value) * 1000)
    sign = -1 if whole.startswith("-") else 1
    return int(whole or 0) * 1000 + sign * int((part + "000")[:3])


def union(spans):
    """Nanoseconds that at least one of the spans covers."""
    total, end = 0, None
    for lo, hi in sorted(spans):
        if end is None or lo > end:
            total += hi - lo
            end = hi
        elif hi > end:
            total += hi - end
            end = hi
    return total


class Facts:
    """What a recording has by its raw events."""

    def __init__(self):
        self.spans = collections.defaultdict(list)  # of a device: all operations
        self.kernels = collections.Counter()  # of a device
        self.names = collections.Counter()  # events of any kind by name
        self.kernel_names = collections.Counter()
        self.copies = collections.Counter()  # by direction
        self.bytes = collections.Counter()
        self.operators = collections.Counter()
        self.calls = collections.Counter()
        self.events = 0

    def copy(self, direction, size):
        self.copies[direction] += 1
        self.bytes[direction] += size


def direction(name):
    found = re.search(r"\b([HDP])to([HDP])\b|(Host|Device|Peer)\s*(?:To|->)\s*(Host|Device|Peer)", name, re.I)
    if not found:
        return "other"
    a, b = [x[0].lower() for x in found.groups() if x]
    return "p2p" if "p" in (a, b) else a + "2" + b


def kineto(path):
    with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as f:
        data = json.loads(f.read().decode("utf-8", "replace"), strict=False, parse_float=str)
    events = data["traceEvents"] if isinstance(data, dict) else data
    facts = Facts()
    for e in events:
        if not isinstance(e, dict) or e.get("ph") != "X" or "ts" not in e:
            continue
        name, kind, args = str(e.get("name", "")), str(e.get("cat", "")).lower(), e.get("args") or {}
        facts.names[name] += 1
        facts.events += 1
        if kind in KERNELS | COPIES | SETS:
            device = args.get("device", args.get("Device Id", e.get("pid")))
            start = ns(e["ts"])
            facts.spans[str(device)].append((start, start + max(0, ns(e.get("dur", 0)))))
            if kind in KERNELS:
                facts.kernels[str(device)] += 1
                facts.kernel_names[name] += 1
            elif kind in COPIES:
                facts.copy(direction(name), int(float(args.get("bytes", args.get("Bytes", 0)) or 0)))
        elif kind in OPERATORS:
            facts.operators[name] += 1
        elif kind in CALLS:
            facts.calls[name] += 1
    return facts


NSYS_COPIES = {1: "h2d", 2: "d2h", 3: "h2a", 4: "a2h", 8: "d2d", 9: "h2h", 10: "p2p", 11: "h2d", 12: "d2h", 13: "d2d"}


def nsys(path):
    facts = Facts()
    with tempfile.TemporaryDirectory() as folder:
        local = os.path.join(folder, "copy.sqlite")  # SQLite writes beside what it reads
        with open(path, "rb") as f, open(local, "wb") as g:
            g.write(f.read())
        db = sqlite3.connect(local)
        tables = {r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type='table'")}
        texts = dict(db.execute("SELECT id, value FROM StringIds")) if "StringIds" in tables else {}
        for table, kind in (("KERNEL", "k"), ("GRAPH_TRACE", "g"), ("MEMCPY", "c"), ("MEMSET", "s")):
            table = "CUPTI_ACTIVITY_KIND_" + table
            if table not in tables:
                continue
            extra = {"k": "demangledName", "g": "'CUDA graph'", "c": "copyKind, bytes", "s": "bytes"}[kind]
            for row in db.execute("SELECT deviceId, start, end, %s FROM %s" % (extra, table)):
                facts.events += 1
                facts.spans[str(row[0])].append((row[1], max(row[1], row[2])))
                if kind in "kg":
                    facts.kernels[str(row[0])] += 1
                    facts.kernel_names[texts.get(row[3], str(row[3]))] += 1
                elif kind == "c":
                    facts.copy(NSYS_COPIES.get(row[3], "other"), row[4] or 0)
        if "CUPTI_ACTIVITY_KIND_RUNTIME" in tables:
            seen = set()
            for thread, call, name in db.execute("SELECT globalTid, correlationId, nameId FROM CUPTI_ACTIVITY_KIND_RUNTIME"):
                name = re.sub(r"_v\d+(_ptsz)?$", "", texts.get(name, ""))
                facts.events += 1
                if (thread, call, name) in seen:  # some exports have two rows for a call
                    continue
                if call:
                    seen.add((thread, call, name))
                facts.calls[name] += 1
                facts.names[name] += 1
        if "NVTX_EVENTS" in tables:
            for text, text_id in db.execute("SELECT text, textId FROM NVTX_EVENTS"):
                facts.names[text or texts.get(text_id, "")] += 1
        rocpd(db, facts)
        db.close()
    return facts


def rocpd(db, facts):
    """The events of a database of rocprofv3, from its views; none in another database."""
    views = {r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type='view'")}
    if not {"kernels", "regions"} <= views:
        return
    for name, agent, start, end in db.execute("SELECT name, agent_type_index, start, end FROM kernels"):
        facts.events += 1
        facts.spans[str(agent)].append((start, max(start, end)))
        facts.kernels[str(agent)] += 1
        facts.kernel_names[name] += 1
    for (name,) in db.execute("SELECT name FROM regions"):
        facts.events += 1
        facts.calls[name] += 1
        facts.names[name] += 1


class Report:
    def __init__(self):
        self.wrong, self.compared = [], collections.Counter()

    def equal(self, what, got, want, slack=0):
        self.compared["equal"] += 1
        if abs(got - want) > slack:
            self.wrong.append("%s is %s, and the file has %s" % (what, got, want))

    def bound(self, what, got, most, slack=0):
        self.compared["bound"] += 1
        if got > most + slack:
            self.wrong.append("%s is %s, and at most %s is possible" % (what, got, most))

    def true(self, what, holds):
        self.compared["sentence"] += 1
        if not holds:
            self.wrong.append(what)


def compare_devices(doc, facts, r):
    # Records that the analysis says it left out or ended early are not counted again here.
    withheld = any(f["rule"] == "trace-quality" and gate_counts(f) for f in doc["findings"])
    for d in doc["devices"]:
        name = str(d["id"])
        if name not in facts.spans or withheld:
            continue
        r.equal("kernels of device " + name, d["kernels"], facts.kernels[name])
        r.equal("busy time of device " + name, d["busy_ns"], union(facts.spans[name]), 1000)
    by = collections.Counter()
    size = collections.Counter()
    for kind, c in (doc.get("copies") or {}).items():
        way = kind.split("_")[0]
        by[way] += c["count"]
        size[way] += c["bytes"]
    for way in ("h2d", "d2h", "d2d"):
        if not withheld:
            r.equal("copies " + way, by[way], facts.copies[way])
            r.equal("bytes " + way, size[way], facts.bytes[way])


def gate_counts(finding):
    return sum(v for k, v in finding["evidence"].items() if k in ("untimed_records", "overrunning_records", "shared_launches") and isinstance(v, int))


def compare_tables(doc, facts, r):
    for k in doc.get("kernels") or []:
        if k["name"] in facts.kernel_names:
            r.equal("count of kernel " + k["name"][:60], k["count"], facts.kernel_names[k["name"]])
    for call, c in (doc.get("syncs") or {}).items():
        if call in facts.calls:
            r.bound("calls of " + call, c["count"], facts.calls[call])
    for o in doc.get("operators") or []:
        if o["name"] in facts.operators:
            r.bound("count of operator " + o["name"][:60], o["count"], facts.operators[o["name"]])


# The events of the file that bound a count of a finding, by the name of the count.
def most_of(key, finding, facts):
    rule = finding["rule"]
    if rule == "host-operator":  # its calls are those of the operator that it names
        return facts.names[finding["evidence"]["operator"]] if key == "calls" else None
    total = sum(facts.kernel_names.values())
    if key.startswith("calls_cuda") or key.startswith("calls_hip"):
        name = re.sub(r"_(\w)", lambda m: m.group(1).upper(), key[len("calls_"):])
        return facts.calls.get(name, None)
    return {
        "kernels": total, "kernel_launches": sum(facts.calls.values()), "graph_launches": sum(n for c, n in facts.calls.items() if "GraphLaunch" in c),
        "copies": sum(facts.copies.values()), "calls": sum(facts.calls.values()),
        "reads": facts.operators["aten::item"] + facts.operators["aten::_local_scalar_dense"] + facts.operators["aten::is_nonzero"],
        "fetches": sum(n for name, n in facts.names.items() if "DataLoader" in name),
        "mallocs": sum(n for c, n in facts.calls.items() if re.search("alloc|memmap|memcreate", c, re.I)),
        "frees": sum(n for c, n in facts.calls.items() if re.search("free|unmap|release|destroy", c, re.I)),
        "broadcasts": sum(n for name, n in facts.names.items() if "broadcast" in name.lower()),
        "softmaxes": sum(n for name, n in (facts.names + facts.kernel_names).items() if "softmax" in name.lower()),
        "h2d_bytes": facts.bytes["h2d"],
        "bytes": facts.bytes["h2d"] if rule == "pageable-h2d" else sum(facts.bytes.values()),
    }.get(key)


def named_events(where, facts):
    """The largest number of events whose name the text has: of an operator at a line, of a call, of a kernel."""
    inner = re.search(r"\(([^()]+(?:\([^()]*\))?[^()]*)\)$", where)
    for name in ([inner.group(1)] if inner else []) + [where]:
        if name in facts.names:
            return facts.names[name]
        if name in facts.kernel_names:
            return facts.kernel_names[name]
    return None


def site_events(site, facts):
    """How many events a place can have at most: of the kind that it counts, else those that it names."""
    operations = sum(len(spans) for spans in facts.spans.values())
    kinds = {"kernel": sum(facts.kernel_names.values()), "copy": sum(facts.copies.values()), "call": sum(facts.calls.values()), "launch": sum(facts.calls.values()),
             "operation": operations, "gap": operations, "wait": operations, "fetch": sum(n for name, n in facts.names.items() if "DataLoader" in name),
             "operator": sum(facts.operators.values())}
    if site.get("of"):
        return kinds.get(site["of"])
    return named_events(site["where"], facts)


WAYS = [("to pageable host memory", "d2h"), ("from pageable memory to the device", "h2d"), ("to the host", "d2h"), ("from the device", "d2h"), ("to the device", "h2d")]


def compare_findings(doc, facts, r):
    step, claims = doc["step"], collections.Counter()
    span = max((d["span_ns"] for d in doc["devices"]), default=0)
    for f in doc["findings"]:
        of = "%s: " % f["rule"]
        r.bound(of + "claim per step", f.get("claim_step_ns", 0), step["ns"] * (1 + SLACK), 1000)
        r.bound(of + "claim", f.get("claim_ns", 0), max(1, len(doc["inputs"])) * max(span, step["ns"] * max(1, step["count"])) * (1 + SLACK), 1000)
        r.bound(of + "share", f.get("claim_share", 0), 1)
        claims["all"] += f.get("claim_step_ns", 0)
        for key, v in f["evidence"].items():
            if isinstance(v, bool) or not isinstance(v, (int, float)):
                continue
            if key.endswith("_percent"):
                r.bound(of + key, v, 100.0001)
            most = most_of(key, f, facts)
            if most is not None:
                r.bound(of + key, v, most)
        for s in f.get("sites") or []:
            most = site_events(s, facts)
            if most is not None:
                r.bound("%s%s at %s" % (of, s.get("of", "event"), s["where"][:80]), s["count"], most)
        head = f["title"].split(":")[0]
        for words, way in WAYS:
            if words in head and "cop" in head:
                r.true("%sthe title says %r, and the file has no such copy" % (of, words), facts.copies[way] > 0)
                n = re.match(r"(\d+) copies", head)
                if n:
                    r.bound(of + "copies in the title", int(n.group(1)), facts.copies[way])
                break
    r.bound("the sum of all claims per step", claims["all"], step["ns"] * max(1, len(doc["devices"])) * (1 + SLACK), 1000)


TIMES = re.compile(r"\((\d+) times\)")


def compare_text(text, facts, r):
    for line in text.splitlines():
        for n in TIMES.findall(line):
            r.bound("%r" % line.strip()[:100], int(n), facts.events)


def snapshot_levels(trace, segments):
    """The bytes that were asked for after each event, backwards from the blocks of the end."""
    live = sum(b.get("requested_size", b["size"]) for s in segments for b in s["blocks"] if b["state"].startswith("active"))
    levels = [live]
    for e in reversed(trace):
        if e["action"] == "alloc":
            live -= e["size"]
        elif e["action"] == "free_completed":
            live += e["size"]
        levels.append(live)
    return levels


def compare_memory(doc, path, r):
    with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as f:
        snapshot = pickle.load(f)
    for d in doc["devices"]:
        if d.get("contradictions"):
            continue
        trace = snapshot["device_traces"][d["id"]]
        segments = [s for s in snapshot["segments"] if s.get("device", 0) == d["id"]]
        r.equal("events of device %d" % d["id"], d["events"], len(trace))
        r.equal("peak of device %d" % d["id"], d["peak"]["requested_bytes"], max(snapshot_levels(trace, segments)))
        r.bound("lines at the peak", sum(s["bytes"] for s in d["peak"]["sites"] or []), d["peak"]["requested_bytes"])
        r.equal("categories at the peak", sum(c["bytes"] for c in d["peak"]["categories"] or []), d["peak"]["requested_bytes"])
        r.bound("errors", len(d.get("ooms") or []), sum(e["action"] == "oom" for e in trace))
    for f in doc["findings"]:
        d = doc["devices"][f["device"]]
        most = d["peak_reserved_bytes"] if f["of"] == "reserved" else d["peak"]["requested_bytes"]
        r.bound(f["rule"] + ": claim", f["claim_bytes"], most)
        r.true(f["rule"] + ": it advises a setting that is on", not advises_itself(f, snapshot))


def advises_itself(finding, snapshot):
    text = (snapshot.get("allocator_settings") or {}).get("PYTORCH_CUDA_ALLOC_CONF", "")
    return any(s.startswith("expandable_segments") and s in finding["pytorch"] and "without" not in finding["pytorch"] and finding["pytorch"].startswith("PYTORCH_CUDA_ALLOC_CONF=" + s) for s in text.split(","))


def recount(gpuprof, path):
    """A Report of one file, or a sentence saying why gpuprof does not read it."""
    run = lambda *more: subprocess.run([gpuprof, "analyze", path, *more], capture_output=True, text=True, timeout=600)
    done = run("--format", "json")
    if done.returncode != 0:
        return None, done.stderr.strip()[-200:] or done.stdout.strip()[-200:]
    doc, r = json.loads(done.stdout), Report()
    if doc["kind"] == "memory" or "steps" not in doc and "peak" in (doc.get("devices") or [{}])[0]:
        compare_memory(doc, path, r)
        return r, ""
    facts = nsys(path) if path.endswith((".sqlite", ".db")) else kineto(path)
    compare_devices(doc, facts, r)
    compare_tables(doc, facts, r)
    compare_findings(doc, facts, r)
    compare_text(run("-v").stdout, facts, r)
    return r, ""


def files_of(paths):
    for path in paths:
        if os.path.isfile(path):
            yield path
        for folder, _, names in os.walk(path):
            for name in sorted(names):
                plain = name.removesuffix(".gz")
                if plain.endswith((".json", ".sqlite", ".pickle")) and not plain.endswith((".stats.json", "index.json", "analysis.json", "vectors.json")):
                    yield os.path.join(folder, name)


def self_test(gpuprof):
    """A wrong figure of each kind is found."""
    path = os.path.join(ROOT, "testdata/traces/hidden-sync-fires.json")
    doc = json.loads(subprocess.run([gpuprof, "analyze", path, "--format", "json"], capture_output=True, text=True).stdout)
    facts = kineto(path)
    finding = next(f for f in doc["findings"] if f["rule"] == "hidden-sync")
    wrong = {
        "kernels": lambda: doc["devices"][0].update(kernels=doc["devices"][0]["kernels"] + 1),
        "busy time": lambda: doc["devices"][0].update(busy_ns=doc["devices"][0]["busy_ns"] * 2),
        "copies": lambda: next(iter(doc["copies"].values())).update(count=99),
        "claim": lambda: finding.update(claim_step_ns=doc["step"]["ns"] * 2),
        "events": lambda: finding["sites"][0].update(count=10**6),
        "names": lambda: finding["sites"].append({"where": "aten::to", "count": 1 + facts.names["aten::to"]}),
        "count": lambda: finding["evidence"].update(copies=10**6),
        "direction": lambda: finding.update(title="900 copies to the device block the program"),
    }
    missed = []
    for kind, change in wrong.items():
        kept = json.dumps(doc)
        change()
        r = Report()
        for look in (compare_devices, compare_tables, compare_findings):
            look(doc, facts, r)
        if not r.wrong:
            missed.append(kind)
        doc = json.loads(kept)
        finding = next(f for f in doc["findings"] if f["rule"] == "hidden-sync")
    return missed


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--gpuprof", default=os.path.join(ROOT, "bin/gpuprof"))
    p.add_argument("--self-test", action="store_true", help="also look whether wrong figures are found")
    p.add_argument("paths", nargs="*", default=[os.path.join(ROOT, f) for f in FIXTURES])
    o = p.parse_args()
    failed, compared, counts = 0, 0, collections.Counter()
    if o.self_test:
        for kind in self_test(o.gpuprof):
            print("FAIL a wrong figure of this kind is not found: " + kind)
            failed += 1
    for path in files_of(o.paths):
        r, why = recount(o.gpuprof, path)
        name = os.path.relpath(path, ROOT)
        if r is None:
            print("%s: not read: %s" % (name, why))
            continue
        compared += 1
        counts += r.compared
        for w in r.wrong:
            print("FAIL %s: %s" % (name, w))
        failed += len(r.wrong)
    print("%d files: %d figures equal, %d bounds, %d sentences; %d wrong" % (compared, counts["equal"], counts["bound"], counts["sentence"], failed))
    sys.exit(1 if failed else 0 if compared else 3)


if __name__ == "__main__":
    main()
