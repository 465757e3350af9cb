# An optimizer for each parameter, which steps within the backward pass.
# needs: torch
# exit: 0
# says: recorded 5 calls of the model
import torch

model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizers = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}


def step(p):
    optimizers[p].step()
    optimizers[p].zero_grad()


for p in model.parameters():
    p.register_post_accumulate_grad_hook(step)
for _ in range(60):
    model(torch.ones(4, 16)).sum().backward()
print("done")
