"""A trainer and a server of an image classifier, with the habits that its guide warns of.

python images.py [--layout nchw] [--attention loop] [--amp off] [--recompute off] [--compile off] [--ranks 1] [--batch 16]
python images.py --serve [--form eager] [--requests 1]

--serve answers requests one by one and prints the time of an image as a benchmark result. --ranks 2 trains with
DistributedDataParallel over gloo: each rank has half of the batch.
"""

import argparse
import contextlib
import json
import os
import tempfile
import time

import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

STEPS, WARM = 40, 8


def parse(words=None):
    flags = argparse.ArgumentParser()
    flags.add_argument("--serve", action="store_true")
    flags.add_argument("--form", choices=["eager", "script", "freeze", "optimize", "int8", "onnx", "nhwc"], default="eager")
    flags.add_argument("--requests", type=int, default=1, help="images that one call answers")
    flags.add_argument("--gradients", choices=["on", "no_grad", "inference"], default="no_grad")
    flags.add_argument("--layout", choices=["nchw", "nhwc"], default="nchw")
    flags.add_argument("--attention", choices=["loop", "sdpa"], default="loop")
    flags.add_argument("--amp", choices=["off", "bf16"], default="off")
    flags.add_argument("--recompute", choices=["on", "off"], default="off")
    flags.add_argument("--ranks", type=int, default=1)
    flags.add_argument("--batch", type=int, default=16)
    flags.add_argument("--compile", choices=["off", "on"], default="off")
    return flags.parse_args(words)


class Photos(Dataset):
    def __len__(self):
        return 8192

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        pixels = torch.randint(0, 256, (3, 40, 40), generator=g, dtype=torch.uint8)
        if torch.rand(1, generator=g) < 0.5:
            pixels = pixels.flip(2)
        return (pixels[:, 4:36, 4:36].float() / 255 - 0.5) / 0.25, i % 10


class Attention(torch.nn.Module):
    def __init__(self, width, heads, how):
        super().__init__()
        self.how = how
        self.heads, self.qkv, self.out = heads, torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        if self.how == "sdpa":
            mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        else:
            mixed = torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, -1) @ v
        return x + self.out(mixed.transpose(1, 2).flatten(2))


class Classifier(torch.nn.Module):
    def __init__(self, options):
        super().__init__()
        self.recompute = options.recompute == "on"

        def block(a, b, stride):
            return [torch.nn.Conv2d(a, b, 3, stride, 1, bias=False), torch.nn.BatchNorm2d(b), torch.nn.ReLU()]

        self.body = torch.nn.Sequential(*block(3, 32, 1), *block(32, 64, 2), *block(64, 64, 1))
        self.attention = Attention(64, 4, options.attention)
        wide = [torch.nn.Linear(64, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU()]
        self.head = torch.nn.Sequential(*wide, torch.nn.Linear(1024, 10))

    def forward(self, x):
        x = checkpoint(self.body, x, use_reentrant=False) if self.recompute and self.training else self.body(x)
        return self.head(self.attention(x.flatten(2).transpose(1, 2)).mean(1))


def train(options, rank, rendezvous):
    """One rank: yields the loss of each step."""
    torch.manual_seed(6)
    model = Classifier(options)
    if options.layout == "nhwc":
        model = model.to(memory_format=torch.channels_last)
    net = model
    if options.ranks > 1:
        torch.distributed.init_process_group("gloo", init_method="file://" + rendezvous, rank=rank, world_size=options.ranks)
        net = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    if options.compile == "on":
        model.compile()
    while True:
        for x, y in DataLoader(Photos(), batch_size=options.batch // options.ranks, shuffle=True):
            if options.layout == "nhwc":
                x = x.contiguous(memory_format=torch.channels_last)
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=options.amp == "bf16"):
                loss = torch.nn.functional.cross_entropy(net(x).float(), y)
            loss.backward()
            optimizer.step()
            yield loss


def follow(options, rank, rendezvous, threads):
    """A further rank, in a process of its own."""
    torch.set_num_threads(threads)
    for _ in train(options, rank, rendezvous):
        pass


def steps(options):
    """Serves or trains, and yields after each call or step."""
    if options.serve:
        yield from serve(options)
    rendezvous = os.path.join(tempfile.mkdtemp(), "ranks")
    for rank in range(1, options.ranks):
        context = torch.multiprocessing.get_context("spawn")
        words = (options, rank, rendezvous, torch.get_num_threads())
        context.Process(target=follow, args=words, daemon=True).start()
    yield from train(options, 0, rendezvous)


def onnx_session(model, x):
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        with contextlib.redirect_stdout(None):
            torch.onnx.export(model, (x,), path, input_names=["x"], dynamo=True, verbose=False)
        chosen = onnxruntime.SessionOptions()
        chosen.intra_op_num_threads = torch.get_num_threads()
        session = onnxruntime.InferenceSession(path, chosen, providers=["CPUExecutionProvider"])
    return lambda images: torch.from_numpy(session.run(None, {"x": images.numpy()})[0])


def served(options, model, x):
    if options.form == "nhwc":
        return model.to(memory_format=torch.channels_last)
    if options.form == "int8":
        return torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    if options.form == "onnx":
        return onnx_session(model, x)
    if options.form == "eager":
        return model
    traced = torch.jit.trace(model, x)
    if options.form == "script":
        return traced
    return torch.jit.optimize_for_inference(traced) if options.form == "optimize" else torch.jit.freeze(traced)


def serve(options):
    """Answers calls, and yields after each. The first answer must agree with the eager model's."""
    torch.manual_seed(7)
    model = Classifier(options).eval()
    x = torch.randn(options.requests, 3, 32, 32)
    if options.form == "nhwc":
        x = x.contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        want = model(x)
        run = served(options, model, x)
        worst = ((run(x) - want).abs().max() / want.abs().max()).item()
    assert worst < 0.05, "answers of form %s differ by %g of the largest" % (options.form, worst)
    mode = {"on": contextlib.nullcontext, "no_grad": torch.no_grad, "inference": torch.inference_mode}[options.gradients]
    while True:
        with mode():
            got = run(x)
        yield got


def main():
    options = parse()
    run = steps(options)
    if not options.serve:
        for _ in run:
            pass
    for _ in range(WARM):
        next(run)
    began = time.perf_counter()
    for _ in range(STEPS):
        next(run)
    seconds = (time.perf_counter() - began) / STEPS / options.requests
    print(json.dumps([{"name": "image", "unit": "s", "value": seconds}]))


if __name__ == "__main__":
    main()
