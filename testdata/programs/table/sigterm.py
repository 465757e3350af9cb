# A signal ends the program while it is recorded.
# needs: torch
# exit: 143
# says: ended after [0-9] of 5 steps to record|recorded [1-5] optimizer steps
import os
import signal

import torch


def train(n, after=lambda i: None):
    model = torch.nn.Linear(16, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for i in range(n):
        opt.zero_grad()
        model(torch.ones(4, 16)).sum().backward()
        opt.step()
        after(i + 1)


print('done', flush=True)
train(30, lambda i: os.kill(os.getpid(), signal.SIGTERM) if i == 14 else None)
