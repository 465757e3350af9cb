# An optimizer that takes a closure.
# needs: torch
# exit: 0
# says: recorded 5 optimizer steps from number 11 on
import torch

model = torch.nn.Linear(16, 1)
opt = torch.optim.LBFGS(model.parameters(), max_iter=2)


def closure():
    opt.zero_grad()
    loss = model(torch.ones(4, 16)).pow(2).sum()
    loss.backward()
    return loss


for _ in range(30):
    opt.step(closure)
print("done")
