# A loop prepared by accelerate.
# needs: accelerate
# exit: 0
# says: recorded 5 optimizer steps
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(16, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
model, opt, data = accelerator.prepare(model, opt, DataLoader(TensorDataset(torch.ones(80, 16)), 2))
for (x,) in data:
    opt.zero_grad()
    accelerator.backward(model(x).sum())
    opt.step()
print("done")
