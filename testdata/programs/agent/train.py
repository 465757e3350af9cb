"""Training with three planted faults, which scripts/check/agent.py has to find and fix.

It reads samples one at a time in the training process, computes the same table in every step, and logs a line for
each of its entries.
"""

import logging
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

STEPS, BATCH = 60, 16


class Samples(Dataset):
    """Samples of a slow storage."""

    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, i):
        time.sleep(0.001)
        return torch.full((64,), float(i % 7)), torch.tensor([float(i % 3)])


def table():
    return [hash(i * 31) % 1000 / 1000.0 for i in range(200_000)]


def report(log, step, entries):
    for i in range(1600):
        log.info("step %d entry %d is %f", step, i, entries[i])


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    log = logging.getLogger("train")
    log.setLevel(logging.INFO)
    log.addHandler(logging.FileHandler(sys.argv[1]))
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(Samples(), BATCH)
    for step, (x, y) in enumerate(loader):
        entries = table()
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x) * entries[0], y)
        loss.backward()
        optimizer.step()
        report(log, step, entries)
    print("loss", loss.item().hex())


if __name__ == "__main__":
    main()
