#!/usr/bin/env python3
"""Race gpuprof's GRU against torch.nn.GRU on the CPU: same inputs, same threads, taking turns.

    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python scripts/peer_gru.py [--threads 2] [--rounds 12] [--flows 1024] [--hidden 128] [--depth 40]
    venv/bin/python scripts/peer_gru.py --flows 12544 --hidden 256 --depth 4 --reps 3
    venv/bin/python scripts/peer_gru.py --backward --flows 256 --hidden 64 --layers 2

A forward is depth calls of one time step each, the state carried on, as the workload gruflow makes them; with
--sequence it is one call of depth time steps. Every round runs each program once, in turn, and reports the median of
its repetitions; the table shows the median over rounds and the median and range of torch's time over gpuprof's, round by
round: above 1 gpuprof is faster. The last states must agree to 1e-5 or the script fails.
With --backward a run is one call of depth time steps forward and then backward, by torch.autograd and by gpuprof's own
kernels, and all gradients must agree.
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

ROOT = pathlib.Path(__file__).parent.parent


def write_input(path, args, gru, x, h0, dout):
    calls, steps = (1, args.depth) if args.sequence else (args.depth, 1)
    with open(path, "wb") as f:
        f.write(struct.pack("<6i", calls, steps, args.flows, args.input, args.hidden, args.layers))
        tensors = [x, h0]
        for layer in range(args.layers):
            tensors += [getattr(gru, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        if args.backward:
            tensors.append(dout)
        for t in tensors:
            f.write(t.detach().numpy().astype("<f4").tobytes())


def median_time(fn, reps):
    times = []
    for _ in range(reps):
        began = time.perf_counter()
        fn()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("threads", 2), ("rounds", 12), ("reps", 5), ("flows", 1024), ("hidden", 128), ("input", 65),
                          ("layers", 3), ("depth", 40)):
        ap.add_argument("--" + name, type=int, default=default)
    ap.add_argument("--sequence", action="store_true", help="one call of depth time steps instead of depth calls")
    ap.add_argument("--backward", action="store_true", help="forward and backward through one call of depth time steps")
    args = ap.parse_args()
    args.sequence |= args.backward
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    gru = torch.nn.GRU(args.input, args.hidden, args.layers)
    x = torch.randn(args.depth if args.sequence else 1, args.flows, args.input)
    h0 = torch.rand(args.layers, args.flows, args.hidden) - 0.5

    def forward():
        h = h0
        for _ in range(1 if args.sequence else args.depth):
            _, h = gru(x, h)
        return h

    dout = torch.randn(args.depth, args.flows, args.hidden) if args.backward else None
    if args.backward:
        x.requires_grad_()
        h0.requires_grad_()

    def train():
        leaves = [x, h0, *gru.parameters()]
        for t in leaves:
            t.grad = None
        out, _ = gru(x, h0)
        out.backward(dout)
        return torch.cat([t.grad.flatten() for t in leaves])

    work = train if args.backward else forward
    with tempfile.TemporaryDirectory() as tmp, torch.inference_mode(not args.backward):
        tmp = pathlib.Path(tmp)
        write_input(tmp / "in", args, gru, x, h0, dout)
        subprocess.run(["go", "build", "-o", tmp / "peer", "./scripts/peergru"], check=True, cwd=ROOT)
        children = {}
        for impl in ("backward",) if args.backward else ("fused", "plain", "persistent"):
            children[f"gpuprof {impl}"] = subprocess.Popen(
                [tmp / "peer", tmp / "in", tmp / f"gpuprof {impl}", impl, str(args.threads)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def ask(child):
            child.stdin.write(f"run {args.reps}\n")
            child.stdin.flush()
            return float(child.stdout.readline())

        runners = {n: (lambda c=c: ask(c)) for n, c in children.items()}
        runners["torch.nn.GRU"] = lambda: median_time(work, args.reps)
        for fn in runners.values():
            fn()
        times = {n: [] for n in runners}
        for i in range(args.rounds):
            for n in (list(runners) if i % 2 == 0 else reversed(list(runners))):
                times[n].append(runners[n]())
        want = work().double()
        failed = report(args, times, children, tmp, want)
    sys.exit(1 if failed else 0)


def report(args, times, children, tmp, want):
    passes = 3 if args.backward else 1  # backward is two products for each of the forward
    flops = passes * args.depth * args.flows * 6 * args.hidden * (args.input + args.hidden + (args.layers - 1) * 2 * args.hidden)
    print(f"GRU {args.input} -> {args.hidden} x {args.layers}, {args.flows} flows, depth {args.depth}"
          f" ({'one call' if args.sequence else 'a call each'}{', forward and backward' if args.backward else ''}), {args.threads} threads, torch {torch.__version__},"
          f" {args.rounds} rounds")
    torch_times, failed = times["torch.nn.GRU"], False
    for n, own in times.items():
        ratios = sorted(t / o for t, o in zip(torch_times, own))
        line = f"{n:20} {statistics.median(own) * 1e3:9.2f} ms {flops / statistics.median(own) / 1e9:7.1f} GF/s"
        line += f"   torch / this {statistics.median(ratios):5.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        if n in children:
            children[n].stdin.close()
            children[n].wait()
            got = torch.tensor(numpy.fromfile(tmp / n, "<f4")).reshape(want.shape).double()
            err = ((got - want).norm() / want.norm()).item()
            failed |= not err < 1e-5
            line += f"   differs by {err:.1e}"
        print(line)
    return failed


if __name__ == "__main__":
    main()
