"""Planted: num_workers=0 with samples that wait for a disk."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Waiting(Dataset):
    def __len__(self):
        return 8192

    def __getitem__(self, i):
        time.sleep(0.002)
        g = torch.Generator().manual_seed(i)
        return torch.randn(64, generator=g), i % 10


if __name__ == "__main__":
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in DataLoader(Waiting(), batch_size=8, shuffle=True):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
