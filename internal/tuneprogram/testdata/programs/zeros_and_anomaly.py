"""Planted: two settings at once, gradients filled with zeros and the detection of anomalies."""

import torch

torch.manual_seed(21)
torch.autograd.set_detect_anomaly(True)
table = torch.nn.Embedding(60000, 32)
cell = torch.nn.GRUCell(32, 32)
model = torch.nn.ModuleList([table, cell])
optimizer = torch.optim.SGD(cell.parameters(), lr=0.01)
words = torch.randint(0, 60000, (8, 12))
for _ in range(100000):
    model.zero_grad(set_to_none=False)
    inputs, h = table(words), torch.zeros(8, 32)
    for t in range(12):
        h = cell(inputs[:, t], h)
    h.square().mean().backward()
    optimizer.step()
