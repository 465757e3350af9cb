"""Planted: a collection of garbage in each step, with many objects alive."""

import gc

import torch

torch.manual_seed(6)
records = [{"number": i, "tags": [i, i + 1]} for i in range(12000)]
model = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(256, 256)
for _ in range(100000):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    gc.collect()
