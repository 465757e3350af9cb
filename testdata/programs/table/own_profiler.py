# A program with a profiler of its own.
# needs: torch
# exit: 0
# says: profiles itself, so gpuprof stood back
import torch


def train(n, after=lambda i: None):
    model = torch.nn.Linear(16, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for i in range(n):
        opt.zero_grad()
        model(torch.ones(4, 16)).sum().backward()
        opt.step()
        after(i + 1)


with torch.profiler.profile():
    train(30)
print('done')
