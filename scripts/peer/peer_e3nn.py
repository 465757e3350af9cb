#!/usr/bin/env python3
"""Race gpuprof's tensor product against e3nn's on the CPU: same inputs, same threads, taking turns.

    python3 -m venv venv && venv/bin/pip install torch e3nn
    venv/bin/python scripts/peer/peer_e3nn.py [--threads 2] [--rounds 12] [--edges 5000] [--backward]

The job is the convolution of the preset mace-medium (128x0e+128x1o x lmax 3 -> 128x0e+128x1o+128x2e) over the first
edges of a 5x5x5 diamond cell: gather the source features, tensor product with per-edge weights, sum at the
destination. With --backward it is the gradients by features, harmonics and weights instead, from one given for the
sums: autograd goes back through a graph that is kept, so that no forward pass is in its times. e3nn's TensorProduct is compiled to TorchScript (its default) and, with --inductor, by torch.compile as
well; both get the gather before and an index_add after. Every round runs each program once, in turn, and reports the
median of its repetitions; the table shows the median over rounds and the median and range of the ratio round by
round. The results must agree to 1e-5 or the script fails.
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
from e3nn import o3

IN, SH, TARGET = o3.Irreps("128x0e+128x1o"), o3.Irreps.spherical_harmonics(3), o3.Irreps("128x0e+128x1o+128x2e")


def diamond_edges(count, cutoff=6.0, a=3.567, n=5):
    """The first edges of the periodic cell, sorted by destination: src, dst, vector."""
    base = numpy.array([[0, 0, 0], [0, 2, 2], [2, 0, 2], [2, 2, 0], [1, 1, 1], [1, 3, 3], [3, 1, 3], [3, 3, 1]]) * a / 4
    cells = numpy.stack(numpy.meshgrid(*[range(n)] * 3, indexing="ij"), -1).reshape(-1, 3) * a
    pos = (cells[:, None] + base[None]).reshape(-1, 3)
    src, dst, vec = [], [], []
    for i, p in enumerate(pos):
        d = pos - p
        d -= n * a * numpy.round(d / (n * a))
        near = numpy.nonzero((numpy.linalg.norm(d, axis=1) < cutoff) & (numpy.arange(len(pos)) != i))[0]
        src += near.tolist()
        dst += [i] * len(near)
        vec += d[near].tolist()
        if len(src) >= count:
            break
    return len(pos), numpy.array(src[:count]), numpy.array(dst[:count]), numpy.array(vec[:count])


def product(irreps=IN, harmonics=SH, target=TARGET):
    """The uvu paths in the order of their (sorted) output blocks, as gpuprof numbers them."""
    mid, ins = [], []
    for i, (mul, ir) in enumerate(irreps):
        for j, (_, sh) in enumerate(harmonics):
            for out in ir * sh:
                if out in target:
                    ins.append((i, j, len(mid), "uvu", True))
                    mid.append((mul, out))
    mid, p, _ = o3.Irreps(mid).sort()
    ins = sorted((i, j, p[k], m, t) for i, j, k, m, t in ins)
    ins.sort(key=lambda t: t[2])
    return o3.TensorProduct(irreps, harmonics, mid, ins, shared_weights=False, internal_weights=False)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=12)
    ap.add_argument("--reps", type=int, default=7)
    ap.add_argument("--edges", type=int, default=5000)
    ap.add_argument("--inductor", action="store_true")
    ap.add_argument("--backward", action="store_true", help="time the gradients rather than the product")
    args = ap.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    nodes, src, dst, vec = diamond_edges(args.edges)
    tp = product()
    x = torch.randn(nodes, IN.dim)
    y = o3.spherical_harmonics(SH, torch.tensor(vec, dtype=torch.float32), True, "component")
    w = torch.randn(len(src), tp.weight_numel)
    tsrc, tdst = torch.tensor(src), torch.tensor(dst)

    def convolve(tp):
        return torch.zeros(nodes, tp.irreps_out.dim).index_add_(0, tdst, tp(x[tsrc], y, w))

    dout = torch.randn(nodes, tp.irreps_out.dim)

    def program(tp):
        """What is timed: the product, or the way back through a graph that is kept."""
        if not args.backward:
            return lambda: convolve(tp)
        inputs = [t.requires_grad_() for t in (x, y, w)]
        for _ in range(3):  # TorchScript specialises its way back on the second pass
            out = convolve(tp)
            torch.autograd.grad(out, inputs, dout, retain_graph=True)
        return lambda: torch.autograd.grad(out, inputs, dout, retain_graph=True)

    programs = {"e3nn TorchScript": program(tp)}
    if args.inductor:
        programs["e3nn torch.compile"] = program(torch.compile(tp))
    with tempfile.TemporaryDirectory() as tmp, torch.set_grad_enabled(args.backward), torch.inference_mode(not args.backward):
        tmp = pathlib.Path(tmp)
        rowptr = numpy.searchsorted(dst, numpy.arange(nodes + 1))
        with open(tmp / "in", "wb") as f:
            f.write(struct.pack("<3i", nodes, len(src), nodes))
            for t in (x, y, w):
                f.write(t.detach().numpy().astype("<f4").tobytes())
            for i in (src, dst, rowptr):
                f.write(i.astype("<i4").tobytes())
            if args.backward:
                f.write(dout.numpy().astype("<f4").tobytes())
                for i in (numpy.cumsum(numpy.bincount(src + 1, minlength=nodes + 1)), numpy.argsort(src, kind="stable")):
                    f.write(i.astype("<i4").tobytes())
        subprocess.run(["go", "build", "-o", tmp / "peer", "./scripts/peer/e3nn"], check=True, cwd=pathlib.Path(__file__).resolve().parents[2])
        children = {}
        forward = (("csr", "ir_mul"), ("csr", "mul_ir"), ("unfused", "mul_ir"))
        for impl, layout in (("backward", "ir_mul"), ("backward", "mul_ir")) if args.backward else forward:
            name = f"gpuprof {impl} {layout}"
            child = subprocess.Popen([tmp / "peer", tmp / "in", tmp / name.replace(" ", "_"), impl, layout, str(args.threads)],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            children[name] = child

        def ask(child):
            child.stdin.write(f"run {args.reps}\n")
            child.stdin.flush()
            return float(child.stdout.readline())

        def clock(fn):
            times = []
            for _ in range(args.reps):
                t = time.perf_counter()
                fn()
                times.append(time.perf_counter() - t)
            return statistics.median(times)

        runners = {n: (lambda c=c: ask(c)) for n, c in children.items()} | {n: (lambda f=f: clock(f)) for n, f in programs.items()}
        for fn in runners.values():  # warm up: TorchScript specialises on its second call
            fn()
        times = {n: [] for n in runners}
        for i in range(args.rounds):
            for n in (list(runners) if i % 2 == 0 else reversed(list(runners))):
                times[n].append(runners[n]())
        if args.backward:
            want = torch.cat([g.flatten() for g in programs["e3nn TorchScript"]()]).double()
        else:
            want = convolve(tp).double()
        failed = False
        for n, c in children.items():
            c.stdin.close()
            c.wait()
            got = torch.tensor(numpy.fromfile(tmp / n.replace(" ", "_"), "<f4")).reshape(want.shape).double()
            err = ((got - want).norm() / want.norm()).item()
            failed |= not err < 1e-5
            print(f"{n}: relative difference to e3nn {err:.2e}")
    base = times["e3nn TorchScript"]
    print(f"\n{args.edges} edges, {args.threads} threads, {args.rounds} rounds of {args.reps}; torch {torch.__version__}\n")
    print(f"{'program':24} {'median':>10} {'edges/s':>10} {'e3nn TorchScript / it':>24}")
    for n, t in times.items():
        r = [b / a for a, b in zip(t, base)]
        print(f"{n:24} {statistics.median(t)*1e3:8.2f} ms {args.edges/statistics.median(t):10.0f} {statistics.median(r):10.2f}x [{min(r):.2f}, {max(r):.2f}]")
    sys.exit("results differ by more than 1e-5" if failed else 0)


if __name__ == "__main__":
    main()
