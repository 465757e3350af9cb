#!/usr/bin/env python3
"""Compares gpuprof analyze with Python's json and HolisticTraceAnalysis.

All read the same generated trace, in turn within one run, so that a noisy
machine slows all of them alike. What each does differs and is printed beside
its time: gpuprof reads and analyses, json only decodes, HolisticTraceAnalysis
(when it can be imported) reads and makes its temporal breakdown.

    python scripts/peer/peer_analyze.py [--mb 100] [--rounds 5]
"""

import argparse
import gzip
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

JSON = "import json, sys; json.load(open(sys.argv[1]))"
HTA = """
import sys, warnings
warnings.filterwarnings("ignore")
from hta.trace_analysis import TraceAnalysis
TraceAnalysis(trace_files={0: sys.argv[1]}).get_temporal_breakdown(visualize=False)
"""


def timed(args):
    """Wall time in seconds and peak resident memory in MB of one process."""
    began = time.perf_counter()
    child = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    error = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    took = time.perf_counter() - began
    if status != 0:
        sys.exit(f"{' '.join(args[:3])} failed:\n{error.decode()[-2000:]}")
    return took, usage.ru_maxrss / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        gpuprof, gentrace = os.path.join(folder, "gpuprof"), os.path.join(folder, "gentrace")
        subprocess.run(["go", "build", "-o", gpuprof, "./cmd/gpuprof"], cwd=ROOT, check=True)
        subprocess.run(["go", "build", "-o", gentrace, "./scripts/record/gentrace"], cwd=ROOT, check=True)
        trace = os.path.join(folder, "trace.json")
        subprocess.run([gentrace, "-bytes", str(options.mb * 1_000_000), "-o", trace], check=True)
        size = os.path.getsize(trace) / 1e6
        programs = {
            "gpuprof analyze": [gpuprof, "analyze", trace, "--format", "json"],
            "python json.load": [sys.executable, "-c", JSON, trace],
        }
        if importlib.util.find_spec("hta"):
            packed = trace + ".gz"  # the only form it reads
            with open(trace, "rb") as plain, gzip.open(packed, "wb", compresslevel=1) as out:
                out.write(plain.read())
            programs["HolisticTraceAnalysis"] = [sys.executable, "-c", HTA, packed]
        else:
            print("HolisticTraceAnalysis is not installed (pip install HolisticTraceAnalysis): left out")
        times, memory = {name: [] for name in programs}, {}
        for _ in range(options.rounds):
            for name, args in programs.items():
                took, peak = timed(args)
                times[name].append(took)
                memory[name] = max(memory.get(name, 0), peak)
        base = times["gpuprof analyze"]
        print(f"{size:.0f} MB of JSON text, {options.rounds} rounds in turn")
        for name, took in times.items():
            ratios = [t / b for t, b in zip(took, base)]
            print(
                f"{name:24} {statistics.median(took):8.3f} s  {size / statistics.median(took):8.0f} MB/s  peak {memory[name]:7.0f} MB"
                f"  {statistics.median(ratios):6.1f}x gpuprof's time [{min(ratios):.1f}, {max(ratios):.1f}]"
            )


if __name__ == "__main__":
    main()
