#!/usr/bin/env python3
"""What `gpuprof run` costs a PyTorch program once it has recorded.

record_overhead.py GPUPROF PYTHON [PAIRS]: runs testdata/programs/steady.py in turn
without and with gpuprof and compares the steps after the recording; the
results must be the same bits.
"""

import os
import statistics
import subprocess
import sys
import tempfile

gpuprof, python, pairs = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 8
program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "testdata", "programs", "steady.py")
command = [python, program]
ratios = {"clock": [], "processor time": []}
with tempfile.TemporaryDirectory() as work:
    for n in range(pairs):
        got = {}
        for profiled in (n % 2 == 0, n % 2 == 1):
            args = [gpuprof, "run", "--no-analyze", "-o", "p%d" % n, "--"] + command if profiled else command
            out = subprocess.run(args, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True).stdout
            got[profiled] = out.split()
        if got[True][2] != got[False][2]:
            sys.exit("the results differ: %s and %s" % (got[True][2], got[False][2]))
        for i, name in enumerate(ratios):
            ratios[name].append(float(got[True][i]) / float(got[False][i]))
        print("pair %d: clock %.4f, processor time %.4f" % (n + 1, ratios["clock"][-1], ratios["processor time"][-1]), flush=True)
for name, v in ratios.items():
    print("%s: median ratio with to without %.4f over %d pairs, %.4f to %.4f" % (name, statistics.median(v), pairs, min(v), max(v)))
