"""Planted: an argument, how often a log is written to the disk and the model's norm computed."""

import argparse
import os

import torch

arguments = argparse.ArgumentParser()
arguments.add_argument("--log-every", type=int, default=1)
every = arguments.parse_args().log_every
torch.manual_seed(14)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(20)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(16, 64)
log = open("log.txt", "w")
for step in range(100000):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    if step % every == 0:
        for p in model.parameters():
            print(step, p.flatten().tolist()[:50], file=log)
        log.flush()
        os.fsync(log.fileno())
