#!/usr/bin/env python3
"""Race gridsim's law against PyTorch on the CPU: same inputs, same threads, taking turns.

    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python scripts/peer/peer_grid.py [--threads 2] [--rounds 12] [--grid 128] [--channels 8] [--hidden 32] [--compile]

PyTorch runs the law eagerly with gradients off, in inference mode and, with --compile, compiled. Every round runs each
program once for --steps steps, in turn; the table shows the median over rounds and the median and range of eager's time over
this program's, round by round: above 1 it is faster than eager. After --check steps from the start all states must agree
to 1e-5 or the script fails. On a GPU, --cuda runs the law eagerly 1,000 times there and prints torch.cuda.memory_stats
beside the counts of gpuprof's pool in docs/gridsim.md.
"""
import argparse
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from gridlaw import law

ROOT = pathlib.Path(__file__).resolve().parents[2]


def advance(step, psi, net, steps):
    for _ in range(steps):
        psi = step(psi, *net)
    return psi


def cuda_counts(args, psi, net):
    """Peaks of PyTorch's allocator over 1,000 eager steps on the GPU."""
    psi, net = psi.cuda(), [w.cuda() for w in net]
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    with torch.no_grad():
        advance(law, psi, net, 1000)
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    for name in ("allocated_bytes.all.peak", "reserved_bytes.all.peak", "num_device_alloc", "num_device_free"):
        print(f"torch.cuda {name:28} {stats.get(name, 0):>14,}")


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("threads", 2), ("rounds", 12), ("steps", 20), ("check", 10), ("grid", 128), ("channels", 8), ("hidden", 32)):
        ap.add_argument("--" + name, type=int, default=default)
    ap.add_argument("--compile", action="store_true", help="torch.compile as well (it needs a C++ compiler)")
    ap.add_argument("--cuda", action="store_true", help="print the counts of PyTorch's allocator on the GPU and end")
    args = ap.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    n, c, h = args.grid, args.channels, args.hidden
    net = [torch.randn(h, 2 * c) / (2 * c) ** 0.5, 0.1 * torch.randn(h), torch.randn(c, h) / h ** 0.5, 0.1 * torch.randn(c)]
    psi = torch.nn.functional.normalize(torch.randn(c, n, n), dim=0)
    if args.cuda:
        return cuda_counts(args, psi, net)

    peers = {"torch no_grad": (law, torch.no_grad), "torch inference_mode": (law, torch.inference_mode)}
    if args.compile:
        peers["torch.compile"] = (torch.compile(law), torch.inference_mode)
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        with open(tmp / "in", "wb") as f:
            f.write(struct.pack("<3i", n, c, h))
            for t in net + [psi]:
                f.write(t.numpy().astype("<f4").tobytes())
        subprocess.run(["go", "build", "-o", tmp / "peer", "./scripts/peer/grid"], check=True, cwd=ROOT)
        failed = race(args, tmp, peers, psi, net)
    sys.exit(1 if failed else 0)


def race(args, tmp, peers, psi, net):
    children = {}
    for impl in ("fused", "gemm", "split"):
        children[f"gpuprof {impl}"] = subprocess.Popen([tmp / "peer", tmp / "in", tmp / f"gpuprof {impl}", str(args.threads), f"impl={impl}"],
                                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(child, request):
        child.stdin.write(request + "\n")
        child.stdin.flush()
        return child.stdout.readline().strip()

    with torch.inference_mode():
        want = advance(law, psi, net, args.check).double()
    errors = {}
    for name, child in children.items():
        ask(child, f"run {args.check}")
        ask(child, "state")
        errors[name] = torch.from_numpy(numpy.fromfile(tmp / name, "<f4")).reshape(want.shape).double()
    for name, (step, mode) in peers.items():
        with mode():
            errors[name] = advance(step, psi, net, args.check).double()
    errors = {name: ((got - want).norm() / want.norm()).item() for name, got in errors.items()}

    def timed(step, mode):
        with mode():
            began = time.perf_counter()
            advance(step, psi, net, args.steps)
            return time.perf_counter() - began

    runners = {name: (lambda child=child: float(ask(child, f"run {args.steps}"))) for name, child in children.items()}
    runners.update({name: (lambda s=s, m=m: timed(s, m)) for name, (s, m) in peers.items()})
    times = {name: [] for name in runners}
    for i in range(args.rounds + 1):  # the first round warms up
        for name in (list(runners) if i % 2 == 0 else reversed(list(runners))):
            t = runners[name]() / args.steps
            if i > 0:
                times[name].append(t)
    print(f"grid {args.grid} x {args.grid}, C {args.channels}, H {args.hidden}, {args.threads} threads, torch {torch.__version__}, {args.rounds} rounds of {args.steps} steps")
    for name, own in times.items():
        ratios = sorted(t / o for t, o in zip(times["torch no_grad"], own))
        print(f"{name:22} {statistics.median(own) * 1e3:8.3f} ms   eager / this {statistics.median(ratios):5.2f}"
              f" ({ratios[0]:.2f} to {ratios[-1]:.2f})   differs by {errors[name]:.1e}")
    for child in children.values():
        child.stdin.close()
        child.wait()
    return any(not e < 1e-5 for e in errors.values())


if __name__ == "__main__":
    main()
