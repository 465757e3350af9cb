"""Planted: the loop over parameters of Adam(foreach=False), with 400 tensors."""

import torch

torch.manual_seed(8)
model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(200)])
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)
x = torch.randn(4, 16)
for _ in range(100000):
    optimizer.zero_grad()
    (model(x) - 1).square().mean().backward()
    optimizer.step()
