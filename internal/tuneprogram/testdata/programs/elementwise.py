"""Planted: a chain of small operators that a compiler makes one."""

import torch


class Chain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(512))

    def forward(self, x):
        for _ in range(16):
            x = torch.sin(x * self.scale) + 0.5 * x - x * x * 0.01
        return x


torch.manual_seed(13)
model = Chain()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(1024, 512)
for _ in range(100000):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
