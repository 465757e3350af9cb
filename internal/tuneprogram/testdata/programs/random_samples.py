"""Nothing to recommend: workers are faster here, but samples draw random numbers, so that the training is another."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 8192

    def __getitem__(self, i):
        time.sleep(0.002)
        return torch.full((64,), i / 8192) + torch.randn(64)


if __name__ == "__main__":
    torch.manual_seed(15)
    model = torch.nn.Linear(64, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for x in DataLoader(Noisy(), batch_size=8, shuffle=True):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
