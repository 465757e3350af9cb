#!/usr/bin/env python3
"""Records operators of PyTorch with their arguments, and the FLOPs that FlopCounterMode counts.

    record_operator_costs.py OUT.json      (torch 2.9.1; needs no GPU)

The counter knows nothing of gpuprof's models, and the bytes of a case are written down here by hand
from its shapes. TestAgainstCounter compares. An event has its depth among operators, so that the
test can take the innermost one with a model.
"""
import json
import os
import sys
import tempfile
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

warnings.filterwarnings("ignore")
torch.manual_seed(0)
# Operators that move no data.
VIEWS = {"aten::" + n for n in """empty empty_like empty_strided as_strided view _unsafe_view t transpose permute expand reshape detach resolve_conj
    resolve_neg squeeze unsqueeze select slice alias flatten _reshape_alias to result_type lift_fresh resize_ randn randint normal_ random_
    uniform_ zeros ones zeros_like ones_like""".split()}
KEYS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")


def tensor(*shape, grad=False, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, requires_grad=grad)


def backward(forward):
    def run():
        y = forward()
        y.backward(torch.ones_like(y).contiguous())
    return run


def record(run):
    """Every operator event of one run, in order, with its depth among operators."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as p:
        run()
    path = tempfile.mktemp(suffix=".json")
    p.export_chrome_trace(path)
    with open(path) as f:
        events = [e for e in json.load(f)["traceEvents"] if e.get("cat") == "cpu_op"]
    os.remove(path)
    events.sort(key=lambda e: (e["tid"], e["ts"], -e["dur"]))
    out, open_, thread = [], [], None
    for e in events:
        if e["tid"] != thread:
            open_, thread = [], e["tid"]
        while open_ and e["ts"] >= open_[-1]:
            open_.pop()
        event = {"name": e["name"], "depth": len(open_)}
        open_.append(e["ts"] + e["dur"])
        for key in KEYS:
            if key in e["args"]:
                event[key] = e["args"][key]
        if e["name"].startswith("aten::") and e["name"] not in VIEWS:
            out.append(event)
    return out


class Cases:
    def __init__(self):
        self.all = []

    def add(self, name, run, operator="", flops=None, bytes=None, reason=""):
        """flops replaces the counter where it is wrong, with the reason; bytes is of the operator named."""
        counted = None
        try:
            with FlopCounterMode(display=False) as counter:
                run()
            counted = counter.get_total_flops()
        except (AssertionError, RuntimeError):
            if flops is None:
                raise
        self.all.append({"case": name, "operator": operator, "counter": counted, "flops": counted if flops is None else flops,
                         "bytes": bytes, "reason": reason, "events": record(run)})


def operators(c):
    a, b, bias, full = tensor(33, 40), tensor(40, 56), tensor(56), tensor(33, 56)
    c.add("mm", lambda: a @ b, "aten::mm", bytes=4 * (33 * 40 + 40 * 56 + 33 * 56))
    c.add("mm of transposed views", lambda: b.t() @ a.t(), "aten::mm", bytes=4 * (33 * 40 + 40 * 56 + 33 * 56))
    c.add("addmm of a row", lambda: torch.addmm(bias, a, b), "aten::addmm", bytes=4 * (56 + 33 * 40 + 40 * 56 + 33 * 56))
    c.add("addmm with beta 0", lambda: torch.addmm(full, a, b, beta=0), "aten::addmm", bytes=4 * (33 * 40 + 40 * 56 + 33 * 56))
    x, y, z = tensor(4, 8, 16), tensor(4, 16, 24), tensor(4, 8, 24)
    c.add("bmm", lambda: torch.bmm(x, y), "aten::bmm", bytes=4 * 4 * (8 * 16 + 16 * 24 + 8 * 24))
    c.add("bmm of a broadcast matrix", lambda: torch.bmm(x, tensor(1, 16, 24).expand(4, 16, 24)), "aten::bmm",
          bytes=4 * (4 * 8 * 16 + 16 * 24 + 4 * 8 * 24))
    c.add("baddbmm", lambda: torch.baddbmm(z, x, y))
    c.add("mm of bfloat16", lambda: a.bfloat16() @ b.bfloat16(), "aten::mm", bytes=2 * (33 * 40 + 40 * 56 + 33 * 56))
    c.add("mv", lambda: torch.mv(a, tensor(40)), "aten::mv", flops=2 * 33 * 40, bytes=4 * (33 * 40 + 40 + 33), reason="the counter has no model of mv")
    w, wb, in3 = tensor(24, 16, grad=True), tensor(24, grad=True), tensor(4, 8, 16, grad=True)
    c.add("linear", lambda: F.linear(tensor(9, 16), w, wb))
    c.add("linear, training", backward(lambda: F.linear(in3, w, wb)))
    c.add("matmul of four dimensions", lambda: torch.matmul(tensor(2, 3, 8, 16), tensor(2, 3, 16, 5)))
    c.add("einsum", lambda: torch.einsum("bhid,bhjd->bhij", tensor(2, 3, 8, 16), tensor(2, 3, 9, 16)))
    i2, k2 = tensor(2, 4, 12, 10, grad=True), tensor(6, 4, 3, 3, grad=True)
    c.add("conv1d, training", backward(lambda: F.conv1d(tensor(2, 4, 20, grad=True), tensor(6, 4, 3, grad=True), padding=1)))
    c.add("conv2d", lambda: F.conv2d(i2, k2, padding=1), "aten::convolution", bytes=4 * (2 * 4 * 120 + 6 * 4 * 9 + 2 * 6 * 120))
    c.add("conv2d, training", backward(lambda: F.conv2d(i2, k2, torch.ones(6, requires_grad=True), padding=1)))
    c.add("conv2d, first layer", backward(lambda: F.conv2d(i2.detach(), k2, padding=1)))
    c.add("conv2d, stride and dilation", backward(lambda: F.conv2d(i2, k2, stride=2, dilation=2, padding=2)))
    c.add("conv2d of groups", lambda: F.conv2d(i2, tensor(6, 2, 3, 3), groups=2))
    out = 2 * 6 * (10 * 8) * 2 * 9 * 2
    c.add("conv2d of groups, training", backward(lambda: F.conv2d(i2, tensor(6, 2, 3, 3, grad=True), groups=2)), flops=3 * out,
          reason="the counter's gradient of the weights is too large by the number of groups")
    c.add("conv_transpose2d, training", backward(lambda: F.conv_transpose2d(i2, tensor(4, 6, 3, 3, grad=True), stride=2)))
    c.add("conv3d, training", backward(lambda: F.conv3d(tensor(1, 2, 5, 6, 7, grad=True), tensor(3, 2, 3, 3, 3, grad=True))))
    q, k, v = (tensor(2, 4, 16, 8, grad=True) for _ in range(3))
    dense = 2 * 2 * 4 * 16 * 16 * (8 + 8)
    fused = "the counter has no model of the CPU's fused attention"
    c.add("attention", lambda: F.scaled_dot_product_attention(q.detach(), k.detach(), v.detach()),
          "aten::_scaled_dot_product_flash_attention_for_cpu", flops=dense, bytes=4 * (4 * 2 * 4 * 16 * 8) + 4 * 2 * 4 * 16,
          reason=fused)
    c.add("attention, training", backward(lambda: F.scaled_dot_product_attention(q, k, v)), flops=3.5 * dense,
          reason=fused + "; its backward pass has five products")
    few = [tensor(2, 2, 16, 8) for _ in range(2)]
    c.add("attention of grouped queries", lambda: F.scaled_dot_product_attention(q.detach(), *few, enable_gqa=True), flops=dense, reason=fused)

    def unfused():
        with sdpa_kernel(SDPBackend.MATH):
            F.scaled_dot_product_attention(q, k, v).sum().backward()
    c.add("attention of single operators, training", unfused)
    causal = 2 * 2 * 4 * 16 * 16 * (8 + 8) * 17 / 32
    c.add("attention, causal", lambda: F.scaled_dot_product_attention(q.detach(), k.detach(), v.detach(), is_causal=True), flops=causal,
          reason="the counter takes a causal mask for a dense one")
    c.add("layer_norm", lambda: F.layer_norm(tensor(6, 32), (32,), tensor(32), tensor(32)), "aten::native_layer_norm",
          bytes=4 * (2 * 6 * 32 + 2 * 32 + 2 * 6))
    c.add("softmax", lambda: torch.softmax(tensor(6, 32), -1), "aten::_softmax", bytes=4 * 2 * 6 * 32)
    c.add("embedding", lambda: F.embedding(torch.randint(0, 50, (3, 7)), tensor(50, 8)), "aten::index_select", bytes=21 * 8 + 2 * 21 * 8 * 4)
    c.add("index_add_", lambda: tensor(9, 5).index_add_(0, torch.randint(0, 9, (40,)), tensor(40, 5)), "aten::index_add_",
          flops=0, bytes=40 * 8 + 40 * 5 * 4 + 2 * 40 * 5 * 4, reason="additions of a scatter are no matrix product")
    c.add("scatter_add_", lambda: tensor(9, 5).scatter_add_(0, torch.randint(0, 9, (40, 5)), tensor(40, 5)), "aten::scatter_add_",
          flops=0, bytes=200 * 8 + 200 * 4 + 2 * 200 * 4, reason="additions of a scatter are no matrix product")
    c.add("gather", lambda: tensor(9, 5).gather(0, torch.randint(0, 9, (4, 5))), "aten::gather", bytes=20 * 8 + 2 * 20 * 4)
    c.add("add, broadcast", lambda: tensor(6, 32) + tensor(32), "aten::add", bytes=4 * (6 * 32 + 32 + 6 * 32))
    c.add("add of a number", lambda: tensor(6, 32) + 1.0, "aten::add", bytes=4 * 2 * 6 * 32)
    c.add("comparison", lambda: tensor(6, 32) > tensor(6, 32), "aten::gt", bytes=4 * 2 * 6 * 32 + 6 * 32)
    c.add("where", lambda: torch.where(tensor(6, 32) > 0, tensor(6, 32), tensor(6, 32)), "aten::where", bytes=6 * 32 + 3 * 4 * 6 * 32)
    c.add("gelu, training", backward(lambda: F.gelu(tensor(6, 32, grad=True))), "aten::gelu_backward", bytes=4 * 3 * 6 * 32)
    c.add("sum of one dimension", lambda: tensor(6, 32).sum(1), "aten::sum", bytes=4 * (6 * 32 + 6))
    c.add("sum of all", lambda: tensor(6, 32).sum(), "aten::sum", bytes=4 * (6 * 32 + 1))
    c.add("amax", lambda: tensor(6, 32).amax((0, 1)), "aten::amax", bytes=4 * (6 * 32 + 1))
    c.add("copy to another type", lambda: tensor(6, 32).to(torch.bfloat16), "aten::copy_", bytes=6 * 6 * 32)
    c.add("dropout", lambda: F.dropout(tensor(6, 32), 0.5, training=True), "aten::mul", bytes=3 * 4 * 6 * 32)
    c.add("topk", lambda: tensor(6, 32).topk(3), "aten::topk", bytes=4 * 6 * 32 + 6 * 3 * 12)
    c.add("fft", lambda: torch.fft.fft(tensor(4, 16, dtype=torch.complex64)), "aten::_fft_c2c", flops=4 * 5 * 16 * 4, bytes=2 * 4 * 16 * 8,
          reason="the counter has no model of transforms")
    p = [tensor(6, 5) for _ in range(3)]
    c.add("fused Adam", lambda: fused_adam([x.clone().requires_grad_() for x in p]), "aten::_fused_adam_", bytes=3 * 30 * 28)


def fused_adam(parameters):
    for p in parameters:
        p.grad = torch.ones_like(p)
    torch.optim.Adam(parameters, fused=True).step()


def models(c):
    def train(model, x):
        def run():
            y = model(x)
            (y[0] if isinstance(y, tuple) else y).sum().backward()
        return run

    c.add("MLP", train(nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 8)), tensor(16, 20)))
    c.add("convolutional net", train(nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2),
                                                   nn.Flatten(), nn.Linear(8 * 49, 10)), tensor(2, 3, 16, 16)))
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
    through = train(layer, tensor(2, 10, 32, grad=True))

    def single():  # the counter has no model of the CPU's fused attention
        with sdpa_kernel(SDPBackend.MATH):
            through()
    c.add("transformer layer", single)
    c.add("depthwise block", lambda: nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Conv2d(8, 16, 1))(tensor(2, 8, 8, 8)))
    c.add("U-Net part", train(nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.MaxPool2d(2), nn.ConvTranspose2d(8, 4, 2, stride=2)),
                              tensor(2, 3, 8, 8)))
    class TensorProduct(nn.Module):
        """Paths of an equivariant product, as einsum over couplings."""
        def forward(self, x):
            return torch.einsum("zui,zvj,ijk,uvw->zwk", x, x, tensor(3, 3, 5), tensor(4, 4, 6))
    c.add("tensor product", lambda: TensorProduct()(tensor(7, 4, 3)))


if __name__ == "__main__":
    cases = Cases()
    operators(cases)
    models(cases)
    with open(sys.argv[1], "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases.all) + "\n]\n")
