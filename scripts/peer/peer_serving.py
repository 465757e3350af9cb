#!/usr/bin/env python3
"""Race the network of the workload serving against PyTorch on the CPU or a GPU: same weights, images and threads, taking turns.

    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python scripts/peer/peer_serving.py [--preset small] [--batch 32] [--threads 2] [--rounds 12] [--compile]
    venv/bin/python scripts/peer/peer_serving.py --device cuda --preset rxvision [--compile]

PyTorch runs the network in inference mode: eagerly, with channels_last, in bf16 (on the CPU under autocast) and, with --compile,
compiled. On a GPU its rows in float32 keep TF32 off, a row of its own has it on, and each batch ends with a synchronization, for
gpuprof as for PyTorch. --binary names the built test of scripts/peer/serving (go test -c), for a machine without Go. A program that fails is
named with its reason and is no longer in the race; the script then fails behind the table. Every
round runs each program once for --steps batches, in turn; the table shows the median over rounds, and the median and range of the
time of PyTorch's fastest float32 form over this program's, round by round: above 1 it is faster. The logits of float32 programs
must agree with PyTorch in float64 on the CPU to 1e-5, those of tf32 to 5e-3 and of bf16 to 5e-2, or the script fails.
"""
import argparse
import contextlib
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
from resnet import drawn

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRESETS = {"small": (16, 8, [1, 1, 1], 10), "cifar": (32, 16, [3, 3, 3], 10), "rxvision": (224, 64, [2, 2, 2, 2], 1000)}
GPUPROF = {"gpuprof implicit nhwc": [], "gpuprof implicit nchw": ["layout=nchw"], "gpuprof im2col": ["impl=im2col"],
           "gpuprof bn=apart": ["bn=apart"], "gpuprof bf16": ["precision=bf16"]}
ON_GPU = {"gpuprof cudnn": ["impl=cudnn"], "gpuprof cudnn nchw": ["impl=cudnn", "layout=nchw"], "gpuprof cudnn tf32": ["impl=cudnn", "precision=tf32"],
          "gpuprof cudnn bf16": ["impl=cudnn", "precision=bf16"], "gpuprof implicit": ["impl=implicit"], "gpuprof im2col tf32": ["impl=im2col", "precision=tf32"]}


def arrays(net):
    """Weights in the order of gpuprof's layers: the stem, each block's conv1, shortcut and conv2, and the linear layer."""
    def layer(conv, norm):
        return [conv.weight, norm.weight, norm.bias, norm.running_mean, norm.running_var]
    out = layer(net.conv1, net.bn1)
    for stage in range(net.stages):
        for block in getattr(net, f"layer{stage + 1}"):
            out += layer(block.conv1, block.bn1)
            if block.downsample is not None:
                out += layer(*block.downsample)
            out += layer(block.conv2, block.bn2)
    return out + [net.fc.weight, net.fc.bias]


def autocast(net):
    def call(x):
        with torch.autocast("cpu", torch.bfloat16):
            return net(x).float()
    return call


def with_tf32(net):
    def call(x):
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
        try:
            return net(x)
        finally:
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    return call


def peers_of(args, new):
    """PyTorch's forms of the network, each with its images. new makes another copy of it."""
    x = torch.randn(args.batch, 3, *2 * (PRESETS[args.preset][0],))
    on, last = new().to(args.device), new().to(args.device, memory_format=torch.channels_last)
    xs = x.to(args.device)
    wide = xs.to(memory_format=torch.channels_last)
    peers = {"torch eager": (on, xs), "torch channels_last": (last, wide)}
    if args.device == "cpu":
        peers["torch bf16"] = (autocast(last), wide)
    else:
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        peers["torch tf32"] = (with_tf32(last), wide)
        peers["torch bf16"] = (new().to(args.device, torch.bfloat16, memory_format=torch.channels_last), wide.bfloat16())
    if args.compile:
        peers["torch compile"] = (torch.compile(last if args.device == "cuda" else on), wide if args.device == "cuda" else xs)
    return x, peers


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("threads", 2), ("rounds", 12), ("steps", 20), ("batch", 32)):
        ap.add_argument("--" + name, type=int, default=default)
    ap.add_argument("--preset", choices=PRESETS, default="small")
    ap.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    ap.add_argument("--binary", type=pathlib.Path, help="scripts/peer/serving, built")
    ap.add_argument("--compile", action="store_true", help="torch.compile as well (it needs a C++ compiler)")
    args = ap.parse_args()
    torch.set_num_threads(args.threads)
    image, width, blocks, classes = PRESETS[args.preset]

    def new():
        return drawn(image, width, blocks, classes, 1)
    x, peers = peers_of(args, new)
    with torch.inference_mode():
        want = new().double()(x.double())
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        with open(tmp / "in", "wb") as f:
            f.write(struct.pack(f"<{5 + len(blocks)}i", image, width, classes, args.batch, len(blocks), *blocks))
            for t in arrays(new()) + [x]:
                f.write(t.detach().numpy().astype("<f4").tobytes())
        peer = (args.binary or tmp / "peer").absolute()
        if not args.binary:  # the test, since only tests may name the device of a GPU
            subprocess.run(["go", "test", "-c", "-o", peer, "./scripts/peer/serving"], check=True, cwd=ROOT)
        race = Race(args, tmp, peer, peers)
        race.check(want)
        race.run()
        race.report()
    sys.exit(1 if race.failed() else 0)


class Race:
    """Programs that take turns. One that fails leaves it, with a reason."""

    def __init__(self, args, tmp, binary, peers):
        self.args, self.tmp, self.peers = args, tmp, peers
        self.children, self.errors, self.lost, self.times = {}, {}, {}, {}
        where = "cuda" if args.device == "cuda" else str(args.threads)
        for name, knobs in (ON_GPU if args.device == "cuda" else GPUPROF).items():
            said = open(tmp / f"said by {name}", "w+")
            argv = [binary, "-test.run", "^TestPeer$", "-test.timeout", "0", tmp / "in", tmp / "out", where, *knobs]
            self.children[name] = (subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True), said)
        self.names = [*self.children, *peers]

    def ask(self, name, request):
        child, said = self.children[name]
        try:
            child.stdin.write(request + "\n")
            child.stdin.flush()
        except BrokenPipeError:
            pass  # what it said tells why
        answer = child.stdout.readline().strip()
        if not answer:
            code = child.wait()
            said.seek(0)
            raise RuntimeError((said.read().strip().splitlines() or ["it said nothing"])[-1] + f" (exit code {code})")
        return answer

    def attempt(self, name, fn, *args):
        """What fn gives; None, and the program is lost, where it fails."""
        try:
            return fn(*args)
        except Exception as e:  # whatever another program raises
            self.lost[name] = f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"[:300]
            self.names.remove(name)
            return None

    def logits(self, name):
        if name in self.children:
            self.ask(name, "run 1")
            self.ask(name, "logits")
            return torch.from_numpy(numpy.fromfile(self.tmp / "out", "<f4"))
        net, x = self.peers[name]
        with torch.inference_mode():
            return net(x).double().cpu().flatten()

    def check(self, want):
        for name in list(self.names):
            got = self.attempt(name, self.logits, name)
            if got is not None:
                self.errors[name] = ((got.double() - want.flatten()).norm() / want.norm()).item()

    def timed(self, name):
        """Seconds of a batch."""
        steps = self.args.steps
        if name in self.children:
            return float(self.ask(name, f"run {steps}")) / steps
        net, x = self.peers[name]
        with torch.inference_mode():
            began = time.perf_counter()
            for _ in range(steps):
                net(x)
                if self.args.device == "cuda":
                    torch.cuda.synchronize()
            return (time.perf_counter() - began) / steps

    def run(self):
        self.times = {name: [] for name in self.names}
        for i in range(self.args.rounds + 1):  # the first round warms up
            for name in list(self.names) if i % 2 == 0 else list(reversed(self.names)):
                t = self.attempt(name, self.timed, name)
                if t is not None and i > 0:
                    self.times[name].append(t)
        for child, said in self.children.values():
            with contextlib.suppress(BrokenPipeError):  # one that died has not read all
                child.stdin.close()
            child.wait()
            child.stdout.close()
            said.close()

    def report(self):
        args = self.args
        exact = [name for name in self.names if name.startswith("torch") and "bf16" not in name and "tf32" not in name]
        best = min(exact, key=lambda name: statistics.median(self.times[name]), default="")
        where = f"{args.threads} threads" if args.device == "cpu" else f"{torch.cuda.get_device_name()}, cuDNN {torch.backends.cudnn.version()}"
        print(f"{args.preset}, batch {args.batch}, {where}, torch {torch.__version__}, {args.rounds} rounds of {args.steps} batches; {best or 'no form of PyTorch'} is the fastest in float32")
        for name in self.names:
            own = self.times[name]
            ratios = sorted(t / o for t, o in zip(self.times[best], own)) if best else [float("nan")]
            print(f"{name:22} {statistics.median(own) * 1e3:8.3f} ms   fastest torch / this {statistics.median(ratios):5.2f}"
                  f" ({ratios[0]:.2f} to {ratios[-1]:.2f})   differs by {self.errors[name]:.1e}")
        for name, why in self.lost.items():
            print(f"{name:22} not measured: {why}")

    def failed(self):
        limit = {name: 5e-2 if "bf16" in name else 5e-3 if "tf32" in name else 1e-5 for name in self.errors}
        return bool(self.lost) or any(not e < limit[name] for name, e in self.errors.items())


if __name__ == "__main__":
    main()
