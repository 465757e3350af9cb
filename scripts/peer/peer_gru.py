#!/usr/bin/env python3
"""Race gpuprof's GRU against torch.nn.GRU: same inputs, same device, on a CPU the same threads, taking turns.

    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python scripts/peer/peer_gru.py [--threads 2] [--rounds 12] [--flows 1024] [--hidden 128] [--depth 40]
    venv/bin/python scripts/peer/peer_gru.py --flows 12544 --hidden 256 --depth 4 --reps 3
    venv/bin/python scripts/peer/peer_gru.py --backward --flows 256 --hidden 64 --layers 2
    venv/bin/python scripts/peer/peer_gru.py --train --flows 256 --hidden 64 --layers 2 [--compile]
    venv/bin/python scripts/peer/peer_gru.py --train --device cuda --flows 32 --input 2816 --hidden 2816 --layers 1 --depth 1500

A forward is depth calls of one time step each, the state carried on, as the workload gruflow makes them; with
--sequence it is one call of depth time steps. Every round runs each program once, in turn, and reports the median of
its repetitions; the table shows the median over rounds and the median and range of torch's time over gpuprof's, round by
round: above 1 gpuprof is faster. The last states must agree to 1e-5 or the script fails.
With --backward a run is one call of depth time steps forward and then backward, by torch.autograd and by gpuprof's own
kernels, and all gradients must agree.
With --train a run ends with a step of Adam besides: torch.optim.Adam(fused=True) in the row torch.nn.GRU, foreach=True in the
next, and with --compile the fused one behind a network that torch.compile made; the gradients of the first run must agree
to 1e-5 and the parameters after it to 1 % of their change. With --device cuda (of --backward and --train) both
run on the GPU in float32, torch.nn.GRU by cuDNN without TF32. gpuprof's side is then the test binary of scripts/peer/gru, as only
tests name that device; where there is no Go, --peer is one that was built elsewhere with go test -c ./scripts/peer/gru.
"""
import argparse
import copy
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


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
            f.write(t.detach().cpu().numpy().astype("<f4").tobytes())


def sync():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def spent(pid="self"):
    """Seconds of the processor that all threads of a process took, to a hundredth."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def mean_spent(ask, reps, pid="self"):
    before = spent(pid)
    ask()
    return (spent(pid) - before) / reps


def median_time(fn, reps):
    times = []
    for _ in range(reps):
        sync()
        began = time.perf_counter()
        fn()
        sync()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("threads", 2), ("rounds", 12), ("reps", 5), ("flows", 1024), ("hidden", 128), ("input", 65),
                          ("layers", 3), ("depth", 40)):
        ap.add_argument("--" + name, type=int, default=default)
    ap.add_argument("--sequence", action="store_true", help="one call of depth time steps instead of depth calls")
    ap.add_argument("--backward", action="store_true", help="forward and backward through one call of depth time steps")
    ap.add_argument("--train", action="store_true", help="and a step of Adam")
    ap.add_argument("--compile", action="store_true", help="with --train: torch.compile too (it needs a C++ compiler)")
    ap.add_argument("--processor-time", action="store_true", help="on a machine that others use")
    ap.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda: with --backward or --train")
    ap.add_argument("--peer", help="the program of scripts/peer/gru, or with --device cuda its test binary")
    args = ap.parse_args()
    args.backward |= args.train
    args.sequence |= args.backward
    if args.device == "cuda" and not args.backward:
        ap.error("--device cuda needs --backward or --train")
    torch.set_num_threads(args.threads)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    dev = torch.device(args.device)
    gru = torch.nn.GRU(args.input, args.hidden, args.layers)
    x = torch.randn(args.depth if args.sequence else 1, args.flows, args.input)
    h0 = torch.rand(args.layers, args.flows, args.hidden) - 0.5

    def forward():
        h = h0
        for _ in range(1 if args.sequence else args.depth):
            _, h = gru(x, h)
        return h

    dout = torch.randn(args.depth, args.flows, args.hidden) if args.backward else None
    gru, x, h0, dout = gru.to(dev), x.to(dev), h0.to(dev), dout if dout is None else dout.to(dev)
    if args.backward:
        x.requires_grad_()
        h0.requires_grad_()

    def backward(net, call, adam):
        """What takes net's gradients and, with Adam, its step."""
        leaves = [x, h0, *net.parameters()]

        def back():
            for t in leaves:
                t.grad = None
            out, _ = call(x, h0)
            out.backward(dout)
            if adam:
                adam.step()
            return leaves
        return back

    # Others of PyTorch's own, each with parameters of its own, which begin alike.
    others = {}
    if args.train:
        net = copy.deepcopy(gru)
        others["torch, Adam foreach"] = backward(net, net, torch.optim.Adam(net.parameters(), lr=1e-3, foreach=True))
    if args.train and args.compile:
        torch._dynamo.config.allow_rnn = True  # else it leaves a GRU to eager mode
        net = copy.deepcopy(gru)
        others["torch.compile"] = backward(net, torch.compile(net), torch.optim.Adam(net.parameters(), lr=1e-3, fused=True))
    adam = torch.optim.Adam(gru.parameters(), lr=1e-3, fused=True) if args.train else None
    back = backward(gru, gru, adam)

    def values(made):
        """The result of the first run as one array: gradients, with --train parameters besides."""
        if not args.backward:
            return made.double().flatten().cpu()
        all = [t.grad for t in made] + (made[2:] if adam else [])
        return torch.cat([t.detach().flatten().double().cpu() for t in all])

    work = back if args.backward else forward
    with tempfile.TemporaryDirectory() as tmp, torch.inference_mode(not args.backward):
        tmp = pathlib.Path(tmp)
        write_input(tmp / "in", args, gru, x, h0, dout)
        peer = args.peer and pathlib.Path(args.peer).resolve()
        if not peer:
            peer, build = tmp / "peer", ["test", "-c"] if args.device == "cuda" else ["build"]
            subprocess.run(["go", *build, "-o", peer, "./scripts/peer/gru"], check=True, cwd=ROOT)
        children = {}
        for impl in ("train",) if args.train else ("backward",) if args.backward else ("fused", "plain"):
            command, env = [peer, tmp / "in", tmp / impl, impl, str(args.threads)], dict(os.environ)
            if args.device == "cuda":
                command = [peer, "-test.run", "^TestCUDA$", "-test.timeout", "0"]
                env |= {"GPUPROF_DEVICE": "cuda", "GPUPROF_PEER": f"{tmp / 'in'} {tmp / impl} {impl}"}
            children[f"gpuprof {impl}"] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

        def ask(child):
            child.stdin.write(f"run {args.reps}\n")
            child.stdin.flush()
            answer = child.stdout.readline()
            try:
                return float(answer)
            except ValueError:
                sys.exit(f"gpuprof's side ended: {answer}{child.stdout.read()}")

        runners = {n: (lambda c=c: ask(c)) for n, c in children.items()}
        runners["torch.nn.GRU"] = lambda: median_time(work, args.reps)
        if args.processor_time:
            pids = {n: c.pid for n, c in children.items()}
            runners = {n: (lambda n=n, f=f: mean_spent(f, args.reps, pids.get(n, "self"))) for n, f in runners.items()}
        before = torch.cat([p.detach().flatten().double().cpu() for p in gru.parameters()])
        want = values(work())
        beside = {n: values(fn()) for n, fn in others.items()}
        for n, fn in others.items():
            runners[n] = lambda fn=fn: median_time(fn, args.reps)
            if args.processor_time:
                runners[n] = lambda fn=fn: mean_spent(lambda: median_time(fn, args.reps), args.reps, "self")
        for fn in runners.values():
            fn()
        times = {n: [] for n in runners}
        for i in range(args.rounds):
            for n in (list(runners) if i % 2 == 0 else reversed(list(runners))):
                times[n].append(runners[n]())
        failed = report(args, times, children, tmp, want, beside, before if adam else None)
    sys.exit(1 if failed else 0)


def report(args, times, children, tmp, want, beside, before):
    passes = 3 if args.backward else 1  # backward is two products for each of the forward
    flops = passes * args.depth * args.flows * 6 * args.hidden * (args.input + args.hidden + (args.layers - 1) * 2 * args.hidden)
    print(f"GRU {args.input} -> {args.hidden} x {args.layers}, {args.flows} flows, depth {args.depth}"
          f" ({'one call' if args.sequence else 'a call each'}{', forward and backward' if args.backward else ''}{', Adam' if args.train else ''}), {torch.cuda.get_device_name() if args.device == 'cuda' else f'{args.threads} threads'}, torch {torch.__version__},"
          f" {args.rounds} rounds{', processor time' if args.processor_time else ''}")
    torch_times, failed = times["torch.nn.GRU"], False
    for n, own in times.items():
        ratios = sorted(t / o for t, o in zip(torch_times, own))
        line = f"{n:20} {statistics.median(own) * 1e3:9.2f} ms {flops / statistics.median(own) / 1e9:7.1f} GF/s"
        line += f"   torch / this {statistics.median(ratios):5.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        got = beside.get(n)
        if n in children:
            children[n].stdin.close()
            children[n].wait()
            got = torch.tensor(numpy.fromfile(tmp / n.split()[1], "<f4")).reshape(want.shape).double()
        if got is not None:
            many = len(want) if before is None else len(want) - len(before)
            err = ((got[:many] - want[:many]).norm() / want[:many].norm()).item()
            failed |= not err < 1e-5
            line += f"   differs by {err:.1e}"
            if before is not None:
                # Adam's first step is the gradient's sign, which rounding decides where a gradient is next to nothing.
                err = ((got[many:] - want[many:]).norm() / (want[many:] - before).norm()).item()
                failed |= not err < 1e-2
                line += f", parameters by {err:.1e} of their change"
        print(line)
    return failed


if __name__ == "__main__":
    main()
