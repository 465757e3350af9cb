"""A trainer of a GRU over windows of an energy flow, with the habits that its guide warns of.

python gru_flow.py [--items 8] [--deterministic on] [--optimizer loop] [--compile off] [--profile off] [--batch 32]

Each step reads scalars one at a time; deterministic algorithms are on; the loader has no workers and its samples are
made in Python; Adam updates one tensor at a time.
"""

import argparse
import contextlib

import torch
from torch.utils.data import DataLoader, Dataset


def parse(words=None):
    flags = argparse.ArgumentParser()
    flags.add_argument("--items", type=int, default=8, help="scalars that each step reads one by one")
    flags.add_argument("--deterministic", choices=["on", "off"], default="on")
    flags.add_argument("--optimizer", choices=["loop", "foreach", "fused"], default="loop")
    flags.add_argument("--compile", choices=["off", "on"], default="off")
    flags.add_argument("--profile", choices=["off", "on", "memory", "stack"], default="off")
    flags.add_argument("--episode", type=int, default=1, help="steps that the profiler records in one go")
    flags.add_argument("--batch", type=int, default=32)
    return flags.parse_args(words)


class Windows(Dataset):
    def __init__(self):
        self.flow = torch.randn(20000, 8, generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return 16384

    def __getitem__(self, i):
        window = self.flow[i : i + 24]
        day = torch.tensor([float((i + k) % 24) / 24 for k in range(24)])
        return torch.cat([window, day[:, None]], 1), window.mean()


class Flow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = torch.nn.GRU(9, 64, batch_first=True)
        self.head = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))

    def forward(self, x):
        return self.head(self.gru(x)[0][:, -1])[:, 0]


def profiler(kind):
    if kind == "off":
        return contextlib.nullcontext()
    cpu = [torch.profiler.ProfilerActivity.CPU]
    return torch.profiler.profile(activities=cpu, profile_memory=kind == "memory", with_stack=kind == "stack")


def batches(options):
    while True:
        yield from DataLoader(Windows(), batch_size=options.batch, shuffle=True)


def steps(options):
    """Trains, and yields after each episode of steps."""
    torch.manual_seed(2)
    model = Flow()
    how = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}[options.optimizer]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, **how)
    if options.compile == "on":
        model.compile()
    data, seen = batches(options), []
    while True:
        torch.use_deterministic_algorithms(options.deterministic == "on")
        with profiler(options.profile):
            for _ in range(options.episode):
                x, y = next(data)
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
                parts = [loss, *(p.grad.norm() for p in model.parameters())][: options.items]
                seen = [p.item() for p in parts]
        yield seen


if __name__ == "__main__":
    for _ in steps(parse()):
        pass
