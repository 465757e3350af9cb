#!/usr/bin/env python3
"""Race the network of the workload serving against PyTorch on the CPU or a GPU: same weights, images and threads, taking turns.

    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python scripts/peer_serving.py [--preset small] [--batch 32] [--threads 2] [--rounds 12] [--compile]
    venv/bin/python scripts/peer_serving.py --device cuda --preset rxvision [--compile]

PyTorch runs the network in inference mode: eagerly, with channels_last, in bf16 (on the CPU under autocast) and, with --compile,
compiled. On a GPU its rows in float32 keep TF32 off, a row of its own has it on, and each batch ends with a synchronization, for
gpuprof as for PyTorch. --binary names a built scripts/peerserving (for a GPU its
test, go test -c), for a machine without Go. Every
round runs each program once for --steps batches, in turn; the table shows the median over rounds, and the median and range of the
time of PyTorch's fastest float32 form over this program's, round by round: above 1 it is faster. The logits of float32 programs
must agree with PyTorch in float64 on the CPU to 1e-5, those of tf32 to 5e-3 and of bf16 to 5e-2, or the script fails.
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
from resnet import drawn

ROOT = pathlib.Path(__file__).parent.parent
PRESETS = {"small": (16, 8, [1, 1, 1], 10), "cifar": (32, 16, [3, 3, 3], 10), "rxvision": (224, 64, [2, 2, 2, 2], 1000)}
GPUPROF = {"gpuprof implicit nhwc": [], "gpuprof implicit nchw": ["layout=nchw"], "gpuprof im2col": ["impl=im2col"],
           "gpuprof bn=apart": ["bn=apart"], "gpuprof bf16": ["precision=bf16"], "gpuprof int8": ["precision=int8"]}
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
        peers["torch.compile"] = (torch.compile(last if args.device == "cuda" else on), wide if args.device == "cuda" else xs)
    return x, peers


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("threads", 2), ("rounds", 12), ("steps", 20), ("batch", 32)):
        ap.add_argument("--" + name, type=int, default=default)
    ap.add_argument("--preset", choices=PRESETS, default="small")
    ap.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    ap.add_argument("--binary", type=pathlib.Path, help="scripts/peerserving, built")
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
        peer = args.binary or tmp / "peer"
        if not args.binary:
            subprocess.run(["go", *(["build"] if args.device == "cpu" else ["test", "-c"]), "-o", peer, "./scripts/peerserving"], check=True, cwd=ROOT)
        failed = race(args, tmp, peer, peers, want)
    sys.exit(1 if failed else 0)


def race(args, tmp, peer, peers, want):
    where, flags = (str(args.threads), []) if args.device == "cpu" else ("cuda", ["-test.run", "^TestPeer$", "-test.timeout", "0"])
    children = {name: subprocess.Popen([peer, *flags, tmp / "in", tmp / "out", where, *knobs], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                for name, knobs in (GPUPROF if args.device == "cpu" else ON_GPU).items()}

    def ask(child, request):
        child.stdin.write(request + "\n")
        child.stdin.flush()
        answer = child.stdout.readline().strip()
        if not answer:
            raise SystemExit(f"peer_serving: {' '.join(map(str, child.args[3:]))} ended with {child.wait()}; its message is above")
        return answer

    errors = {}
    for name, child in children.items():
        ask(child, "run 1")
        ask(child, "logits")
        errors[name] = torch.from_numpy(numpy.fromfile(tmp / "out", "<f4")).reshape(want.shape).double()
    with torch.inference_mode():
        for name, (net, x) in peers.items():
            errors[name] = net(x).double().cpu()
    errors = {name: ((got - want).norm() / want.norm()).item() for name, got in errors.items()}

    def timed(net, x):
        with torch.inference_mode():
            began = time.perf_counter()
            for _ in range(args.steps):
                net(x)
                if args.device == "cuda":
                    torch.cuda.synchronize()
            return time.perf_counter() - began

    runners = {name: (lambda child=child: float(ask(child, f"run {args.steps}"))) for name, child in children.items()}
    runners.update({name: (lambda p=p: timed(*p)) for name, p in peers.items()})
    times = {name: [] for name in runners}
    for i in range(args.rounds + 1):  # the first round warms up
        for name in (list(runners) if i % 2 == 0 else reversed(list(runners))):
            t = runners[name]() / args.steps
            if i > 0:
                times[name].append(t)
    report(args, times, errors)
    for child in children.values():
        child.stdin.close()
        child.wait()
    limit = {name: 5e-2 if "bf16" in name else 1 if "int8" in name else 5e-3 if "tf32" in name else 1e-5 for name in errors}
    return any(not e < limit[name] for name, e in errors.items())


def report(args, times, errors):
    best = min((name for name in times if name.startswith("torch") and "bf16" not in name and "tf32" not in name), key=lambda name: statistics.median(times[name]))
    where = f"{args.threads} threads" if args.device == "cpu" else f"{torch.cuda.get_device_name()}, cuDNN {torch.backends.cudnn.version()}"
    print(f"{args.preset}, batch {args.batch}, {where}, torch {torch.__version__}, {args.rounds} rounds of {args.steps} batches; {best} is the fastest in float32")
    for name, own in times.items():
        ratios = sorted(t / o for t, o in zip(times[best], own))
        print(f"{name:22} {statistics.median(own) * 1e3:8.3f} ms   fastest torch / this {statistics.median(ratios):5.2f}"
              f" ({ratios[0]:.2f} to {ratios[-1]:.2f})   differs by {errors[name]:.1e}")


if __name__ == "__main__":
    main()
