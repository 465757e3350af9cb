"""Training that reads its loss with .item() many times a step.

train_item.py [--clean]: clean keeps what it logs on the device until the end.
On a GPU each read waits for the device; on the CPU there is nothing to wait for.
"""

import sys

import torch

STEPS, READS = 40, 20


def main():
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    clean = "--clean" in sys.argv
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = torch.randn(64, 256, device=device), torch.randn(64, 1, device=device)
    total, kept = 0.0, []
    for _ in range(STEPS):
        optimizer.zero_grad()
        error = (model(x) - y).square()
        loss = error.mean()
        loss.backward()
        for k in range(READS):
            part = error[k].sum()
            if clean:
                kept.append(part.detach())
            else:
                total += part.item()
        optimizer.step()
    if clean:
        total = sum(torch.stack(kept).tolist())
    print("total", total.hex())


if __name__ == "__main__":
    main()
