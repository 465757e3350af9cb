#!/usr/bin/env python3
"""Race gpuprof's training step of an equivariant network against e3nn's in PyTorch: same inputs, same threads, taking turns.

    python3 -m venv venv && venv/bin/pip install torch e3nn
    venv/bin/python scripts/peer/peer_e3nn_train.py [--threads 2] [--rounds 8] [--steps 3] [--compile]
    venv/bin/python scripts/peer/peer_e3nn_train.py --multiplicity 128 --lmax 3 --atoms 1000 --edges 5000

The network is one convolution in the shape of the preset mace-medium, as e3nn's users write it: natural irreps to lmax-2 in,
soft_one_hot_linspace, FullyConnectedNet, spherical_harmonics, TensorProduct (uvu), a sum at the destination, Linear and Gate to natural
irreps up to lmax-1, and a readout of its scalars. Half the mean square error goes back to the features, both layers of the MLP, the
linear layer and the readout; clip_grad_norm_ and torch.optim.Adam end the step. All programs start at the same parameters
and every step goes on from the one before. PyTorch's programs are eager with Adam(foreach=True) and Adam(fused=True), with e3nn's
modules compiled to TorchScript (its default), and with --compile torch.compile of network and loss (e3nn's modules not scripted) with the fused one.
gpuprof's, scripts/peer/train, runs with both layouts of features.

Every round runs each program once, in turn, and takes the median of its steps; the table has the median over rounds, and the
median and range of eager foreach's time over the program's, round by round: above 1 the program is faster. Of the first step of
every program, loss and each gradient must agree with those of the same network in float64 to 1e-5, and the parameters after it to
1 % of their change, or the script fails.
"""
import argparse
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile

import e3nn
import numpy
import torch
from e3nn import nn, o3
from e3nn.math import soft_one_hot_linspace

from peer_e3nn import product
from peer_gru import ROOT, mean_spent, median_time

FUNCTIONS, HIDDEN, NEIGHBOURS, RATE = 10, 100, 20, 1e-3
BASE = "eager, Adam foreach"


def natural(mul, lmax):
    return o3.Irreps([(mul, (l, (-1) ** l)) for l in range(max(lmax, 0) + 1)])


class Network(torch.nn.Module):
    """The convolution; forward is the loss."""

    def __init__(self, args, graph):
        super().__init__()
        self.cutoff, vec, self.src, self.dst, target = graph
        self.register_buffer("vec", vec)
        self.register_buffer("target", target)
        self.sh, irreps, out = o3.Irreps.spherical_harmonics(args.lmax), natural(args.multiplicity, args.lmax - 2), natural(args.multiplicity, args.lmax - 1)
        self.scalars, gated = out[:1], out[1:]
        self.gate = nn.Gate(self.scalars, [torch.nn.functional.silu], o3.Irreps([(gated.num_irreps, "0e")] if gated else []),
                            [torch.sigmoid] if gated else [], gated)
        self.tp = product(irreps, self.sh, out)
        self.mlp = nn.FullyConnectedNet([FUNCTIONS, HIDDEN, self.tp.weight_numel], torch.nn.functional.silu)
        self.linear = o3.Linear(self.tp.irreps_out, self.gate.irreps_in)
        self.x = torch.nn.Parameter(torch.randn(args.atoms, irreps.dim))
        self.readout = torch.nn.Parameter(torch.randn(args.multiplicity))

    def named(self):
        """The parameters in the order of gpuprof's program."""
        return {"x": self.x, "w1": self.mlp[0].weight, "w2": self.mlp[1].weight, "mix": self.linear.weight, "readout": self.readout}

    def forward(self):
        basis = soft_one_hot_linspace(self.vec.norm(dim=1), 0.0, self.cutoff, FUNCTIONS, basis="gaussian", cutoff=False)
        y = o3.spherical_harmonics(self.sh, self.vec, True, "component")
        messages = self.tp(self.x[self.src], y, self.mlp(basis))
        mid = torch.zeros(len(self.x), messages.shape[1], dtype=messages.dtype).index_add(0, self.dst, messages) / NEIGHBOURS**0.5
        rho = self.gate(self.linear(mid))[:, :len(self.readout)] @ self.readout
        return torch.nn.functional.mse_loss(rho, self.target) / 2


class Program:
    """A training step in PyTorch."""

    def __init__(self, args, graph, start, compiled=False, dtype=torch.float32, **adam):
        e3nn.set_optimization_defaults(jit_mode="eager" if compiled else "script")
        torch.set_default_dtype(dtype)  # in which e3nn builds its constants
        self.net = Network(args, [t.to(dtype) if torch.is_tensor(t) and t.is_floating_point() else t for t in graph])
        torch.set_default_dtype(torch.float32)
        self.parameters = list(self.net.named().values())
        with torch.no_grad():
            for p, value in zip(self.parameters, start):
                p.copy_(value)
        self.loss, self.clip = torch.compile(self.net) if compiled else self.net, args.clip
        self.adam = torch.optim.Adam(self.parameters, lr=RATE, **adam)

    def back(self):
        self.adam.zero_grad(set_to_none=True)
        loss = self.loss()
        loss.backward()
        return loss

    def end(self):
        torch.nn.utils.clip_grad_norm_(self.parameters, self.clip, foreach=True)
        self.adam.step()

    def step(self):
        self.back()
        self.end()

    def first(self):
        """Loss, gradients before clipping, and parameters after the first step."""
        loss = self.back().detach().reshape(1).double()
        grads = [p.grad.flatten().double().clone() for p in self.parameters]  # clipping is in place
        self.end()
        return [loss, *grads, *[p.detach().flatten().double().clone() for p in self.parameters]]


def crystal(args):
    """A cubic lattice with every atom moved a little, and the shortest edges, sorted by destination: cutoff, vectors, src, dst, target."""
    n, side = args.atoms, int(numpy.ceil(args.atoms ** (1 / 3)))
    pos = numpy.stack(numpy.meshgrid(*[numpy.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)[:n] * 1.6
    pos = pos + numpy.random.default_rng(0).uniform(-0.3, 0.3, pos.shape)
    length = numpy.linalg.norm(pos[:, None] - pos[None], axis=2)
    numpy.fill_diagonal(length, numpy.inf)
    near = numpy.sort(numpy.argsort(length, axis=None, kind="stable")[:args.edges])
    dst, src = numpy.unravel_index(near, length.shape)
    vec = torch.tensor((pos[src] - pos[dst]).astype("<f4"))
    cutoff = float(numpy.float32(1.05 * length[dst, src].max()))  # all programs have the same, whatever their precision
    return cutoff, vec, torch.tensor(src), torch.tensor(dst), torch.randn(n)


def write_input(path, args, graph, start):
    cutoff, vec, src, dst, target = graph
    with open(path, "wb") as f:
        f.write(struct.pack("<6i3d", args.atoms, args.edges, args.multiplicity, args.lmax, FUNCTIONS, HIDDEN, cutoff, RATE, args.clip))
        for t in (vec, *start, target):
            f.write(t.numpy().astype("<f4").tobytes())
        for t in (src, dst):
            f.write(t.numpy().astype("<i4").tobytes())


class Child:
    """gpuprof's program, with features in a layout."""

    def __init__(self, folder, layout, args):
        self.output, self.steps = folder / layout, args.steps
        self.process = subprocess.Popen([folder / "peertrain", folder / "in", self.output, layout, str(args.threads)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self):
        try:
            self.process.stdin.write(f"run {self.steps}\n")
            self.process.stdin.flush()
            return float(self.process.stdout.readline())
        except (BrokenPipeError, ValueError):
            sys.exit("running scripts/peer/train: it ended; its error is above")

    def first(self, like):
        all = torch.tensor(numpy.fromfile(self.output, "<f4")).double()
        if len(all) != sum(map(len, like)):
            sys.exit(f"reading {self.output}: {len(all)} values instead of {sum(map(len, like))}; the layouts of the two programs differ")
        return list(all.split([len(t) for t in like]))


def arguments():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default, low, high, text in (
            ("threads", 2, 1, 1024, "of either program"), ("rounds", 8, 1, 10000, "turns of each program"), ("steps", 3, 1, 10000, "of a turn"),
            ("multiplicity", 64, 1, 1 << 14, "channels of an irrep"), ("lmax", 3, 0, 6, "of the harmonics"),
            ("edges", 2000, 1, 1 << 24, ""), ("atoms", 128, 2, 10000, "")):
        ap.add_argument("--" + name, type=int, default=default, help=f"{text} ({low} to {high}, default {default})".lstrip())
        ap.set_defaults(**{"limits": {**(ap.get_default("limits") or {}), name: (low, high)}})
    ap.add_argument("--clip", type=float, default=0.1, help="largest norm of all gradients (default 0.1)")
    ap.add_argument("--compile", action="store_true", help="torch.compile as well")
    ap.add_argument("--processor-time", action="store_true", help="on a machine that others use")
    args = ap.parse_args()
    for name, (low, high) in args.limits.items():
        if not low <= getattr(args, name) <= high:
            ap.error(f"--{name} is {getattr(args, name)}; give {low} to {high}")
    if args.edges > args.atoms * (args.atoms - 1):
        ap.error(f"--edges is {args.edges}, and {args.atoms} atoms have {args.atoms * (args.atoms - 1)} pairs; give fewer edges or more atoms")
    if not args.clip > 0:
        ap.error(f"--clip is {args.clip}; give a number above 0")
    return args


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    graph = crystal(args)
    start = [p.detach().clone() for p in Network(args, graph).named().values()]
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        write_input(tmp / "in", args, graph, start)
        subprocess.run(["go", "build", "-o", tmp / "peertrain", "./scripts/peer/train"], check=True, cwd=ROOT)
        want = Program(args, graph, start, dtype=torch.float64, foreach=True).first()
        programs = {BASE: Program(args, graph, start, foreach=True), "eager, Adam fused": Program(args, graph, start, fused=True)}
        if args.compile:
            programs["torch.compile, Adam fused"] = Program(args, graph, start, compiled=True, fused=True)
        children = {f"gpuprof {layout}": Child(tmp, layout, args) for layout in ("ir_mul", "mul_ir")}
        first = {n: p.first() for n, p in programs.items()}
        runners = {n: (lambda p=p: median_time(p.step, args.steps)) for n, p in programs.items()} | {n: c.ask for n, c in children.items()}
        if args.processor_time:
            pids = {n: c.process.pid for n, c in children.items()}
            runners = {n: (lambda n=n, f=f: mean_spent(f, args.steps, pids.get(n, "self"))) for n, f in runners.items()}
        for _ in range(3):  # TorchScript specialises its way back on the second pass or later
            for fn in runners.values():
                fn()
        times = {n: [] for n in runners}
        for i in range(args.rounds):
            for n in (list(runners) if i % 2 == 0 else reversed(list(runners))):
                times[n].append(runners[n]())
        for n, c in children.items():
            c.process.stdin.close()
            c.process.wait()
            first[n] = c.first(want)
    sys.exit("the first steps differ by more than the tolerance" if report(args, times, first, want, start) else 0)


def report(args, times, first, want, start):
    norm = torch.cat(want[1:6]).norm().item()
    print(f"e3nn training step: {args.multiplicity} channels, lmax {args.lmax}, {args.edges} edges, {args.atoms} atoms, {args.threads} threads,"
          f" {args.rounds} rounds of {args.steps} steps{', processor time' if args.processor_time else ''}; torch {torch.__version__},"
          f" e3nn {e3nn.__version__}; load {os.getloadavg()[0]:.1f}")
    print(f"loss {want[0].item():.6g}, norm of the gradients {norm:.4g} ({'cut to' if norm > args.clip else 'below'} {args.clip:g})\n")
    print(f"{'program':28} {'median':>11} {'foreach / it':>14} {'range':>16}   first step differs from float64 by: loss, gradients (worst), parameters")
    before, failed = torch.cat([t.flatten().double() for t in start]), False
    for n, own in times.items():
        ratios = sorted(b / t for b, t in zip(times[BASE], own))
        errors = [((a - b).norm() / b.norm()).item() for a, b in zip(first[n][:6], want)]
        after, change = torch.cat(first[n][6:]) - torch.cat(want[6:]), torch.cat(want[6:]) - before
        # Adam's first step is the gradient's sign, which rounding decides where a gradient is next to nothing.
        moved = (after.norm() / change.norm()).item()
        failed |= not max(errors) < 1e-5 or not moved < 1e-2
        print(f"{n:28} {statistics.median(own) * 1e3:8.2f} ms {statistics.median(ratios):13.2f}x {f'[{ratios[0]:.2f}, {ratios[-1]:.2f}]':>16}"
              f"   {errors[0]:.1e}, {max(errors[1:]):.1e}, {moved:.1e} of their change")
    return failed


if __name__ == "__main__":
    main()
