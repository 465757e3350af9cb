#!/usr/bin/env python3
"""Export whole training steps from e3nn for the tests of package e3nn, cases of kind train_step.

    python3 -m venv venv && venv/bin/pip install torch e3nn
    venv/bin/python scripts/record/export_e3nn_steps.py steps.json [--seed N]

A case is one convolution of kind forces (see export_e3nn_vectors.py) with a target per atom. rho is the sum of readout times
scalars of an atom, and the loss half the mean square of rho - target. The parameters are x, w1, w2, mix and readout. All is computed
in float64: loss and grads by torch.autograd, and parameters_after by clip_grad_norm_ and one step of torch.optim.Adam.
"""
import argparse
import json
import math

import torch
from e3nn import o3

from export_e3nn_vectors import ACTIVATIONS, exact_constant, forces, mixed, paths_of, radial

NAMES = ("x", "w1", "w2", "mix", "readout")


def rho(case, parameters):
    """The values of the atoms, from a case of kind forces and its parameters."""
    pos = torch.tensor(case["positions"], dtype=torch.float64)
    src, dst = case["src"], case["dst"]
    in1, sh, target = o3.Irreps(case["irreps_in"]), o3.Irreps.spherical_harmonics(case["lmax"]), o3.Irreps(case["irreps_out"])
    tp = paths_of(in1, sh, target)
    scalars = [(mul, ir) for mul, ir in target if ir.l == 0]
    gated = [(mul, ir) for mul, ir in target if ir.l > 0]
    before = o3.Irreps(scalars + [(sum(mul for mul, _ in gated), "0e")] + gated)
    x, w1, w2, mix, readout = (parameters[name] for name in NAMES)
    act = {name: (lambda z, c=exact_constant(ACTIVATIONS[name]), f=ACTIVATIONS[name]: c * f(z)) for name in ("silu", "tanh")}
    vec = pos[src] - pos[dst]
    b = radial(case["basis"], case["functions"], case["cutoff"], case["envelope"], vec.norm(dim=1))
    w = act["silu"](b @ w1 / math.sqrt(case["functions"])) @ w2 / math.sqrt(case["hidden"])
    messages = tp(x[src], o3.spherical_harmonics(sh, vec, True, "component"), w)
    mid = torch.zeros(len(pos), tp.irreps_out.dim).index_add(0, torch.tensor(dst), messages) / math.sqrt(20)
    blocks = mixed(mid, tp.irreps_out, before, mix)
    out = torch.cat([act["silu" if ir.p == 1 else "tanh"](v) for v, (_, ir) in zip(blocks, scalars)], 1)
    return (out * readout).sum(1)


def train_step(network, lr=1e-3, clip=1.0):
    case = forces(*network)
    parameters = {name: torch.tensor(case[name], dtype=torch.float64).requires_grad_() for name in NAMES}
    target = torch.randn(len(case["positions"]))
    values = rho(case, parameters)
    assert math.isclose(values.sum().item(), case["out"][0], rel_tol=1e-12), "the energy is not that of forces"
    loss = ((values - target) ** 2).sum() / (2 * len(target))
    loss.backward()
    case = {k: v for k, v in case.items() if k != "out"} | {
        "kind": "train_step", "target": target.tolist(), "lr": lr, "clip": clip, "loss": loss.item(),
        "grads": {name: p.grad.tolist() for name, p in parameters.items()}}
    adam = torch.optim.Adam(parameters.values(), lr=lr)
    torch.nn.utils.clip_grad_norm_(parameters.values(), clip)
    adam.step()
    return case | {"parameters_after": {name: p.tolist() for name, p in parameters.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", help="JSON file to write")
    parser.add_argument("--seed", type=int, default=20261126, help="seed of the random inputs")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    cluster = [[0, 0, 0], [1.1, 0.2, -0.3], [-0.4, 1.3, 0.8], [0.9, -1.0, 1.2], [2.1, 1.4, 0.3]]
    cases = [train_step(("1x0e+1x1o", 1, "1x0e+1x1o", "gaussian", 4, 4.0, False, 3, cluster[:3])),
             train_step(("3x0e+2x1o", 2, "2x0e+2x1o+1x2e", "bessel", 8, 3.0, True, 16, cluster), lr=0.01, clip=0.005),
             train_step(("2x0o+3x0e+2x1o+2x1e", 2, "2x0o+2x0e+1x1o+1x2e", "gaussian", 10, 3.5, False, 8, cluster), clip=1e6)]
    with open(args.output, "w") as f:
        f.write('{"cases":[\n' + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]}\n")
    print(f"wrote {len(cases)} cases to {args.output} with torch {torch.__version__}")


if __name__ == "__main__":
    main()
