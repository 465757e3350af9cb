"""Planted: SGD with momentum that updates 400 tensors one at a time (foreach=False)."""

import torch

torch.manual_seed(19)
model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(200)])
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4, nesterov=True, foreach=False)
x = torch.randn(4, 16)
for _ in range(100000):
    optimizer.zero_grad()
    (model(x) - 1).square().mean().backward()
    optimizer.step()
