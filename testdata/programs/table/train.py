# A plain training loop.
# needs: torch
# exit: 0
# says: recorded 5 optimizer steps from number 11 on
import torch


def train(n, after=lambda i: None):
    model = torch.nn.Linear(16, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for i in range(n):
        opt.zero_grad()
        model(torch.ones(4, 16)).sum().backward()
        opt.step()
        after(i + 1)


train(30)
print('done')
