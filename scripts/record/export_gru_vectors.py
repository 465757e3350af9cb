#!/usr/bin/env python3
"""Write GRU vectors computed by torch.nn.GRU, in the format of docs/gruflow.md.

    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python scripts/record/export_gru_vectors.py vectors.json [--steps steps.json] [--seed 7]

Everything is computed in float64 and written with all its digits. The cases cover one and many time steps, carriers,
units and layers, both orders of the batch axis, unbatched input, missing biases and gates that saturate. Every second
case keeps its weights in an object, the others beside the other fields; both are read. The cases of kind gru_grad hold
the gradients of torch.autograd, and those of kind gru_train_step, for this project's own tests, a whole step of training: carriers that go down a
window of levels, the loss of what they deposit, its gradients, clipping by their norm and one step of torch.optim.Adam.
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


# Window, T, carriers, I, H, L, depth, and besides lr and the largest norm of all gradients.
STEPS = [
    (3, 1, 5, 4, 6, 2, 4, {}),
    (4, 2, 3, 5, 7, 1, 3, {"lr": 0.01, "clip": 0.05}),
    (2, 3, 4, 3, 5, 3, 1, {"clip": 1e6}),
    (7, 1, 6, 2, 4, 1, 5, {"lr": 1e-4}),
]

STRIDE = float(torch.tensor(0.01, dtype=torch.float32))  # how far a carrier drifts in a level at most
KAPPA = 0.3  # weight of the carriers' places in the loss


def single(t):
    """Values that float32 holds, in which gpuprof keeps all that a step starts from."""
    return t.float().double()


def train_step(window, steps, carriers, inputs, hidden, layers, depth, lr=1e-3, clip=1.0):
    """A step of gpuprof's workload gruflow with pass=train, by torch.autograd and torch.optim.Adam."""
    gru = torch.nn.GRU(inputs, hidden, layers, dtype=torch.float64)
    head = torch.nn.Linear(hidden, 4, dtype=torch.float64)
    params = {name: p for name, p in gru.named_parameters()} | {"projection": head.weight, "projection_bias": head.bias}
    with torch.no_grad():
        for p in params.values():
            p.copy_(single(p))
    x = single(torch.randn(window, steps, carriers, inputs, dtype=torch.float64))
    h0 = single(torch.rand(layers, carriers, hidden, dtype=torch.float64) - 0.5)
    energy, source = (single(0.5 + torch.rand(carriers, dtype=torch.float64)) for _ in range(2))
    place = single(0.02 * (torch.rand(carriers, 2, dtype=torch.float64) - 0.5))
    target = single(torch.rand(depth, dtype=torch.float64) * carriers * window / depth)
    level = torch.arange(carriers) % depth
    c = {"kind": "gru_train_step", "input_size": inputs, "hidden_size": hidden, "num_layers": layers, "depth": depth, "lr": lr, "clip": clip,
         "weights": {n: p.tolist() for n, p in gru.named_parameters()}, "projection": head.weight.tolist(), "projection_bias": head.bias.tolist(),
         "x": x.tolist(), "h0": h0.tolist(), "energy": energy.tolist(), "level": level.tolist(), "place": place.tolist(), "source": source.tolist(),
         "target": target.tolist()}
    h, dose = h0, torch.zeros(depth, dtype=torch.float64)
    for j in range(window):
        field = torch.cat([energy.expand(steps, carriers)[..., None], x[j, :, :, 1:]], 2)  # column 0 is the energy
        out, h = gru(field, h)
        p = head(out[-1])
        q = torch.sigmoid(p[:, 0]) * energy
        dose = dose.index_add(0, level, q)
        energy, place, level = energy - q, place + STRIDE * torch.tanh(p[:, 1:3]), level + 1
        leaves = level == depth  # another carrier enters in the place of one that leaves
        energy, place = torch.where(leaves, source, energy), torch.where(leaves[:, None], 0.0, place)
        h, level = torch.where(leaves[:, None], 0.0, h), torch.where(leaves, 0, level)
    loss = ((dose - target) ** 2).sum() / 2 + KAPPA * (place ** 2).sum() / 2
    adam = torch.optim.Adam(params.values(), lr=lr)
    loss.backward()
    c |= {"loss": loss.item(), "grads": {n: p.grad.tolist() for n, p in params.items()}}
    torch.nn.utils.clip_grad_norm_(params.values(), clip)
    adam.step()
    return c | {"parameters_after": {n: p.tolist() for n, p in params.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", help="JSON file to write")
    parser.add_argument("--steps", help="JSON file to write whole steps of training to")
    parser.add_argument("--seed", type=int, default=20261121, help="seed of weights and inputs")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    cases = [case(i, *sizes, **options) for i, (*sizes, options) in enumerate(CASES)]
    cases += [gradient_case(i, *sizes, **options) for i, (*sizes, options) in enumerate(GRADIENTS)]
    write(args.output, cases)
    if args.steps:
        write(args.steps, [train_step(*sizes, **options) for *sizes, options in STEPS])


def write(path, cases):
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    with open(path, "w") as f:
        f.write('{"cases":[\n' + lines + "\n]}\n")
    print(f"wrote {len(cases)} cases to {path} with torch {torch.__version__}")


if __name__ == "__main__":
    main()
