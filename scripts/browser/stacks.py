# A program whose time is in its data loader, for the files of sampled stacks.
import time
import torch
from torch.utils.data import DataLoader

class Slow:
    def __len__(self):
        return 300
    def __getitem__(self, i):
        end = time.perf_counter() + 0.01
        while time.perf_counter() < end:
            sum(range(100))
        return i

model = torch.nn.Linear()
optimizer = torch.optim.SGD(model.parameters())
for batch in DataLoader(Slow(), 1):
    optimizer.zero_grad()
    model(batch)
    optimizer.step()
