# A data loader with forked workers.
# needs: torch
# exit: 0
# says: recorded 5 optimizer steps from number 1[1-9] on
import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(16, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
for (x,) in DataLoader(TensorDataset(torch.ones(60, 16)), 2, num_workers=2, multiprocessing_context="fork"):
    opt.zero_grad()
    model(x).sum().backward()
    opt.step()
print("done")
