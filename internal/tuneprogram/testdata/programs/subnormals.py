"""Planted: a state that has decayed to subnormal numbers, with which a CPU computes many times slower."""

import torch

torch.manual_seed(11)
state = torch.nn.Parameter(torch.full((512, 1024), 1e-39))
bias = torch.nn.Parameter(torch.ones(1024))
optimizer = torch.optim.SGD([state, bias], lr=1e-3)
for _ in range(100000):
    optimizer.zero_grad()
    decayed = state
    for _ in range(20):
        decayed = decayed * 0.999
    (bias.square().mean() + (decayed * 1e-38).sum()).backward()
    optimizer.step()
