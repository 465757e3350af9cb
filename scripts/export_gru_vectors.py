#!/usr/bin/env python3
"""Write GRU vectors computed by torch.nn.GRU, in the format of docs/gruflow.md.

    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python scripts/export_gru_vectors.py vectors.json [--seed 7]

Everything is computed in float64 and written with all its digits. The cases cover one and many time steps, carriers,
units and layers, both orders of the batch axis, unbatched input, missing biases and gates that saturate. Every second
case keeps its weights in an object, the others beside the other fields; both are read. The cases of kind gru_grad hold
the gradients of torch.autograd.
"""
import argparse
import json

import torch

# T, B, I, H, L, and what torch.nn.GRU is told besides.
CASES = [
    (1, 1, 1, 1, 1, {}),
    (1, 1, 1, 1, 1, {"bias": False}),
    (5, 1, 1, 1, 3, {}),
    (1, 4, 3, 5, 1, {}),
    (1, 7, 65, 9, 2, {}),
    (6, 3, 4, 8, 2, {}),
    (6, 3, 4, 8, 2, {"bias": False}),
    (4, 2, 9, 7, 3, {}),
    (9, 5, 2, 17, 1, {"batch_first": True}),
    (3, 4, 6, 9, 2, {"batch_first": True, "bias": False}),
    (8, None, 5, 6, 2, {}),
    (1, None, 11, 3, 1, {}),
    (20, 2, 3, 10, 1, {}),
    (1, 33, 8, 11, 3, {}),
    (2, 9, 40, 12, 1, {}),
    (3, 65, 3, 4, 1, {}),
    (2, 2, 5, 33, 1, {}),
    (12, 1, 1, 4, 2, {"scale": 30.0}),
    (3, 3, 5, 8, 2, {"scale": 1e-3}),
]


def case(index, steps, batch, inputs, hidden, layers, bias=True, batch_first=False, scale=1.0):
    gru = torch.nn.GRU(inputs, hidden, layers, bias=bias, batch_first=batch_first, dtype=torch.float64)
    lead = [] if batch is None else [batch]
    sequence = [batch, steps] if batch_first and lead else [steps] + lead
    x = scale * torch.randn(*sequence, inputs, dtype=torch.float64)
    h0 = torch.rand(layers, *lead, hidden, dtype=torch.float64) * 2 - 1
    with torch.no_grad():
        out, hn = gru(x, h0)
        zero_out, zero_hn = gru(x)
    c = {"kind": "gru", "input_size": inputs, "hidden_size": hidden, "num_layers": layers}
    if not bias:
        c["bias"] = False
    if batch_first:
        c["batch_first"] = True
    weights = {name: t.tolist() for name, t in gru.state_dict().items()}
    if index % 2:
        c["weights"] = weights
    else:
        c |= weights
    c["x"] = x.tolist()
    if index % 5 == 3:  # the state a GRU starts from when it is given none
        return c | {"out": zero_out.tolist(), "hn": zero_hn.tolist()}
    return c | {"h0": h0.tolist(), "out": out.tolist(), "hn": hn.tolist()}


# The same for cases of gradients.
GRADIENTS = [
    (1, 1, 1, 1, 1, {}),
    (2, 1, 1, 1, 1, {}),
    (5, 3, 4, 8, 2, {}),
    (4, 2, 9, 7, 3, {"bias": False}),
    (6, 5, 2, 17, 1, {"batch_first": True}),
    (7, None, 5, 6, 2, {}),
    (3, 33, 8, 11, 1, {}),
    (40, 2, 3, 5, 1, {}),
    (12, 1, 1, 4, 2, {"scale": 30.0}),
]


def gradient_case(index, steps, batch, inputs, hidden, layers, bias=True, batch_first=False, scale=1.0):
    """The gradients of sum(out dout) + sum(hn dhn) by torch.autograd."""
    gru = torch.nn.GRU(inputs, hidden, layers, bias=bias, batch_first=batch_first, dtype=torch.float64)
    lead = [] if batch is None else [batch]
    sequence = [batch, steps] if batch_first and lead else [steps] + lead
    x = (scale * torch.randn(*sequence, inputs, dtype=torch.float64)).requires_grad_()
    h0 = (torch.rand(layers, *lead, hidden, dtype=torch.float64) * 2 - 1).requires_grad_()
    out, hn = gru(x, h0)
    dout, dhn = torch.randn_like(out), torch.randn_like(hn)
    if index % 3 == 2:  # a cotangent that is missing is zero
        dout = torch.zeros_like(out)
    torch.autograd.backward([out, hn], [dout, dhn])
    c = {"kind": "gru_grad", "input_size": inputs, "hidden_size": hidden, "num_layers": layers}
    if not bias:
        c["bias"] = False
    if batch_first:
        c["batch_first"] = True
    c["weights"] = {name: t.tolist() for name, t in gru.state_dict().items()}
    c |= {"x": x.tolist(), "h0": h0.tolist(), "dhn": dhn.tolist()}
    if index % 3 != 2:
        c["dout"] = dout.tolist()
    grads = {name: p.grad.tolist() for name, p in gru.named_parameters()}
    return c | {"dx": x.grad.tolist(), "dh0": h0.grad.tolist(), "grads": grads}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", help="JSON file to write")
    parser.add_argument("--seed", type=int, default=20261121, help="seed of weights and inputs")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    cases = [case(i, *sizes, **options) for i, (*sizes, options) in enumerate(CASES)]
    cases += [gradient_case(i, *sizes, **options) for i, (*sizes, options) in enumerate(GRADIENTS)]
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    with open(args.output, "w") as f:
        f.write('{"cases":[\n' + lines + "\n]}\n")
    print(f"wrote {len(cases)} cases to {args.output} with torch {torch.__version__}")


if __name__ == "__main__":
    main()
