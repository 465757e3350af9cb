"""Planted: gradients of a large table are filled with zeros in each step."""

import torch

torch.manual_seed(9)
model = torch.nn.Sequential(torch.nn.Embedding(200000, 32), torch.nn.Flatten(), torch.nn.Linear(32 * 16, 1))
optimizer = torch.optim.SGD(model[2].parameters(), lr=0.01)
x = torch.randint(0, 200000, (32, 16))
for _ in range(100000):
    model.zero_grad(set_to_none=False)
    model(x).square().mean().backward()
    optimizer.step()
