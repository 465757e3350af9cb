"""Planted: the detection of anomalies, left on after debugging."""

import torch

torch.manual_seed(5)
torch.autograd.set_detect_anomaly(True)
cell = torch.nn.GRUCell(32, 32)
optimizer = torch.optim.SGD(cell.parameters(), lr=0.01)
x = torch.randn(10, 8, 32)
for _ in range(100000):
    optimizer.zero_grad()
    h = torch.zeros(8, 32)
    for t in range(10):
        h = cell(x[t], h)
    h.square().mean().backward()
    optimizer.step()
