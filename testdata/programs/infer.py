"""Inference over a data loader whose data set is slow.

infer.py [--clean]: clean has its batches in memory.
"""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

STEPS, BATCH = 40, 8


class Requests(Dataset):
    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, i):
        time.sleep(0.002)
        return torch.full((16, 64), i / 100)


def main():
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).to(device).eval()
    if "--clean" in sys.argv:
        batches = [torch.full((BATCH, 16, 64), i / 100) for i in range(STEPS)]
    else:
        batches = DataLoader(Requests(), BATCH)
    total = torch.zeros((), device=device)
    with torch.no_grad():
        for x in batches:
            total += model(x.to(device)).square().sum()
    print("total", total.item().hex())


if __name__ == "__main__":
    main()
