# SIGKILL leaves no time to write a trace.
# needs: torch
# exit: 137
# says: was ended while it was recorded, before its trace could be written
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
train(30, lambda i: os.kill(os.getpid(), signal.SIGKILL) if i == 14 else None)
