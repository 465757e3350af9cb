# Two training threads at once.
# needs: torch
# exit: 0
# says: other threads trained too
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


threads = [threading.Thread(target=train, args=(300,)) for _ in range(2)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print('done')
