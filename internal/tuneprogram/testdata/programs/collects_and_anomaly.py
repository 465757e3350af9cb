"""Planted: two settings at once, garbage collection and the detection of anomalies."""

import gc

import torch

torch.manual_seed(7)
torch.autograd.set_detect_anomaly(True)
records = [[i] for i in range(30000)]
cell = torch.nn.GRUCell(64, 64)
optimizer = torch.optim.SGD(cell.parameters(), lr=0.01)
x = torch.randn(16, 8, 64)
for _ in range(100000):
    optimizer.zero_grad()
    h = torch.zeros(8, 64)
    for t in range(16):
        h = cell(x[t], h)
    h.square().mean().backward()
    optimizer.step()
    gc.collect()
