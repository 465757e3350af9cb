# Two optimizers that take turns.
# needs: torch
# exit: 0
# says: steps 2 optimizers, and each recorded step ends with number 1
import torch

nets = [torch.nn.Linear(16, 16) for _ in range(2)]
opts = [torch.optim.Adam(n.parameters(), lr=0.01) for n in nets]
for _ in range(30):
    for net, opt in zip(nets, opts):
        opt.zero_grad()
        net(torch.ones(4, 16)).sum().backward()
        opt.step()
print("done")
