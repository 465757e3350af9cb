# Steps of a few milliseconds, and a data loader whose workers are slower.
# needs: torch
# exit: 0
# says: recorded 5 optimizer steps from number [1-9][0-9] on .*1\. high dataloader-stall
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 480

    def __getitem__(self, i):
        time.sleep(0.02)  # a batch of 4 takes 80 ms in each of two workers
        return torch.ones(16)


model = torch.nn.Linear(16, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
for x in DataLoader(Slow(), 4, num_workers=2, multiprocessing_context="fork"):
    opt.zero_grad()
    model(x).sum().backward()
    opt.step()
    time.sleep(0.005)
print("done")
