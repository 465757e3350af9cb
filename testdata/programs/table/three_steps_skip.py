# Three steps, with the flags that its sentence names.
# needs: torch
# exit: 0
# says: recorded [12] optimizer steps?
# flags: --skip 1 --steps 1
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
