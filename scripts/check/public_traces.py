#!/usr/bin/env python3
"""Step times and findings of gpuprof analyze on public traces.

public_traces.py [--gpuprof BIN] [--from DIR | --cache DIR] [--tolerance 0.02]

The traces are fetched from public GitHub repositories at a fixed commit and are
not part of this repository. The period is computed here from the JSON text
alone: from the last device operation that step n-1 launched to the last one that
step n launched. Each step that gpuprof counts is compared. A device that is idle
for more than 15 % of the step needs a finding, no finding may claim less than
0.5 % of the step, and the first finding of a model is the same on an NVIDIA and
on an AMD GPU. --from reads a folder of traces and fetches nothing. Exit code 1: a
step differs by more than the tolerance, a finding is missing or too small, or
gpuprof failed; 3: no trace was compared.
"""

import argparse
import collections
import gzip
import hashlib
import http.client
import json
import os
import subprocess
import sys
import time
import urllib.parse
import urllib.request

RAW = "https://raw.githubusercontent.com"
# repository, commit, path, and the blob: git's own hash of the content
HTA = ("facebookresearch/HolisticTraceAnalysis", "f4d0062c382f42bd8a74838bcdad1916c7d5d2da")
TRACELENS = ("AMD-AGI/TraceLens", "171dd74721ca1ec45709e5805b68ae1f65e27811")
SOURCES = [
    (*HTA, "tests/data/df_index_resolver/df_index_resolver.json.gz", "07019a1e8e6d026c4b834477b5691c2505badc1e"),
    (*HTA, "tests/data/nccl_parser_config/nccl_data.json.gz", "b4b6dcef87858f3ca2b9ca78646c09d4d4565518"),
    (*HTA, "tests/data/negative_queue_length_values_check/rank0.json.gz", "d71a78d5110a7da32087ae47ff33eefc9c9a7886"),
    (*HTA, "tests/data/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz", "e8fe4d1b5b476f171cabf97d933c27ab4aadbbe5"),
    (*HTA, "tests/data/trace_diff/control/control.json.gz", "b1ceb4c08168dccf9cd6edac595d6764cc347b08"),
    (*HTA, "tests/data/trace_diff/test/test.json.gz", "949c3c47e47ceadc0e18eb90be043d8f512432d8"),
    (*HTA, "tests/data/trace_filter/sampled_rank-0.json.gz", "c56feed5f481f51e3c81f973bcbb830dfa7ae084"),
    (*HTA, "tests/data/trace_filter/sampled_rank-1.json.gz", "5dbc949e4018dba4343dee56f51d579eb2e70d44"),
    (*TRACELENS, "tests/traces/mi300/resnet_act_checkpoint.json.gz", "02488a344e426897a6d4590a90d5df9e0cbbc0c1"),
    ("pytorch/kineto", "be239c044d2f4b62982e1ff64144097acd69f59a", "tb_plugin/samples/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz", "769c3eb7843639ac114d183e07304b6d44931452"),
    ("pytorch/kineto", "c6e5fe205a8be11181aac547f88424cb3a28c8f8", "tb_plugin/samples/resnet50_num_workers_4/worker0.1623212756351.pt.trace.json.gz", "234cf25df597fb99765ee2a49978f5f3c4bbbaf9"),
]
# The same models on both, with their blobs: tests/traces/{h100,mi300}/MODEL.json.gz of TraceLens.
TWINS = [
    ("Falconsai_nsfw_image_detection__1016002", "0702619a7179d6a29cd69f57b6fcbd9ad230afd3", "fa7c06f9bfd8699fb06b9fdda132fd0e51127ad1"),
    ("Qwen_Qwen1.5-0.5B-Chat__1016005", "6f3f5884fc029cd2f138312bc27ff66a9d9c901f", "7a9929e0f5943a9b0f4755bd6ec5fb9ec1ad75e2"),
    ("facebook_timesformer-base-finetuned-k400__1016002", "5e8c10d7d641998eb21d09aef686db4fa4adcdbd", "361029787d8781a8a44bcbc475ba7450a2bbcc4e"),
    ("gaunernst_bert-small-uncased__1016001", "737b43a141b87d833869ac00a466a7fbec3598a1", "ec4563ad7fe1324a835ee8df9e15df6c24ef6546"),
    ("google_owlv2-large-patch14-ensemble__1016001", "64cc6ea98f8e399e2537e5db3d11b3cce1738afb", "684f2ab9b5b2f397f67238377099067dae26b83a"),
]
SOURCES += [(*TRACELENS, "tests/traces/%s/%s.json.gz" % (gpu, model), blob) for model, *blobs in TWINS for gpu, blob in zip(("h100", "mi300"), blobs)]
IDLE = 0.15  # of the step, above which a finding has to say why
LEAST = 0.005  # of the step, below which a claim is no finding
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}
LAUNCH = {"cuda_runtime", "cuda_driver", "runtime", "hip_runtime", "privateuse1_runtime"}
ATTEMPTS = 3
PAUSE_S = 2  # before the second attempt, twice as long before the third
REFUSED = 4  # gpuprof's exit code for a file that is no trace


def blob_of(path):
    """The hash by which git names a file's content."""
    h = hashlib.sha1(b"blob %d\0" % os.path.getsize(path))
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            h.update(block)
    return h.hexdigest()


def fetch(repo, commit, path, blob, into):
    """The local file of a source, or a sentence saying why there is none. What was cut
    short or changed on the way, or is so in the cache, is fetched again."""
    local = os.path.join(into, repo.replace("/", "+"), path)  # twins have one name in two folders
    if os.path.exists(local) and blob_of(local) == blob:
        return local, ""
    os.makedirs(os.path.dirname(local), exist_ok=True)
    url = "%s/%s/%s/%s" % (RAW, repo, commit, urllib.parse.quote(path))
    for attempt in range(ATTEMPTS):
        time.sleep(PAUSE_S * attempt)
        try:
            with urllib.request.urlopen(url, timeout=60) as answer, open(local + ".part", "wb") as f:
                while block := answer.read(1 << 20):
                    f.write(block)
                size, length = f.tell(), answer.headers.get("Content-Length")
        except (OSError, http.client.HTTPException) as e:  # a broken answer is no OSError
            why = "%s: %s" % (type(e).__name__, e)
            continue
        if blob_of(local + ".part") == blob:
            os.replace(local + ".part", local)
            return local, ""
        short = length is not None and size != int(length)
        why = "%d of %s bytes came" % (size, length) if short else "its %d bytes are not blob %s" % (size, blob)
    return "", "fetching %s failed %d times: %s" % (url, ATTEMPTS, why)


def load(path):
    with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as f:
        text = f.read().decode("utf-8", "replace")
    # Numbers with a fraction stay text: a double holds no nanoseconds since 1970.
    data = json.loads(text, strict=False, parse_float=str)
    return data["traceEvents"] if isinstance(data, dict) else data


def ns(value):
    """Microseconds as JSON has them, in whole nanoseconds."""
    whole, _, part = str(value).partition(".")
    if "e" in part.lower():
        return round(float(value) * 1000)
    sign = -1 if whole.startswith("-") else 1
    return int(whole or 0) * 1000 + sign * int((part + "000")[:3])


def periods(events):
    """The device period of each step by name, ns, or a sentence saying why there is none."""
    steps, launches, ends = [], {}, collections.defaultdict(int)
    for e in events:
        if not isinstance(e, dict) or e.get("ph") != "X" or "ts" not in e:
            continue
        name, kind = str(e.get("name", "")), str(e.get("cat", "")).lower()
        args = e.get("args") or {}
        if name.startswith("ProfilerStep#") and not kind.startswith("gpu_"):
            steps.append((ns(e["ts"]), ns(e.get("dur", 0)), name))
        elif kind in LAUNCH and "correlation" in args:
            launches[args["correlation"]] = ns(e["ts"])
        elif kind in DEVICE and "correlation" in args:
            ends[args["correlation"]] = max(ends[args["correlation"]], ns(e["ts"]) + ns(e.get("dur", 0)))
    steps.sort()
    if len({name for _, _, name in steps}) != len(steps):
        return {}, "several threads or processes name the same step"
    if len(steps) < 2:
        return {}, "fewer than two steps"
    last = [0] * len(steps)
    for correlation, end in ends.items():
        at = launches.get(correlation)
        for i, (start, length, _) in enumerate(steps):
            if at is not None and start <= at < start + length:
                last[i] = max(last[i], end)
    out = {}
    for i in range(1, len(steps)):
        if last[i] > last[i - 1] > 0:
            out[steps[i][2]] = last[i] - last[i - 1]
    return out, "" if out else "no step launched device operations"


def analyze(gpuprof, path):
    done = subprocess.run([gpuprof, "analyze", "--format", "json", path], capture_output=True, text=True, timeout=600)
    try:
        return json.loads(done.stdout), ""
    except ValueError:
        return None, done.stderr.strip()[-200:] if done.returncode == REFUSED else "FAIL gpuprof exited with %d: %s" % (done.returncode, done.stderr.strip()[-200:])


def silent(doc):
    """What is wrong with the findings of an analysis, or ""."""
    step = doc["step"]
    idle = sum(step[part] for part in ("starved_ns", "queued_ns", "unknown_ns", "outside_ns"))
    if doc["devices"] and idle > IDLE * step["ns"] and not doc["findings"]:
        return "the device is idle for %.0f %% of the step without a finding" % (100 * idle / step["ns"])
    small = [f["rule"] for f in doc["findings"] if 0 < f.get("claim_step_ns", 0) < LEAST * step["ns"]]
    return "%s claims less than %.1f %% of the step" % (small[0], 100 * LEAST) if small else ""


def compare(gpuprof, path, firsts):
    """(steps compared, worst difference, mean period ns, mean step ns, reason, failed)."""
    try:
        truth, why = periods(load(path))
    except (ValueError, KeyError, OSError, EOFError) as e:
        truth, why = {}, "not read here: %s" % str(e)[:80]
    doc, failed = analyze(gpuprof, path)
    if failed:
        return 0, 0, 0, 0, failed, failed.startswith("FAIL")
    firsts[path] = doc["findings"][0]["rule"] if doc["findings"] else ""
    if wrong := silent(doc):
        return 0, 0, 0, 0, "FAIL " + wrong, True
    pairs = [(truth[s["name"]], s["dur_ns"]) for s in doc.get("steps", []) if not s.get("dropped") and s["name"] in truth]
    if not pairs:
        return 0, 0, 0, 0, why or "gpuprof counts no step of those", False
    worst = max(abs(got - want) / want for want, got in pairs)
    n = len(pairs)
    return n, worst, sum(w for w, _ in pairs) / n, sum(g for _, g in pairs) / n, "", False


def files_of(folder):
    return sorted(os.path.join(d, f) for d, _, names in os.walk(folder) for f in names if f.endswith((".json", ".json.gz")) and f != "index.json")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--gpuprof", default="bin/gpuprof")
    p.add_argument("--from", dest="folder", help="a folder of traces, in place of fetching")
    p.add_argument("--cache", default=".bin/public-traces")
    p.add_argument("--tolerance", type=float, default=0.02)
    o = p.parse_args()
    missing = []
    if o.folder:
        paths = files_of(o.folder)
    else:
        got = [fetch(*source, o.cache) for source in SOURCES]
        paths, missing = [path for path, _ in got if path], [why for _, why in got if why]
    compared, bad, firsts = 0, 0, {}
    print("%-58s %5s %12s %12s %8s" % ("trace", "steps", "period us", "step us", "worst"))
    for path in paths:
        n, worst, want, got, why, failed = compare(o.gpuprof, path, firsts)
        name = os.path.basename(path)[-58:]
        if n == 0:
            print("%-58s - %s" % (name, why), flush=True)
        else:
            print("%-58s %5d %12.1f %12.1f %7.2f%%%s" % (name, n, want / 1e3, got / 1e3, 100 * worst, "  FAIL" if worst > o.tolerance else ""), flush=True)
        compared += n > 0
        bad += failed or worst > o.tolerance
    for model, *_ in TWINS:
        rules = {os.path.basename(os.path.dirname(path)): rule for path, rule in firsts.items() if os.path.basename(path).startswith(model)}
        if len(rules) == 2:
            differ = len(set(rules.values())) > 1
            bad += differ
            print("first finding of %-50s %s%s" % (model[:50], ", ".join("%s: %s" % r for r in sorted(rules.items())), "  FAIL" if differ else ""))
    for why in missing:
        print("missing: " + why)
    print("%d traces compared, %d failed, %d could not be fetched" % (compared, bad, len(missing)))
    return 1 if bad else 3 if compared == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
