"""Runs whole gates of programs that print seeded times, and counts false alarms and found slowdowns.

python scripts/check/gate_rates.py GPUPROF [MODEL...] [--gates 40] [--slower 0.1] [-o rates.json]

Each gate compares two commits of a small git repository, in fresh processes as a user's gate does. The program prints a
time that a noise model draws from the gate's seed and the number of the process, so the machine's load does not change
the verdicts. Exits 1 where a gate of equal commits fails in more than 1 %, or fewer than 95 % of the slowdowns are found.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

# The program: SLOWER is 0 in the old commit. The number of the process comes from a file that grows by one byte.
PROGRAM = '''import math, os, random
SLOWER = %r
with open(os.environ["GATE_STATE"], "ab") as state:
    state.write(b".")
    state.flush()
    process = os.fstat(state.fileno()).st_size
seed, model = int(os.environ["GATE_SEED"]), os.environ["GATE_MODEL"]
own = random.Random(seed * 100003 + process)
if model == "normal":  # 2 %% in each process
    noise = own.gauss(0, 0.02)
elif model == "slow processes":  # one process in seven is 15 %% slower
    noise = own.gauss(0, 0.01) + (math.log(1.15) if own.random() < 0.15 else 0)
else:  # a walk of 1 %% a process
    noise = sum(random.Random(seed * 100003 + k).gauss(0, 0.01) for k in range(process)) + own.gauss(0, 0.005)
print("BenchmarkStep-1 100 %%.0f ns/op" %% (1e6 * math.exp(noise) * (1 + SLOWER)))
'''
MODELS = ["normal", "slow processes", "walk"]


def git(repo, *words):
    identity = ["-c", "user.name=gate", "-c", "user.email=gate@example.invalid"]
    subprocess.run(["git", *identity, "-C", str(repo), *words], check=True, capture_output=True)


def make_repository(folder, slower):
    """A repository with the tag "same" and "slower", each one commit after "base"."""
    git(folder, "init", "-q", "-b", "main")
    for tag, factor in [("base", 0), ("slower", slower)]:
        (folder / "bench.py").write_text(PROGRAM % factor)
        git(folder, "add", "bench.py")
        git(folder, "commit", "-q", "--allow-empty", "-m", tag)
        git(folder, "tag", tag)


def gate(options, repo, scratch, model, seed):
    state = scratch / "state"
    state.unlink(missing_ok=True)
    env = dict(os.environ, GATE_STATE=str(state), GATE_SEED=str(seed), GATE_MODEL=model)
    command = [options.gpuprof, "gate", "--quiet", "--against", "base", "--", sys.executable, "bench.py"]
    run = subprocess.run(command, cwd=repo, env=env, capture_output=True, text=True)
    if run.returncode not in (0, 1, 3):
        sys.exit("gate_rates: the gate ended with %d: %s" % (run.returncode, run.stderr.strip()[-300:]))
    return run.returncode, state.stat().st_size


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gpuprof")
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--gates", type=int, default=40)
    parser.add_argument("--slower", type=float, default=0.1)
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    options.gpuprof = str(pathlib.Path(options.gpuprof).resolve())
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        repo = folder / "repo"
        repo.mkdir()
        make_repository(repo, options.slower)
        for model in options.models:
            for side in ("base", "slower"):
                git(repo, "checkout", "-q", side)
                ends = [gate(options, repo, folder, model, seed) for seed in range(1, options.gates + 1)]
                row = {"model": model, "commit": side, "gates": len(ends), "processes": sum(n for _, n in ends)}
                row.update({name: sum(rc == code for rc, _ in ends) for name, code in [("passed", 0), ("failed", 1), ("not decided", 3)]})
                rows.append(row)
                print(json.dumps(row), flush=True)
    if options.output:
        pathlib.Path(options.output).write_text(json.dumps(rows, indent=1) + "\n")
    false = max(r["failed"] / r["gates"] for r in rows if r["commit"] == "base")
    found = min(r["failed"] / r["gates"] for r in rows if r["commit"] == "slower")
    return 1 if false > 0.01 or found < 0.95 else 0


if __name__ == "__main__":
    sys.exit(main())
