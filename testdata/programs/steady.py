"""Steps that are all alike, timed by themselves: steady.py [WIDTH BATCH STEPS FROM] prints the median of the steps from
number FROM on, in seconds of the clock and of this process's processor time, a checksum of what was computed, and the
median clock of steps 12 to 14, which `gpuprof run` records, and of steps 18 to 37, in which it samples the stack."""

import statistics
import sys
import time

import torch

WIDTH, BATCH, STEPS, FROM = [int(v) for v in sys.argv[1:5]] or (128, 32, 460, 60)


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(12)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(BATCH, WIDTH)
    wall, cpu = [], []
    for _ in range(STEPS):
        began, used = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    total = sum(p.double().sum().item() for p in model.parameters())
    print(statistics.median(wall[FROM:]), statistics.median(cpu[FROM:]), total.hex(), statistics.median(wall[11:14]), statistics.median(wall[17:37]))


if __name__ == "__main__":
    main()
