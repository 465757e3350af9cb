#!/usr/bin/env python3
"""Export reference vectors from e3nn (0.5 or newer) for `gpuprof run --check e3nn --vectors FILE.json`.

    python3 -m venv venv && venv/bin/pip install torch e3nn
    venv/bin/python scripts/record/export_e3nn_vectors.py vectors.json [--seed N]

To export cases of your own, import this file, call wigner_3j, spherical_harmonics, tensor_product or gate below, and
put the dictionaries they return into the list "cases".

The file holds {"cases": [...]}; every number is computed in torch.float64 and every array is a nested list.
e3nn's conventions hold throughout: l=1 is (x, y, z), polar axis y, blocks of multiplicity mul-major ("mul_ir").
Inputs that carry samples (r, x, y, w, out) are lists with one row per sample. Kinds and their fields:

wigner_3j            l1, l2, l3; out[2*l1+1][2*l2+1][2*l3+1]
spherical_harmonics  lmax; normalization component|norm|integral; r: rows [x, y, z], of any length (e3nn normalize=True);
                     out: rows of l = 0..lmax joined, (lmax+1)^2 values
tensor_product       irreps_in1, irreps_in2, irreps_out; instructions: [i_in1, i_in2, i_out, mode, has_weight, path_weight];
                     irrep_normalization component|norm|none; path_normalization element|path|none; x; y; out;
                     w: weights per sample, flat in instruction order, each row-major in e3nn's weight shape (uvw
                     [mul1][mul2][mul_out], uvu and uvv [mul1][mul2], uuw [mul1][mul_out], uuu [mul1]); rows are empty
                     where no instruction has a weight
gate                 irreps_scalars, irreps_gates, irreps_gated; activations: [names for the blocks of irreps_scalars,
                     names for the blocks of irreps_gates], each silu|sigmoid|tanh|none (none = identity, constant 1);
                     normalisation e3nn|exact; x; out.
                     x is in the order of e3nn's Gate.irreps_in: the blocks scalars, gates, gated joined and then stably
                     sorted by (l, parity) with odd first (for even scalars and gates that is no change); out is
                     scalars then gated, unsorted.
                     "e3nn" keeps e3nn's normalisation constants, which are Monte Carlo figures (normalize2mom); "exact"
                     is e3nn's output rescaled by exact/Monte Carlo, with 1/sqrt(E[act(z)^2]) by quadrature.

Gradients are torch.autograd's, of the sum of what is computed times a cotangent:

spherical_harmonics_grad  as spherical_harmonics, with dy, the harmonics' cotangents; out: rows, the gradient by r
tensor_product_grad  as tensor_product, with dout, the output's cotangents; out: rows of dx, dy and dw joined
gate_grad            as gate, with dout; out: the gradient by x, in its order
radial_grad          basis gaussian|bessel; functions; cutoff; envelope: whether the polynomial of order 6 is on it;
                     r: rows of one length; db; out: rows, the derivative of sum db b by r
forces               one convolution as gpuprof's presets have it: irreps_in, lmax and irreps_out; basis, functions, cutoff
                     and envelope; hidden, neurons of the MLP; positions; src and dst of the edges, sorted by dst; x, w1,
                     w2; mix, flat [mul_in][mul_out] by input block, then output block; readout, a factor per scalar.
                     out: the energy, sum of readout times scalars, and its gradient by every position
"""
import argparse
import json
import math

import torch
from e3nn import nn, o3
from e3nn.math import normalize2mom, soft_one_hot_linspace

torch.set_default_dtype(torch.float64)  # e3nn builds its constants in the default type

ACTIVATIONS = {"silu": torch.nn.functional.silu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "none": None}


def wigner_3j(l1, l2, l3):
    return {"kind": "wigner_3j", "l1": l1, "l2": l2, "l3": l3,
            "out": o3.wigner_3j(l1, l2, l3, dtype=torch.float64).tolist()}


def spherical_harmonics(lmax, normalization, r):
    r = torch.as_tensor(r, dtype=torch.float64)
    out = o3.spherical_harmonics(list(range(lmax + 1)), r, normalize=True, normalization=normalization)
    return {"kind": "spherical_harmonics", "lmax": lmax, "normalization": normalization,
            "r": r.tolist(), "out": out.tolist()}


def tensor_product(in1, in2, out, instructions, irrep_normalization="component", path_normalization="element", samples=2):
    """instructions: (i_in1, i_in2, i_out, mode, has_weight[, path_weight])."""
    instructions = [(*ins, 1.0) if len(ins) == 5 else ins for ins in instructions]
    tp = o3.TensorProduct(in1, in2, out, instructions, irrep_normalization=irrep_normalization,
                          path_normalization=path_normalization, shared_weights=False, internal_weights=False)
    x, y = tp.irreps_in1.randn(samples, -1), tp.irreps_in2.randn(samples, -1)
    w = torch.randn(samples, tp.weight_numel)
    result = tp(x, y, w if tp.weight_numel > 0 else None)
    return {"kind": "tensor_product", "irreps_in1": str(tp.irreps_in1), "irreps_in2": str(tp.irreps_in2),
            "irreps_out": str(tp.irreps_out), "instructions": [list(ins) for ins in instructions],
            "irrep_normalization": irrep_normalization, "path_normalization": path_normalization,
            "x": x.tolist(), "y": y.tolist(), "w": w.tolist(), "out": result.tolist()}


def exact_constant(act):
    """1/sqrt(E[act(z)^2]) for standard normal z; the trapezoid rule is exact to rounding for smooth act."""
    z = torch.linspace(-14.0, 14.0, 28001)
    density = torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return 1.0 / math.sqrt(torch.trapezoid(act(z) ** 2 * density, z).item())


def exact_over_e3nn(irreps, names):
    """exact_constant / e3nn's constant, one figure per channel of irreps."""
    ratios = []
    for (mul, _), name in zip(o3.Irreps(irreps), names):
        act = ACTIVATIONS[name]
        ratios += mul * [1.0 if act is None else exact_constant(act) / normalize2mom(act).cst]
    return torch.tensor(ratios)


def gate(scalars, act_scalars, gates, act_gates, gated, normalisation="e3nn", samples=2):
    g = nn.Gate(scalars, [ACTIVATIONS[a] for a in act_scalars], gates, [ACTIVATIONS[a] for a in act_gates], gated)
    x = 2 * g.irreps_in.randn(samples, -1)
    out = g(x)
    if normalisation == "exact":
        of_gated = exact_over_e3nn(gates, act_gates)
        dims = torch.tensor([ir.dim for mul, ir in o3.Irreps(gated) for _ in range(mul)], dtype=torch.long)
        out = out * torch.cat([exact_over_e3nn(scalars, act_scalars), of_gated.repeat_interleave(dims)])
    return {"kind": "gate", "irreps_scalars": str(o3.Irreps(scalars)), "irreps_gates": str(o3.Irreps(gates)),
            "irreps_gated": str(o3.Irreps(gated)), "activations": [list(act_scalars), list(act_gates)],
            "normalisation": normalisation, "x": x.tolist(), "out": out.tolist()}


def spherical_harmonics_grad(lmax, normalization, r):
    r = torch.as_tensor(r, dtype=torch.float64).clone().requires_grad_()
    dy = torch.randn(len(r), (lmax + 1) ** 2)
    y = o3.spherical_harmonics(list(range(lmax + 1)), r, normalize=True, normalization=normalization)
    (out,) = torch.autograd.grad((y * dy).sum(), r)
    return {"kind": "spherical_harmonics_grad", "lmax": lmax, "normalization": normalization,
            "r": r.tolist(), "dy": dy.tolist(), "out": out.tolist()}


def tensor_product_grad(case):
    """The gradients of a case of tensor_product."""
    tp = o3.TensorProduct(case["irreps_in1"], case["irreps_in2"], case["irreps_out"], case["instructions"],
                          irrep_normalization=case["irrep_normalization"], path_normalization=case["path_normalization"],
                          shared_weights=False, internal_weights=False)
    x, y, w = (torch.tensor(case[k], dtype=torch.float64).requires_grad_() for k in "xyw")
    dout = torch.randn(len(x), tp.irreps_out.dim)
    inputs = (x, y, w) if tp.weight_numel > 0 else (x, y)
    grads = torch.autograd.grad((tp(x, y, w if tp.weight_numel > 0 else None) * dout).sum(), inputs)
    return {k: v for k, v in case.items() if k != "out"} | {
        "kind": "tensor_product_grad", "dout": dout.tolist(), "out": torch.cat(grads, 1).tolist()}


def gate_grad(scalars, act_scalars, gates, act_gates, gated):
    g = nn.Gate(scalars, [ACTIVATIONS[a] for a in act_scalars], gates, [ACTIVATIONS[a] for a in act_gates], gated)
    x = (2 * g.irreps_in.randn(2, -1)).requires_grad_()
    dout = torch.randn(2, g.irreps_out.dim)
    (out,) = torch.autograd.grad((g(x) * dout).sum(), x)
    return {"kind": "gate_grad", "irreps_scalars": str(o3.Irreps(scalars)), "irreps_gates": str(o3.Irreps(gates)),
            "irreps_gated": str(o3.Irreps(gated)), "activations": [list(act_scalars), list(act_gates)],
            "normalisation": "e3nn", "x": x.tolist(), "dout": dout.tolist(), "out": out.tolist()}


def radial(basis, functions, cutoff, envelope, r):
    b = soft_one_hot_linspace(r, 0.0, cutoff, functions, basis=basis, cutoff=False)
    if envelope:
        t = r / cutoff
        u = 1 - 28 * t**6 + 48 * t**7 - 21 * t**8
        b = b * torch.where(t < 1, u, torch.zeros_like(u))[:, None]
    return b


def radial_grad(basis, functions, cutoff, envelope, r):
    r = torch.as_tensor(r, dtype=torch.float64).clone().requires_grad_()
    db = torch.randn(len(r), functions)
    (out,) = torch.autograd.grad((radial(basis, functions, cutoff, envelope, r) * db).sum(), r)
    return {"kind": "radial_grad", "basis": basis, "functions": functions, "cutoff": cutoff, "envelope": envelope,
            "r": r[:, None].tolist(), "db": db.tolist(), "out": out[:, None].tolist()}


def mixed(x, irreps_in, irreps_out, mix):
    """o3.Linear on blocks as they are given: every output block is a sum over the input blocks of its irrep."""
    irreps_in, irreps_out, at = o3.Irreps(irreps_in), o3.Irreps(irreps_out), 0
    out = [torch.zeros(len(x), mul, ir.dim) for mul, ir in irreps_out]
    for (mul, ir), s in zip(irreps_in, irreps_in.slices()):
        block = x[:, s].reshape(len(x), mul, ir.dim)
        for o, (mul_out, ir_out) in enumerate(irreps_out):
            if ir_out == ir:
                w = mix[at:at + mul * mul_out].reshape(mul, mul_out)
                out[o] = out[o] + torch.einsum("uw,rui->rwi", w, block) / math.sqrt(irreps_in.count(ir))
                at += mul * mul_out
    return [o.reshape(len(x), -1) for o in out]


def forces(in1, lmax, target, basis, functions, cutoff, envelope, hidden, positions):
    """An energy and its gradient by positions."""
    in1, sh, target = o3.Irreps(in1), o3.Irreps.spherical_harmonics(lmax), o3.Irreps(target)
    pos = torch.as_tensor(positions, dtype=torch.float64).clone().requires_grad_()
    n = len(pos)
    dst, src = map(list, zip(*[(i, j) for i in range(n) for j in range(n)
                               if i != j and torch.linalg.norm(pos[i] - pos[j]) < cutoff]))
    tp = paths_of(in1, sh, target)
    scalars = [(mul, ir) for mul, ir in target if ir.l == 0]
    gated = [(mul, ir) for mul, ir in target if ir.l > 0]
    before = o3.Irreps(scalars + [(sum(mul for mul, _ in gated), "0e")] + gated)
    mix_numel = sum(mul * mul_out for mul, ir in tp.irreps_out for mul_out, ir_out in before if ir == ir_out)
    x, w1, w2 = torch.randn(n, in1.dim), torch.randn(functions, hidden), torch.randn(hidden, tp.weight_numel)
    mix, readout = torch.randn(mix_numel), torch.randn(sum(mul for mul, _ in scalars))
    silu, tanh = (lambda z, c=exact_constant(ACTIVATIONS[a]), f=ACTIVATIONS[a]: c * f(z) for a in ("silu", "tanh"))
    vec = pos[src] - pos[dst]
    b = radial(basis, functions, cutoff, envelope, vec.norm(dim=1))
    w = silu(b @ w1 / math.sqrt(functions)) @ w2 / math.sqrt(hidden)
    messages = tp(x[src], o3.spherical_harmonics(sh, vec, True, "component"), w)
    mid = torch.zeros(n, tp.irreps_out.dim).index_add(0, torch.tensor(dst), messages) / math.sqrt(20)
    blocks = mixed(mid, tp.irreps_out, before, mix)
    # Gated features do not reach the energy; a readout of odd scalars is only there to be checked.
    out = torch.cat([(silu if ir.p == 1 else tanh)(v) for v, (_, ir) in zip(blocks, scalars)], 1)
    energy = (out * readout).sum()
    (grad,) = torch.autograd.grad(energy, pos)
    return {"kind": "forces", "irreps_in": str(in1), "lmax": lmax, "irreps_out": str(target), "basis": basis, "functions": functions,
            "cutoff": cutoff, "envelope": envelope, "hidden": hidden, "positions": pos.tolist(), "src": src, "dst": dst,
            "x": x.tolist(), "w1": w1.tolist(), "w2": w2.tolist(), "mix": mix.tolist(), "readout": readout.tolist(),
            "out": [energy.item()] + grad.flatten().tolist()}


def wigner_cases():
    triples = [(0, 0, 0), (0, 2, 2), (3, 0, 3), (1, 1, 0), (1, 1, 1), (1, 1, 2), (1, 2, 1), (2, 1, 1), (1, 2, 2),
               (1, 2, 3), (2, 2, 1), (2, 2, 2), (2, 3, 4), (3, 3, 3), (4, 2, 3), (4, 4, 4), (4, 4, 8), (5, 3, 6),
               (6, 5, 4), (7, 1, 8), (7, 7, 1), (8, 8, 0), (8, 2, 7), (8, 8, 8)]
    return [wigner_3j(*t) for t in triples]


def harmonics_cases():
    poles = [[0, 0, 1], [0, 0, -1], [0, 1, 0], [0, -2, 0], [1, 0, 0], [0, 0, 0], [1e-9, 1, 0], [3, 0, 4]]
    cases = []
    for normalization in ("component", "norm", "integral"):
        cases += [spherical_harmonics(lmax, normalization, torch.randn(4, 3)) for lmax in (1, 4)]
        cases.append(spherical_harmonics(8, normalization, torch.cat([torch.tensor(poles), 100 * torch.randn(4, 3)])))
    return cases


def convolution(in1, sh, target):
    """The "uvu" product of NequIP and MACE: a path per (block, harmonic, irrep in target), output sorted."""
    in1, sh = o3.Irreps(in1), o3.Irreps(sh)
    mid, paths = uvu_paths(in1, sh, o3.Irreps(target))
    return tensor_product(in1, sh, mid, paths)


def uvu_paths(in1, sh, target):
    mid, paths = [], []
    for i, (mul, a) in enumerate(in1):
        for j, (_, b) in enumerate(sh):
            for ir in a * b:
                if ir in target:
                    paths.append((i, j, len(mid)))
                    mid.append((mul, ir))
    mid, p, _ = o3.Irreps(mid).sort()
    return mid, sorted(((i, j, p[k], "uvu", True) for i, j, k in paths), key=lambda path: path[2])


def paths_of(in1, sh, target):
    mid, paths = uvu_paths(in1, sh, target)
    return o3.TensorProduct(in1, sh, mid, paths, shared_weights=False, internal_weights=False)


def one_path_cases():
    """Every mode alone, on irreps that differ in l and parity, with and without weight."""
    cases = []
    for mode, in1, in2, out in [("uvw", "3x1o", "2x2e", "4x3o"), ("uvu", "3x2o", "2x1o", "3x2e"),
                                ("uvv", "2x1e", "5x3o", "5x4o"), ("uuw", "4x2e", "4x2o", "3x1o"),
                                ("uuu", "5x1o", "5x1o", "5x1e")]:
        for norm in ("component", "norm"):
            cases.append(tensor_product(in1, in2, out, [(0, 0, 0, mode, True, 0.7)], irrep_normalization=norm))
        if mode in ("uvu", "uvv", "uuu"):
            cases.append(tensor_product(in1, in2, out, [(0, 0, 0, mode, False)]))
    cases.append(tensor_product("4x2e", "4x2o", "1x1o", [(0, 0, 0, "uuw", False, 2.5)]))
    for out in ("0e", "1e", "2e"):
        cases.append(tensor_product("1o", "1o", out, [(0, 0, 0, "uuu", False)], samples=3))
    cases.append(tensor_product("2x0o", "1x3o", "2x3e", [(0, 0, 0, "uvu", True)], samples=3))
    cases.append(tensor_product("2x4e", "3x4e", "2x4e", [(0, 0, 0, "uvw", True)]))
    cases.append(tensor_product("1x0e+1x2e", "1x0e+1x2e", "1x0e", [(0, 0, 0, "uvw", True), (1, 1, 0, "uvw", True)]))
    return cases


def shared_slot_cases():
    """Several paths into the same output block: element and path normalisation differ."""
    in1, in2, out = "3x0e+2x1o+4x2e", "2x0e+1x1o+3x1e", "3x0e+2x1o+2x2o+4x2e"
    paths = [(0, 0, 0, "uvw", True, 1.0), (1, 1, 0, "uvw", True, 0.25), (0, 1, 1, "uvw", True, 3.0),
             (1, 0, 1, "uvu", True, 1.0), (1, 2, 1, "uvu", False, 0.5), (1, 2, 2, "uvu", True, 2.0),
             (2, 1, 2, "uvw", True, 1.5), (2, 0, 3, "uvu", True, 1.0), (2, 2, 3, "uvu", False, 1.0),
             (1, 1, 3, "uvw", True, 4.0)]
    cases = [tensor_product(in1, in2, out, paths, irrep, path)
             for irrep in ("component", "norm", "none") for path in ("element", "path", "none")]
    mixed = [(0, 0, 0, "uuu", True, 1.0), (0, 0, 0, "uvv", False, 0.3), (1, 0, 0, "uuw", True, 2.0), (1, 1, 0, "uvv", True, 1.0)]
    for path in ("element", "path"):
        cases.append(tensor_product("3x1o+3x2o", "3x1o+3x2o", "3x1e", mixed, "component", path))
        cases.append(tensor_product("3x1o+3x2o", "3x1o+3x2o", "3x1e", mixed, "norm", path))
    return cases


def convolution_cases():
    natural = "1x0e+1x1o+1x2e+1x3o+1x4e"
    return [convolution("2x0e+2x1o", "1x0e+1x1o", "0e+1o"),
            convolution("4x0e+4x1o", "1x0e+1x1o+1x2e+1x3o", "0e+1o+2e"),
            convolution("3x0o+3x0e+3x1o+3x1e+3x2o+3x2e", "0e+1o+2e", "0o+0e+1o+1e+2o+2e"),
            convolution("5x0e+4x1o+3x2e+2x3o+1x4e", natural, natural)]


def gate_cases():
    cases = []
    for normalisation in ("e3nn", "exact"):
        cases += [
            gate("4x0e", ["silu"], "", [], "", normalisation),
            gate("3x0e", ["silu"], "3x0e", ["sigmoid"], "2x1o+1x2e", normalisation),
            gate("2x0e+3x0o", ["silu", "tanh"], "5x0e", ["silu"], "2x1o+2x1e+1x3o", normalisation),
            gate("2x0o", ["tanh"], "2x0e+2x0o", ["sigmoid", "tanh"], "2x1o+2x2e", normalisation),
            gate("2x0e+2x0o", ["none", "none"], "1x0e+2x0o", ["none", "tanh"], "3x2e", normalisation),
            gate("1x0e+2x0o+1x0e", ["tanh", "tanh", "silu"], "1x0e+1x0o+1x0e", ["silu", "tanh", "sigmoid"],
                 "1x3o+2x1e", normalisation),
        ]
    return cases


def grad_cases():
    products = one_path_cases() + shared_slot_cases()[:3] + convolution_cases()
    cases = [tensor_product_grad(c) for c in products]
    for normalization in ("component", "norm", "integral"):
        cases += [spherical_harmonics_grad(lmax, normalization, torch.randn(4, 3)) for lmax in (1, 4, 8)]
    lengths = [0.02, 0.3, 1.0, 2.7, 3.99, 4.5]
    for basis, envelope in (("gaussian", False), ("gaussian", True), ("bessel", False), ("bessel", True)):
        cases.append(radial_grad(basis, 10, 4.0, envelope, lengths))
    cases += [gate_grad("4x0e", ["silu"], "", [], ""), gate_grad("3x0e", ["silu"], "3x0e", ["sigmoid"], "2x1o+1x2e"),
              gate_grad("2x0e+3x0o", ["silu", "tanh"], "5x0e", ["silu"], "2x1o+2x1e+1x3o")]
    cluster = [[0, 0, 0], [1.1, 0.2, -0.3], [-0.4, 1.3, 0.8], [0.9, -1.0, 1.2], [2.1, 1.4, 0.3]]
    networks = [("1x0e+1x1o", 1, "1x0e+1x1o", "gaussian", 4, 4.0, False, 3, cluster[:3]),
                ("3x0e+2x1o", 2, "2x0e+2x1o+1x2e", "bessel", 8, 3.0, True, 16, cluster),
                ("2x0o+3x0e+2x1o+2x1e", 2, "2x0o+2x0e+1x1o+1x2e", "gaussian", 10, 3.5, False, 8, cluster)]
    return cases, [forces(*n) for n in networks]


def build_cases():
    cases = wigner_cases() + harmonics_cases() + one_path_cases() + shared_slot_cases() + convolution_cases() + gate_cases()
    gradients, networks = grad_cases()
    return cases + gradients, networks


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", help="JSON file to write")
    parser.add_argument("--forces", help="JSON file to write the cases of kind forces to, which the tests read")
    parser.add_argument("--seed", type=int, default=20261121, help="seed of the random inputs")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    cases, networks = build_cases()
    write(args.output, cases)
    if args.forces:
        write(args.forces, networks)


def write(path, cases):
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    with open(path, "w") as f:
        f.write('{"cases":[\n' + lines + "\n]}\n")
    counts = {kind: sum(case["kind"] == kind for case in cases) for kind in sorted({case["kind"] for case in cases})}
    print(f"wrote {len(cases)} cases to {path}: {counts}")


if __name__ == "__main__":
    main()
