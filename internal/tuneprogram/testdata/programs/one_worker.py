"""Planted: one worker where two are needed, with samples that wait for a disk."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Waiting(Dataset):
    def __len__(self):
        return 16384

    def __getitem__(self, i):
        time.sleep(0.003)
        return torch.full((32,), i / 16384)


if __name__ == "__main__":
    torch.manual_seed(23)
    model = torch.nn.Linear(32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x in DataLoader(Waiting(), batch_size=4, shuffle=True, num_workers=1):
        optimizer.zero_grad()
        (model(x) - x[:, :1]).square().mean().backward()
        optimizer.step()
