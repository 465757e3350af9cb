# A training without a GPU, of which memory is asked for.
# needs: torch
# flags: --memory
# exit: 0
# says: used no GPU, so there is no memory of one to record
import torch

model = torch.nn.Linear(16, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(30):
    opt.zero_grad()
    model(torch.ones(4, 16)).sum().backward()
    opt.step()
print("done")
