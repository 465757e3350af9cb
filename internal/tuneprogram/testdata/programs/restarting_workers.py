"""Planted: workers that end with each of many short epochs."""

import torch
from torch.utils.data import DataLoader, Dataset


class Small(Dataset):
    def __len__(self):
        return 80

    def __getitem__(self, i):
        return torch.full((16,), i / 80)


if __name__ == "__main__":
    torch.manual_seed(3)
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Small(), batch_size=8, shuffle=True, num_workers=2)
    for _ in range(10000):
        for x in loader:
            optimizer.zero_grad()
            (model(x) - x[:, :1]).square().mean().backward()
            optimizer.step()
