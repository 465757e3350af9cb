# A few steps of one optimizer, then many of another.
# needs: torch
# exit: 0
# says: recorded 5 optimizer steps
import torch

model = torch.nn.Linear(16, 1)
warm, opt = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.Adam(model.parameters())
for i in range(46):
    o = warm if i < 6 else opt
    o.zero_grad()
    model(torch.ones(4, 16)).sum().backward()
    o.step()
print("done")
