# Training in a thread, while the main one waits.
# needs: torch
# exit: 0
# says: recorded 5 optimizer steps from number 11 on
import threading

import torch


def train(n, after=lambda i: None):
    model = torch.nn.Linear(16, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for i in range(n):
        opt.zero_grad()
        model(torch.ones(4, 16)).sum().backward()
        opt.step()
        after(i + 1)


t = threading.Thread(target=train, args=(30,))
t.start()
t.join()
print('done')
