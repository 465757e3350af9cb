"""Training that waits for its data: a slow data set, loaded in the main process.

train_starved.py [--clean]: clean loads from memory.
"""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

STEPS, BATCH = 40, 16


class Samples(Dataset):
    def __init__(self, clean):
        self.clean = clean
        self.x = torch.randn(STEPS * BATCH, 256)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        if not self.clean:
            time.sleep(0.002)  # decoding, say
        return self.x[i], self.x[i].sum().reshape(1)


def main():
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Sequential(torch.nn.Linear(256, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    if "--clean" in sys.argv:
        batches = list(DataLoader(Samples(True), BATCH))
    else:
        batches = DataLoader(Samples(False), BATCH)
    for x, y in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
    print("loss", loss.item().hex())


if __name__ == "__main__":
    main()
