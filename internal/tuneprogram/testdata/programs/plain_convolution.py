"""Nothing to recommend: convolutions by oneDNN."""

import torch

torch.manual_seed(18)
model = torch.nn.Sequential(torch.nn.Conv2d(16, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3), torch.nn.Flatten(), torch.nn.Linear(32 * 28 * 28, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
x, y = torch.randn(16, 16, 32, 32), torch.randint(0, 10, (16,))
for _ in range(100000):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
