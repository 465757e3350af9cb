"""Planted: sixteen threads for small layers, on fewer processors."""

import torch

torch.manual_seed(4)
torch.set_num_threads(16)
layers = [layer for _ in range(12) for layer in (torch.nn.Linear(64, 64), torch.nn.Tanh())]
model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(1024, 64), torch.randn(1024, 1)
for _ in range(100000):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
