"""Planted: deterministic algorithms, which fill every buffer that is left to be written."""

import torch

torch.manual_seed(12)
torch.use_deterministic_algorithms(True)
model = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(64, 256)
for _ in range(100000):
    optimizer.zero_grad()
    buffers = [torch.empty(4 << 20) for _ in range(4)]
    for b in buffers:
        b[:64] = 1
    model(x).square().mean().backward()
    optimizer.step()
