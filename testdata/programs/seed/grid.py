"""A simulation of cells on a grid, with the habits that its guide warns of. It trains nothing.

python grid.py [--gradients on] [--form eager] [--view eager] [--layout nchw] [--compile off]

Gradients are recorded though nobody calls backward; the picture is copied at every step though it is shown at every
third. The last line is the time of a step as a benchmark result.
"""

import argparse
import contextlib
import json
import time

import torch

STEPS, WARM, SHOWN = 40, 8, 3


def parse(words=None):
    flags = argparse.ArgumentParser()
    flags.add_argument("--gradients", choices=["on", "no_grad", "inference"], default="on")
    flags.add_argument("--form", choices=["eager", "script", "freeze"], default="eager")
    flags.add_argument("--compile", choices=["off", "on"], default="off")
    flags.add_argument("--view", choices=["eager", "lazy"], default="eager")
    flags.add_argument("--layout", choices=["nchw", "nhwc"], default="nchw")
    return flags.parse_args(words)


class Cells(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.sense = torch.nn.Conv2d(16, 48, 3, padding=1, groups=16, bias=False)
        self.update = torch.nn.Sequential(torch.nn.Conv2d(48, 64, 1), torch.nn.ReLU(), torch.nn.Conv2d(64, 16, 1))

    def forward(self, state):
        alive = torch.nn.functional.max_pool2d(state[:, 3:4], 3, 1, 1) > 0.1
        grown = state + 0.1 * torch.tanh(self.update(self.sense(state)))
        return grown.clamp(-2, 2) * alive


def context(options):
    return {"on": contextlib.nullcontext, "no_grad": torch.no_grad, "inference": torch.inference_mode}[options.gradients]()


def built(options, state):
    cells = Cells().eval()
    if options.layout == "nhwc":
        cells = cells.to(memory_format=torch.channels_last)
    if options.compile == "on":
        cells.compile()
    if options.form == "eager":
        return cells
    cells = torch.jit.trace(cells, state)
    return torch.jit.freeze(cells) if options.form == "freeze" else cells


def steps(options):
    """Simulates, and yields the picture after each step."""
    torch.manual_seed(3)
    state = torch.rand(1, 16, 96, 96)
    if options.layout == "nhwc":
        state = state.contiguous(memory_format=torch.channels_last)
    with context(options):
        cells = built(options, state)
    step, shown = 0, None
    while True:
        with context(options):
            state = cells(state)
            if options.view == "eager" or step % SHOWN == 0:
                shown = state[0, :4].detach().clone().mul(255).to(torch.uint8)
            if step % 8 == 7:
                state = state.detach()
        step += 1
        yield shown


def main():
    run = steps(parse())
    for _ in range(WARM):
        next(run)
    began = time.perf_counter()
    for _ in range(STEPS):
        shown = next(run)
    assert shown.shape == (4, 96, 96)
    print(json.dumps([{"name": "step", "unit": "s", "value": (time.perf_counter() - began) / STEPS}]))


if __name__ == "__main__":
    main()
