"""Steps that are all alike, timed by themselves: steady.py prints the median
of the steps from number 60 on, in seconds of the clock and of this process's
processor time, and a checksum of what was computed."""

import statistics
import time

import torch

STEPS, FROM = 460, 60


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(128, 128) for _ in range(12)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(32, 128)
    wall, cpu = [], []
    for _ in range(STEPS):
        began, used = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    total = sum(p.double().sum().item() for p in model.parameters())
    print(statistics.median(wall[FROM:]), statistics.median(cpu[FROM:]), total.hex())


if __name__ == "__main__":
    main()
