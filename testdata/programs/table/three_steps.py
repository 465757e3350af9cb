# Three steps are fewer than are left out.
# needs: torch
# exit: 0
# says: ended after 3 steps, before the recording began \(--skip 10\); try gpuprof run --skip 1
import torch


def train(n, after=lambda i: None):
    model = torch.nn.Linear(16, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for i in range(n):
        opt.zero_grad()
        model(torch.ones(4, 16)).sum().backward()
        opt.step()
        after(i + 1)


train(3)
print('done')
