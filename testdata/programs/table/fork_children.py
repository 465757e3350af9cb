# Two training processes of multiprocessing (fork).
# needs: torch
# exit: 0
# says: 2 processes were recorded that are no ranks of one job
import multiprocessing

import torch


def train(n, after=lambda i: None):
    model = torch.nn.Linear(16, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for i in range(n):
        opt.zero_grad()
        model(torch.ones(4, 16)).sum().backward()
        opt.step()
        after(i + 1)


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=train, args=(30,)) for _ in range(2)]
    for c in children:
        c.start()
    for c in children:
        c.join()
    print("done")
