#!/usr/bin/env python3
"""What `gpuprof run` costs a PyTorch program: in its recorded steps, in those in which it samples the stack, and after them.

record_overhead.py GPUPROF PYTHON [PAIRS [WIDTH BATCH SKIP]]: runs testdata/programs/steady.py, with these arguments, without
and with gpuprof in turns (ABBA). Each step is compared with the steps before the recording in the same process, and
that ratio with the same ratio without gpuprof: the speed of the machine, which differs between processes, cancels. The
results must be the same bits. The same is done with two runs without gpuprof for each pair: their ratios, which should
be 1, tell what the machine lets one see. The intervals are 95 % ones of the median over pairs, by order statistics.
"""

import os
import statistics
import subprocess
import sys
import tempfile

gpuprof, python, pairs = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 24
arguments = sys.argv[4:7] or ["128", "32", "500"]
program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "testdata", "programs", "steady.py")
NAMES = ("recorded steps", "sampled steps", "steps after")


def run(work, recording):
    """The ratios to the steps before, and the checksum; recording is the folder of the recording, or None for none."""
    command = [python, program, *arguments]
    if recording:
        command = [gpuprof, "run", "--no-analyze", "--skip", arguments[2], "-o", recording, "--", *command]
    out = subprocess.run(command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True).stdout
    fields = out.split()
    before = float(fields[0])
    return [float(f) / before for f in fields[1:4]], fields[4]


def interval(values):
    """The median, and the order statistics that hold the true one with 95 % (sign test)."""
    values, n = sorted(values), len(values)
    tail, chance, skip = 0.0, 0.5 ** n, 0
    while tail + chance <= 0.025:
        tail += chance
        skip += 1
        chance *= (n - skip + 1) / skip
    if skip == 0:
        return statistics.median(values), float("-inf"), float("inf")
    return statistics.median(values), values[skip - 1], values[n - skip]


def main():
    with_gpuprof = {name: [] for name in NAMES}
    without = {name: [] for name in NAMES}
    with tempfile.TemporaryDirectory() as work:
        for n in range(pairs):
            turns = (False, True, False) if n % 2 else (True, False, False)
            got = [run(work, "p%d" % n if profiled else None) for profiled in turns]
            if len({bits for _, bits in got}) != 1:
                sys.exit("the results differ: %s" % ", ".join(bits for _, bits in got))
            bare = [ratios for (ratios, _), profiled in zip(got, turns) if not profiled]
            recorded = got[turns.index(True)][0]
            for i, name in enumerate(NAMES):
                with_gpuprof[name].append(recorded[i] / bare[0][i])
                without[name].append(bare[1][i] / bare[0][i])
            print("pair %d: %s" % (n + 1, ", ".join("%s %.4f (without both times %.4f)" % (name, with_gpuprof[name][-1], without[name][-1])
                                                    for name in NAMES)), flush=True)
    for name in NAMES:
        for what, values in (("with to without gpuprof", with_gpuprof[name]), ("without both times", without[name])):
            print("%s, %s: %.4f (95 %% %.4f to %.4f), %d pairs" % ((name, what) + interval(values) + (pairs,)))


main()
