#!/usr/bin/env python3
"""A small program of torch whose kernels two recorders have to show alike, between two marks.

    gpuprof run --cuda -- python3 recorder_torch.py     recorded by gpuprof, without its hook in torch
    python3 recorder_torch.py --profile own.json        recorded by torch's own profiler
    python3 recorder_torch.py --ask                     whether this python can do either: a reason and exit code 1

The marks are kernels that torch calls spin_kernel and nothing else launches.
"""
import argparse
import sys
import time

STEPS = 30
WARM_S = 1.0  # clocks and caches settle


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--profile", metavar="FILE", help="record with torch's own profiler into FILE")
    ap.add_argument("--ask", action="store_true", help="say whether there is a torch that sees a GPU")
    args = ap.parse_args()
    try:
        import torch
    except ImportError as e:
        sys.exit(f"has no torch ({e})")
    if not torch.cuda.is_available():
        sys.exit("has a torch that sees no GPU")
    if args.ask:
        return
    torch.manual_seed(1)
    # Products so small that they leave most of the power unused: at its limit a GPU lowers its clock, by how
    # much depends on what ran before, and two recordings of the same kernels differ by that (7.7 % on an H200).
    layers = [torch.nn.Linear(512, 512, device="cuda") for _ in range(8)]
    x = torch.randn(1024, 512, device="cuda")

    def step():
        y = x
        for layer in layers:
            y = torch.nn.functional.relu(layer(y))
        y.sum().backward()

    def steps():
        begin = time.monotonic()
        while time.monotonic() - begin < WARM_S:
            step()
            torch.cuda.synchronize()
        torch.cuda._sleep(1000)
        for _ in range(STEPS):
            step()
        torch.cuda._sleep(1000)
        torch.cuda.synchronize()

    if not args.profile:
        steps()
        return
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]) as p:
        steps()
    p.export_chrome_trace(args.profile)


if __name__ == "__main__":
    main()
