"""Planted: an argument, a batch of 8 samples where 64 cost little more. Costs are compared per sample."""

import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset

arguments = argparse.ArgumentParser()
arguments.add_argument("--batch-size", type=int, default=8)
batch = arguments.parse_args().batch_size
if __name__ == "__main__":
    torch.manual_seed(22)
    data = TensorDataset(torch.randn(65536, 32), torch.randn(65536, 1))
    model = torch.nn.Sequential(*[layer for _ in range(12) for layer in (torch.nn.Linear(32, 32), torch.nn.Tanh())], torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(10):
        for x, y in DataLoader(data, batch_size=batch, shuffle=True):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
