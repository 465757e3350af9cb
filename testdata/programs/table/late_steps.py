# Steps that begin while a window of time is due.
# needs: torch
# exit: 0
# says: recorded 5 optimizer steps
# flags: --window-after 1s --time-window 200ms
import time

import torch


def train(n, after=lambda i: None):
    model = torch.nn.Linear(16, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for i in range(n):
        opt.zero_grad()
        model(torch.ones(4, 16)).sum().backward()
        opt.step()
        after(i + 1)


x = torch.ones(8, 8)
end = time.monotonic() + 3
while time.monotonic() < end:
    y = x @ x
train(30)
print('done')
