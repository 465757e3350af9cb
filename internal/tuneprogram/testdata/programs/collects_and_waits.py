"""Planted: two settings at once, garbage collection in each step and samples that wait for a disk."""

import gc
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Waiting(Dataset):
    def __len__(self):
        return 8192

    def __getitem__(self, i):
        time.sleep(0.002)
        return torch.full((32,), i / 8192)


if __name__ == "__main__":
    torch.manual_seed(20)
    records = [{"number": i, "tags": [i, i + 1]} for i in range(40000)]
    model = torch.nn.Linear(32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x in DataLoader(Waiting(), batch_size=8, shuffle=True):
        optimizer.zero_grad()
        (model(x) - x[:, :1]).square().mean().backward()
        optimizer.step()
        gc.collect()
