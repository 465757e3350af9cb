#!/usr/bin/env python3
"""Writes what PyTorch's own memory_viz says of the snapshots in testdata/memory, for the tests of the replay.

    python3 scripts/record/export_memory_vectors.py testdata/memory/vectors.json testdata/memory/*.pickle.gz

Needs torch/cuda/_memory_viz.py alone, which is pure Python: no GPU and no stand-in for one.
"""

import gzip
import importlib.util
import json
import os
import pickle
import re
import sys


def viz():
    """The module without importing torch, which takes seconds and nothing of it is needed."""
    where = importlib.util.find_spec("torch").submodule_search_locations[0]
    spec = importlib.util.spec_from_file_location("memory_viz", os.path.join(where, "cuda", "_memory_viz.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load(path):
    with gzip.open(path) as f:
        return pickle.load(f)


def sums(mv, snapshot):
    """The sums of its segments, in whole bytes, where it prints a few digits."""
    mv.Bytes = str
    mv._report_free = lambda external, internal: f"{external} {internal}"
    out = {}
    text = mv.segsum(snapshot)
    for key in ("segments", "total_reserved", "total_allocated"):
        out[key] = int(re.search(rf"^{key}: (\d+)$", text, re.M)[1])
    external, internal = re.search(r"^total_free: (\d+) (\d+)$", text, re.M).groups()
    out["free_external"], out["free_internal"] = int(external), int(internal)
    return out


def described(mv, path):
    out = sums(mv, load(path))
    stacks = {}
    for line in mv.memory(load(path), format_flamegraph=lambda s: s).splitlines():
        stack, size = line.rsplit(" ", 1)
        parts = stack.split(";")
        if parts[1] == "active_allocated" and "<gaps>" not in parts:
            key = ";".join(parts[2:])
            stacks[key] = stacks.get(key, 0) + int(size)
    out["stacks"] = stacks
    left = mv.filter_alloc_free_pairs(load(path))["device_traces"]
    allocs = [e for trace in left for e in trace if e["action"] == "alloc"]
    out["unpaired_allocs"], out["unpaired_bytes"] = len(allocs), sum(e["size"] for e in allocs)
    return out


def main(to, *paths):
    mv = viz()
    vectors = {os.path.basename(p).removesuffix(".pickle.gz"): described(mv, p) for p in paths}
    with open(to, "w") as f:
        json.dump(vectors, f, indent=1, sort_keys=True)
        f.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
