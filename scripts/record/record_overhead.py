#!/usr/bin/env python3
"""What `gpuprof run` costs a PyTorch program: in its recorded steps, in those in which it samples the stack, and after them.

record_overhead.py GPUPROF PYTHON [PAIRS [WIDTH BATCH STEPS FROM]]: runs testdata/programs/steady.py, with these
arguments, without and with gpuprof in turns (ABBA) and compares the steps; the results must be the same bits. The
intervals are 95 % ones of the geometric mean over pairs, by Student's t.
"""

import math
import os
import statistics
import subprocess
import sys
import tempfile

gpuprof, python, pairs = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 8
program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "testdata", "programs", "steady.py")
command = [python, program, *sys.argv[4:8]]
ratios = {"clock after": [], "processor time after": [], "clock of recorded steps": [], "clock of sampled steps": []}
FIELDS = (0, 1, 3, 4)  # of the program's line
T95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26, 11: 2.23, 12: 2.20}  # by the number of pairs
with tempfile.TemporaryDirectory() as work:
    for n in range(pairs):
        got = {}
        for profiled in (n % 2 == 0, n % 2 == 1):
            args = [gpuprof, "run", "--no-analyze", "-o", "p%d" % n, "--"] + command if profiled else command
            out = subprocess.run(args, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True).stdout
            got[profiled] = out.split()
        if got[True][2] != got[False][2]:
            sys.exit("the results differ: %s and %s" % (got[True][2], got[False][2]))
        for i, name in zip(FIELDS, ratios):
            ratios[name].append(float(got[True][i]) / float(got[False][i]))
        print("pair %d: %s" % (n + 1, ", ".join("%s %.4f" % (name, v[-1]) for name, v in ratios.items())), flush=True)
for name, v in ratios.items():
    logs = [math.log(r) for r in v]
    half = T95.get(pairs, 2.2) * statistics.stdev(logs) / math.sqrt(pairs) if pairs > 1 else math.inf
    mean = statistics.mean(logs)
    print("%s: ratio with to without %.4f (95 %% %.4f to %.4f) over %d pairs" % (name, math.exp(mean), math.exp(mean - half), math.exp(mean + half), pairs))
