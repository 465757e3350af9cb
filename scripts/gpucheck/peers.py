#!/usr/bin/env python3
"""The workloads' shapes in other programs, on the same machine in the same call: PyTorch, e3nn, torch.nn.GRU (forward and
trained), a ResNet-18 and the grid's law in PyTorch, and cuEquivariance and OpenEquivariance where they can be imported.

    python3 peers.py --out peers.jsonl                       on the GPU
    python3 peers.py --out peers.jsonl --device cpu --tiny   to see that it runs: no figure is kept

One line of JSON a figure, written as soon as it is known: {"name", "peer", "unit", "value", "extra", "note", "versions"}.
The names are those of gpu-check's own figures, the versions those of the programs that were imported. What was not measured
has value null and says why.
"""
import argparse
import importlib
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import time

import torch

sys.path.append(str(pathlib.Path(__file__).parent.parent / "peer"))  # resnet.py and gridlaw.py lie there in a checkout, in a bundle beside this file


class Bench:
    def __init__(self, args):
        self.args, self.dev, self.tiny = args, torch.device(args.device), args.tiny
        torch.manual_seed(time.time_ns() % (1 << 31))

    def size(self, real, tiny):
        return tiny if self.tiny else real

    def sync(self):
        if self.dev.type == "cuda":
            torch.cuda.synchronize()

    def clock(self, fn, spend=0.4):
        """Median seconds of fn: device events on a GPU, the wall clock elsewhere."""
        for _ in range(3):
            fn()
        self.sync()
        begin = time.perf_counter()
        fn()
        self.sync()
        n = 2 if self.tiny else int(min(max(spend / max(time.perf_counter() - begin, 1e-6), 5), 100))
        if self.dev.type != "cuda":
            return statistics.median(self.wall(fn) for _ in range(n))
        marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(n)]
        for a, b in marks:
            a.record()
            fn()
            b.record()
        self.sync()
        return statistics.median(a.elapsed_time(b) for a, b in marks) * 1e-3

    def wall(self, fn):
        begin = time.perf_counter()
        fn()
        return time.perf_counter() - begin

    def keep(self, name, peer, value=None, note="", **extra):
        if self.tiny:
            value, extra = None, {}
            note = note or "dry"
        with open(self.args.out, "a") as f:
            f.write(json.dumps({"name": name, "peer": peer, "unit": "s", "value": value, "extra": extra, "note": note, "versions": versions()}) + "\n")
        print(name, peer, value, note, extra, flush=True)

    def attempt(self, name, peer, fn):
        """A peer that fails is not measured, and says why; the others go on."""
        try:
            fn()
        except Exception as e:  # whatever another program raises
            self.keep(name, peer, note=f"not yet measured: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"[:300])
            if self.args.strict:
                raise
        if self.dev.type == "cuda":
            torch.cuda.empty_cache()


def versions():
    """What a figure is of: a peer is another program with its next release."""
    names = ("torch", "e3nn", "cuequivariance_torch", "cuequivariance_ops_torch", "openequivariance")
    return {n: str(getattr(sys.modules[n], "__version__", "unknown")) for n in names if n in sys.modules}


def relative(got, want):
    return ((got.double() - want).norm() / want.norm()).item()


def gemm(b):
    for rows, k, n in b.size([(74250, 100, 3238), (12544, 1024, 3072)], [(30, 10, 37), (21, 16, 24)]):
        x, w = torch.randn(rows, k, device=b.dev), torch.randn(k, n, device=b.dev)
        some = torch.randint(rows, (24,), device=b.dev)
        want = x[some].double() @ w.double()
        for precision in ("fp32", "tf32", "bf16", "fp16"):
            def run(precision=precision):
                torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
                kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
                a, c = x.to(kind), w.to(kind)
                out = torch.empty(rows, n, dtype=kind, device=b.dev)
                took = b.clock(lambda: torch.mm(a, c, out=out))
                b.keep(f"gemm/{rows}x{k}x{n}/{precision}", "torch.mm", took, relative_error=relative(out[some], want),
                       with_casts_s=b.clock(lambda: torch.mm(x.to(kind), w.to(kind))))
            b.attempt(f"gemm/{rows}x{k}x{n}/{precision}", "torch.mm", run)
    torch.backends.cuda.matmul.allow_tf32 = False


def scatter(b):
    for rows, degree, width in b.size([(1000, 158, 1152), (3000, 25, 992)], [(3, 4, 7), (5, 2, 33)]):
        edges = rows * degree
        src = torch.randn(edges, width, device=b.dev)
        dst = torch.arange(rows, device=b.dev).repeat_interleave(degree)
        out = torch.empty(rows, width, device=b.dev)
        shuffled = dst[torch.randperm(edges, device=b.dev)]
        for name, to, deterministic in (("atomic", dst, False), ("atomic-shuffled", shuffled, False), ("sorted", dst, True)):
            def run():
                torch.use_deterministic_algorithms(deterministic)
                try:
                    took = b.clock(lambda: out.zero_().index_add_(0, to, src))
                finally:
                    torch.use_deterministic_algorithms(False)
                want = torch.zeros(rows, width, dtype=torch.float64, device=b.dev).index_add_(0, to, src.double())
                b.keep(f"scatter/{edges}x{width}/{name}", "index_add" + (" deterministic" if deterministic else ""), took, relative_error=relative(out, want))
            b.attempt(f"scatter/{edges}x{width}/{name}", "index_add", run)
        lengths = torch.full((rows,), degree, device=b.dev)
        b.attempt(f"scatter/{edges}x{width}/sorted", "segment_reduce",
                  lambda: b.keep(f"scatter/{edges}x{width}/sorted", "segment_reduce", b.clock(lambda: torch.segment_reduce(src, "sum", lengths=lengths))))


def gru(b):
    for name, inputs, hidden, layers, batch, steps in b.size(
            [("gruflow/energyflow", 65, 1024, 3, 12544, 1), ("gruflow/deepbench", 2816, 2816, 1, 32, 1500)], [("gruflow/small", 9, 8, 2, 16, 3)]):
        for precision in ("fp32", "tf32", "bf16"):
            def run(precision=precision):
                torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
                kind = torch.bfloat16 if precision == "bf16" else torch.float32
                net = torch.nn.GRU(inputs, hidden, layers, device=b.dev, dtype=kind)
                x, h = torch.randn(steps, batch, inputs, device=b.dev, dtype=kind), torch.rand(layers, batch, hidden, device=b.dev, dtype=kind) - 0.5
                # Only fp32 is what the workload does by default; the others have names of their own.
                b.keep(name if precision == "fp32" else f"{name}/{precision}", "torch.nn.GRU", b.clock(lambda: net(x, h)))
            b.attempt(name, f"torch.nn.GRU {precision}", run)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False


EVERY = "{0}x0o+{0}x0e+{1}x1o+{1}x1e+{2}x2o+{2}x2e+{3}x3o+{3}x3e+{4}x4o+{4}x4e"


def layers(b):
    """name, in, harmonics, target, nodes, rows, degrees in turn: as in gpu-check's own tests."""
    m = b.size(128, 3)
    deepaw = EVERY.format(*b.size((100, 33, 20, 14, 11), (2, 1, 1, 1, 1)))
    n = b.size(32, 2)
    nequip = f"{n}x0o+{n}x0e+{n}x1o+{n}x1e+{n}x2o+{n}x2e"
    atoms = b.size((1000, 1000, [158]), (4, 5, [3, 0, 2]))
    return [
        ("mace-large", f"{m}x0e+{m}x1o+{m}x2e", "0e+1o+2e+3o", f"{m}x0e+{m}x1o+{m}x2e+{m}x3o", *atoms),
        ("deepaw", deepaw, "0e+1o+2e+3o+4e", deepaw, *b.size((12, 3000, [25, 25, 25, 24]), (3, 4, [2, 0, 3]))),
        ("mace-medium", f"{m}x0e+{m}x1o", "0e+1o+2e+3o", f"{m}x0e+{m}x1o+{m}x2e", *atoms),
        ("nequip-lips", nequip, "0e+1o+2e", nequip, *atoms),
    ]


def uvu(o3, left, sh, target):
    """The uvu paths in the order of their sorted output blocks: middle irreps and instructions."""
    left, sh, target = o3.Irreps(left), o3.Irreps(sh), o3.Irreps(target)
    mid, ins = [], []
    for i, (mul, ir) in enumerate(left):
        for j, (_, y) in enumerate(sh):
            for out in ir * y:
                if out in target:
                    ins.append((i, j, len(mid)))
                    mid.append((mul, out))
    mid, p, _ = o3.Irreps(mid).sort()
    ins = sorted(((i, j, p[k], "uvu", True) for i, j, k in ins), key=lambda t: t[2])
    return left, sh, mid, ins


class Graph:
    """Random inputs of a layer on the device, edges sorted by destination."""

    def __init__(self, b, layer, dims, weights):
        _, _, _, _, nodes, self.rows, degrees = layer
        degree = torch.tensor([degrees[i % len(degrees)] for i in range(self.rows)])
        self.dst = torch.arange(self.rows).repeat_interleave(degree).to(b.dev)
        edges = len(self.dst)
        self.src = torch.randint(nodes, (edges,), device=b.dev)
        self.x, self.y = torch.randn(nodes, dims[0], device=b.dev), torch.randn(edges, dims[1], device=b.dev)
        self.w = torch.randn(edges, weights, device=b.dev)


def tensor_product(b, compiled=False):
    o3 = importlib.import_module("e3nn.o3")
    for layer in layers(b)[: 2 if compiled else None]:
        def run(layer=layer):
            name = f"tensor_product/{layer[0]}"
            left, sh, mid, ins = uvu(o3, *layer[1:4])
            begin = time.perf_counter()
            tp = o3.TensorProduct(left, sh, mid, ins, shared_weights=False, internal_weights=False).to(b.dev)
            g = Graph(b, layer, (left.dim, sh.dim), tp.weight_numel)
            out = torch.empty(g.rows, mid.dim, device=b.dev)
            if compiled:
                tp = torch.compile(tp)
            def convolve():
                return out.zero_().index_add_(0, g.dst, tp(g.x[g.src], g.y, g.w))
            convolve()
            b.sync()
            built = time.perf_counter() - begin
            b.keep(name, "e3nn torch.compile" if compiled else "e3nn", b.clock(convolve), build_s=built)
        b.attempt(f"tensor_product/{layer[0]}", "e3nn torch.compile" if compiled else "e3nn", run)


def tensor_product_bwd(b):
    """A layer's gradients without its forward pass: by harmonics and weights, as forces need them, and by features too, as training does."""
    o3 = importlib.import_module("e3nn.o3")
    layer = layers(b)[0]
    for name, wanted in (("tensor_product_bwd", "yw"), ("tensor_product_grads", "xyw")):
        def run(name=name, wanted=wanted):
            left, sh, mid, ins = uvu(o3, *layer[1:4])
            with torch.inference_mode(False), torch.enable_grad():
                tp = o3.TensorProduct(left, sh, mid, ins, shared_weights=False, internal_weights=False).to(b.dev)
                g = Graph(b, layer, (left.dim, sh.dim), tp.weight_numel)
                leaves = [getattr(g, n).requires_grad_() for n in wanted]  # what is no leaf has no gradient anywhere in the graph
                out = torch.zeros(g.rows, mid.dim, device=b.dev).index_add(0, g.dst, tp(g.x[g.src], g.y, g.w))
                cotangent = torch.randn_like(out)
                b.keep(f"{name}/{layer[0]}", "e3nn autograd", b.clock(lambda: torch.autograd.grad(out, leaves, cotangent, retain_graph=True)), f"gradients by {', '.join(wanted)}")
        b.attempt(f"{name}/{layer[0]}", "e3nn autograd", run)


def training(b):
    """A training step of the layer alone: forward, backward, the norm clipped on the device, Adam in one launch."""
    for name, inputs, hidden, batch, steps in b.size([("gruflow/deepbench-train", 2816, 2816, 32, 25)], [("gruflow/small-train", 9, 8, 16, 3)]):
        def run():
            with torch.inference_mode(False), torch.enable_grad():
                torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
                net = torch.nn.GRU(inputs, hidden, 1, device=b.dev)
                adam = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
                x, h = torch.randn(steps, batch, inputs, device=b.dev), torch.rand(1, batch, hidden, device=b.dev) - 0.5
                def step():
                    adam.zero_grad(set_to_none=True)
                    net(x, h)[0].square().mean().backward()
                    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                    adam.step()
                b.keep(name, "torch.nn.GRU, autograd, Adam fused", b.clock(step))
        b.attempt(name, "torch.nn.GRU, autograd, Adam fused", run)


def resnet(b, compiled=False):
    """Seconds an image of inference in batches of 32."""
    module = importlib.import_module("resnet")
    image, width, blocks, classes, batch = b.size((224, 64, (2, 2, 2, 2), 1000, 32), (16, 8, (1, 1), 10, 2))
    name = b.size("serving/rxvision", "serving/small")
    def run(label, layout, kind):
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        net = module.drawn(image, width, blocks, classes, 1).to(b.dev, memory_format=layout)
        x = torch.randn(batch, 3, image, image, device=b.dev).contiguous(memory_format=layout)
        call = torch.compile(net) if compiled else net
        def step():
            with torch.autocast(b.dev.type, torch.bfloat16, enabled=kind == "bf16"):
                return call(x)
        b.keep(name, label, b.clock(step) / batch, batch=batch)
    for layout, kind in ((torch.contiguous_format, "fp32"), (torch.channels_last, "fp32"), (torch.channels_last, "bf16")):
        label = f"PyTorch {'torch.compile' if compiled else 'eager'} {'channels_last' if layout is torch.channels_last else 'contiguous'} {kind}"
        b.attempt(name, label, lambda: run(label, layout, kind))


def grid(b):
    """The grid's law, eager: neighbours, two layers with ELU, the norm."""
    law = importlib.import_module("gridlaw").law
    n, c, hidden = b.size((512, 16, 64), (16, 4, 8))
    name = b.size("gridsim/aetheria", "gridsim/small")
    def run():
        torch.backends.cuda.matmul.allow_tf32 = False
        psi = torch.randn(c, n, n, device=b.dev)
        net = [torch.randn(*shape, device=b.dev) for shape in ((hidden, 2 * c), (hidden,), (c, hidden), (c,))]
        b.keep(name, "PyTorch eager", b.clock(lambda: law(psi, *net)))
    b.attempt(name, "PyTorch eager", run)


PACKAGE_S = 45  # both build kernels when they are first called


def one_package(b, wanted):
    for peer, module, make in PACKAGES:
        for layer in layers(b) if peer == wanted else ():
            name = f"tensor_product/{layer[0]}"
            try:
                importlib.import_module(module)
            except Exception as e:
                b.keep(name, peer, note=f"not yet measured: {module} cannot be imported ({type(e).__name__})")
                continue
            b.attempt(name, peer, lambda layer=layer, name=name: package(b, name, peer, *make(b, layer)))


def packages(b):
    """Each in a process of its own: what one does to the GPU, or its time, is no other's."""
    for peer, module, _ in PACKAGES:
        if importlib.util.find_spec(module) is None:
            one_package(b, peer)  # says so
            continue
        try:
            argv = [sys.executable, "-B", __file__, "--out", b.args.out, "--device", b.args.device, "--package", peer, *(["--tiny"] if b.tiny else []), *(["--strict"] if b.args.strict else [])]
            why = f"its process ended with {code}" if (code := subprocess.run(argv, timeout=PACKAGE_S).returncode) else ""
        except subprocess.TimeoutExpired:
            why = f"its process took more than {PACKAGE_S} s"
        if why:
            b.keep("tensor_product", peer, note=f"not yet measured: {why}; what it wrote before stands")
            if b.args.strict:
                raise RuntimeError(f"{peer}: {why}")


def package(b, name, peer, run, wanted, note=""):
    """wanted is the first rows of the result, where the package orders and scales its values as e3nn does."""
    got = run()
    extra = {} if wanted is None else {"relative_error": relative(got[: len(wanted)], wanted)}
    if extra.get("relative_error", 0) > 1e-4:
        raise ValueError(f"its result differs from e3nn's by {extra['relative_error']:.1e}")
    b.keep(name, peer, b.clock(run), note, **extra)


def cuequivariance(b, layer):
    """Gather, product and sum in one call, by the indices that its polynomial takes, where the multiplicities are equal."""
    cue, cuet = importlib.import_module("cuequivariance"), importlib.import_module("cuequivariance_torch")
    left, sh, target = (cue.Irreps("O3", s) for s in layer[1:4])
    tp = cuet.ChannelWiseTensorProduct(left, sh, [ir for _, ir in target], layout=cue.ir_mul, shared_weights=False, internal_weights=False, device=b.dev)
    g = Graph(b, layer, (left.dim, sh.dim), tp.weight_numel)
    like = torch.empty(g.rows, 1, device=b.dev)  # tells the number of rows by its shape
    def run():
        return tp.f([g.w, g.x, g.y], input_indices={1: g.src}, output_shapes={0: like}, output_indices={0: g.dst})[0]
    return run, None, f"method {tp.method}; values not compared: its paths have an order and scale of their own"


def openequivariance(b, layer, deterministic=False):
    """A convolution of this package has as many rows as x, so x gets a row of zeros per destination without a node."""
    oeq, o3 = importlib.import_module("openequivariance"), importlib.import_module("e3nn.o3")
    left, sh, mid, ins = uvu(o3, *layer[1:4])
    problem = oeq.TPProblem(left, sh, mid, ins, shared_weights=False, internal_weights=False)
    conv = oeq.TensorProductConv(problem, torch_op=True, deterministic=deterministic)
    g = Graph(b, layer, (left.dim, sh.dim), problem.weight_numel)
    x = padded(g.x, g.rows)
    order = torch.argsort(g.dst * len(x) + g.src)  # by row, then by column, as its deterministic sum asks
    src, y, w = g.src[order].contiguous(), g.y[order].contiguous(), g.w[order].contiguous()
    transposed = torch.argsort(src, stable=True) if deterministic else None
    given = conv.reorder_weights_from_e3nn(w)
    first = torch.nonzero(g.dst < 3).squeeze(1)
    tp = o3.TensorProduct(left, sh, mid, ins, shared_weights=False, internal_weights=False).to(b.dev)
    wanted = torch.zeros(3, mid.dim, device=b.dev).index_add_(0, g.dst[first], tp(g.x[src[first]], y[first], w[first])).double()
    return lambda: conv.forward(x, y, given, g.dst, src, transposed), wanted


def padded(x, rows):
    """x with at least that many rows; those added are zeros."""
    return x if len(x) >= rows else torch.cat([x, x.new_zeros(rows - len(x), x.shape[1])])


# Programs that are carried along seldom. Their interfaces are those their documentation gives.
PACKAGES = (("cuEquivariance", "cuequivariance_torch", cuequivariance), ("OpenEquivariance", "openequivariance", openequivariance),
            ("OpenEquivariance deterministic", "openequivariance", lambda b, layer: openequivariance(b, layer, deterministic=True)))

PROGRAMS = {"gemm": gemm, "scatter": scatter, "gru": gru, "tensor_product": tensor_product, "tensor_product_bwd": tensor_product_bwd,
            "training": training, "resnet": resnet, "grid": grid, "packages": packages,
            "compiled": lambda b: (resnet(b, compiled=True), tensor_product(b, compiled=True))}


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--out", required=True)
    ap.add_argument("--device", default="cuda")
    ap.add_argument("--tiny", action="store_true", help="tiny sizes, figures dropped")
    ap.add_argument("--strict", action="store_true", help="end at the first peer that fails")
    ap.add_argument("--only", choices=PROGRAMS, action="append")
    ap.add_argument("--package", choices=[p for p, *_ in PACKAGES], help="this one alone, in this process")
    args = ap.parse_args()
    if args.device == "cpu" and not args.tiny:
        ap.error("figures are of GPUs: give --tiny with --device cpu")
    b = Bench(args)
    with torch.inference_mode():
        if args.package:
            return one_package(b, args.package)
        for name in args.only or PROGRAMS:
            b.attempt(name, "torch", lambda: PROGRAMS[name](b))


if __name__ == "__main__":
    main()
