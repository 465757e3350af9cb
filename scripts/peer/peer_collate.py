#!/usr/bin/env python3
"""Race gpuprof's input pipeline against a PyTorch DataLoader that does the same work, taking turns.

    python3 -m venv venv && venv/bin/pip install torch
    go build -o bin/gpuprof ./cmd/gpuprof
    venv/bin/python scripts/peer/peer_collate.py [--workers 0,1,2] [--rounds 6] [--batch 64] [--probes 64]

The job is preset small of the workload collate: HfO2 graphs with a random number of probe points, the atoms within
4.083 angstrom of each, concatenated to batches with indices counted from the batch's rows. The Dataset finds neighbours
with one vectorised numpy comparison a sample over precomputed periodic images and keeps the atom graph (as impl=cached
does); collate_fn concatenates with torch.cat. gpuprof runs with consume=0, so that making batches is all there is; its
kinds are goroutine and process (the latter pays for serialising and shared memory as DataLoader's workers do). Every
round runs each program once, in turn; the table shows the median over rounds of samples a second and the median and range
of gpuprof's rate over torch's, round by round. The last line compares the assembly of a batch alone: gpuprof's mean time
in collate with torch's in collate_fn. Mean edges a batch must agree to 2 % or the script fails.
"""
import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
CUTOFF = 4.083
GRID = 80


def hafnia():
    """Lattice and positions of monoclinic HfO2, as the workload has them."""
    beta = numpy.radians(99.2)
    lattice = numpy.array([[5.12, 0, 0], [0, 5.17, 0], [5.29 * numpy.cos(beta), 0, 5.29 * numpy.sin(beta)]])
    frac = []
    for x, y, z in ((0.2759, 0.0403, 0.2079), (0.0703, 0.3324, 0.3447), (0.4496, 0.7571, 0.4792)):
        frac += [(x, y, z), (-x, y + 0.5, 0.5 - z), (-x, -y, -z), (x, 0.5 - y, z + 0.5)]
    return lattice, (numpy.array(frac) % 1.0) @ lattice


class Graphs(torch.utils.data.Dataset):
    def __init__(self, items, probes):
        self.items, self.probes = items, probes
        self.lattice, self.pos = hafnia()
        shifts = numpy.array(list(itertools.product(range(-2, 4), repeat=3))) @ self.lattice
        images = (self.pos[:, None] + shifts[None]).reshape(-1, 3)
        source = numpy.repeat(numpy.arange(len(self.pos)), len(shifts))
        # Only images that some point of the cell can reach.
        corners = numpy.array(list(itertools.product((0, 1), repeat=3))) @ self.lattice
        centre = corners.mean(0)
        near = numpy.linalg.norm(images - centre, axis=1) < CUTOFF + numpy.linalg.norm(corners - centre, axis=1).max()
        self.images, self.source = images[near], source[near]
        self.square = (self.images**2).sum(1)
        self.species = torch.tensor([0x6648] * 4 + [0x4F] * 8, dtype=torch.int32)
        self.graph = self.edges(self.pos, True)

    def edges(self, points, skip_self=False):
        # |p - q|^2 by a matrix product finds the pairs; vectors are formed for those alone.
        d2 = (points**2).sum(1)[:, None] + self.square[None] - 2 * points @ self.images.T
        dst, image = numpy.nonzero(d2 < CUTOFF * CUTOFF)
        vec = self.images[image] - points[dst]
        if skip_self:
            other = (vec**2).sum(1) > 1e-12
            dst, image, vec = dst[other], image[other], vec[other]
        as_int = lambda a: torch.from_numpy(a.astype(numpy.int32))
        return as_int(self.source[image]), as_int(dst), torch.from_numpy(vec.astype(numpy.float32))

    def __len__(self):
        return self.items

    def __getitem__(self, i):
        rng = numpy.random.default_rng(i)
        n = rng.integers(self.probes - self.probes // 2, self.probes + self.probes // 2, endpoint=True)
        points = rng.integers(0, GRID, (n, 3)) / GRID @ self.lattice
        return self.species, torch.from_numpy(self.pos.astype(numpy.float32)), self.graph, torch.from_numpy(points.astype(numpy.float32)), self.edges(points)


def collate(samples):
    atoms = numpy.cumsum([0] + [len(s[0]) for s in samples])
    probes = numpy.cumsum([0] + [len(s[3]) for s in samples])
    counts = torch.tensor([[len(s[0]), len(s[2][0]), len(s[3]), len(s[4][0])] for s in samples], dtype=torch.int32)
    cat = torch.cat
    return {
        "counts": counts, "species": cat([s[0] for s in samples]), "pos": cat([s[1] for s in samples]),
        "edge_src": cat([s[2][0] + int(a) for s, a in zip(samples, atoms)]),
        "edge_dst": cat([s[2][1] + int(a) for s, a in zip(samples, atoms)]), "edge_vec": cat([s[2][2] for s in samples]),
        "probe": cat([s[3] for s in samples]), "probe_src": cat([s[4][0] + int(a) for s, a in zip(samples, atoms)]),
        "probe_dst": cat([s[4][1] + int(p) for s, p in zip(samples, probes)]), "probe_vec": cat([s[4][2] for s in samples]),
    }


def torch_rate(args, workers):
    """Samples a second and mean probe edges a batch of one pass of the loader, after its workers have started."""
    more = {"persistent_workers": True, "prefetch_factor": 2} if workers else {}
    loader = torch.utils.data.DataLoader(Graphs(args.batch * args.batches, args.probes), batch_size=args.batch, num_workers=workers,
                                         collate_fn=collate, **more)
    for _ in loader:  # start the workers
        pass
    edges, began = 0, time.perf_counter()
    for batch in loader:
        edges += len(batch["probe_src"])
    spent = time.perf_counter() - began
    return args.batch * args.batches / spent, edges / args.batches


def torch_assembly(args):
    data = Graphs(args.batch, args.probes)
    samples = [data[i] for i in range(args.batch)]
    collate(samples)
    times = []
    for _ in range(20):
        began = time.perf_counter()
        collate(samples)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def gpuprof_run(args, workers, kind, impl):
    with tempfile.TemporaryDirectory() as d:
        out = pathlib.Path(d) / "run.json"
        sets = {"workers": workers, "worker_kind": kind, "impl": impl, "consume": 0, "batch": args.batch, "probes": args.probes, "sync": "never",
                "pinned": "off"}
        cmd = [args.gpuprof, "run", "collate", "--device", "host", "--preset", "small", "--min-time", args.time, "--max-time", args.time, "--quiet", "-o", str(out)]
        for k, v in sets.items():
            cmd += ["--set", f"{k}={v}"]
        subprocess.run(cmd, check=True, stdout=subprocess.DEVNULL)
        run = json.loads(out.read_text())
    return run["throughput"]["series"]["median"], run["input"]["probe_edges_mean"], run["input"]["make_collate_s"]


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--workers", default="0,1,2")
    ap.add_argument("--kinds", default="goroutine,process")
    ap.add_argument("--impl", default="bulk")
    for name, default in (("rounds", 6), ("batch", 64), ("probes", 64), ("batches", 24)):
        ap.add_argument("--" + name, type=int, default=default)
    ap.add_argument("--time", default="2s", help="of a gpuprof run")
    ap.add_argument("--gpuprof", default=str(ROOT / "bin" / "gpuprof"))
    args = ap.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, batches of {args.batch} samples with {args.probes} probes, impl={args.impl}")
    cases = [(int(w), k) for w in args.workers.split(",") for k in args.kinds.split(",") if int(w) > 0 or k == "goroutine"]
    ours, theirs, assembly = {c: [] for c in cases}, {c: [] for c in cases}, []
    for r in range(args.rounds):
        for c in cases:
            order = [0, 1] if r % 2 == 0 else [1, 0]
            for side in order:
                if side == 0:
                    rate, mean, collate_s = gpuprof_run(args, *c, args.impl)
                    ours[c].append(rate)
                else:
                    rate, edges = torch_rate(args, c[0])
                    theirs[c].append(rate)
            if abs(edges / mean - 1) > 0.02:
                sys.exit(f"the batches differ: torch has {edges:.0f} probe edges in the mean, gpuprof {mean:.0f}")
        assembly.append(torch_assembly(args) / collate_s)
    print(f"{'workers':>7}  {'kind':<9}  {'gpuprof':>12}  {'torch':>12}  gpuprof/torch (median, range)")
    for c in cases:
        ratio = sorted(a / b for a, b in zip(ours[c], theirs[c]))
        print(f"{c[0]:>7}  {c[1] if c[0] else 'caller':<9}  {statistics.median(ours[c]):>10.0f}/s  {statistics.median(theirs[c]):>10.0f}/s"
              f"  {statistics.median(ratio):.2f} ({ratio[0]:.2f} to {ratio[-1]:.2f})")
    assembly.sort()
    print(f"assembly of a batch alone: torch's collate_fn takes {statistics.median(assembly):.1f} times gpuprof's ({assembly[0]:.1f} to {assembly[-1]:.1f})")


if __name__ == "__main__":
    main()
