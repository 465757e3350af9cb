"""Planted: num_workers=0 in a subclass of DataLoader with positional arguments, and a checkpoint every step."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Files(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, i):
        time.sleep(0.004)
        return torch.full((32,), i / 4096)


class Batches(DataLoader):
    def __init__(self, data):
        super().__init__(data, 4, True)


if __name__ == "__main__":
    torch.manual_seed(2)
    model = torch.nn.Linear(32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x in Batches(Files()):
        optimizer.zero_grad()
        (model(x) - x[:, :1]).square().mean().backward()
        optimizer.step()
        torch.save(model.state_dict(), "checkpoint.pt")
