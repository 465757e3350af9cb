"""Steps that are all alike, timed by themselves: steady.py [WIDTH BATCH SKIP] runs SKIP + 500 steps. It prints the
processor time of a step in four stretches, a checksum of what was computed, and nothing else. The stretches: steps 60 to
SKIP, the three that `gpuprof run --skip SKIP` records in the middle, the twenty in which it samples the stack, and those from
SKIP + 80 on. The first and the last figure are the first decile: what other work on the machine adds to a step is never
negative."""

import statistics
import sys
import time

import torch

WIDTH, BATCH, SKIP = [int(v) for v in sys.argv[1:4]] or (128, 32, 500)


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(12)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(BATCH, WIDTH)
    cpu = []
    for _ in range(SKIP + 500):
        used = time.process_time()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        cpu.append(time.process_time() - used)
    total = sum(p.double().sum().item() for p in model.parameters())
    before, after = [statistics.quantiles(part, n=10)[0] for part in (cpu[60:SKIP], cpu[SKIP + 80:])]
    recorded, sampled = cpu[SKIP + 1:SKIP + 4], cpu[SKIP + 7:SKIP + 27]
    print(before, statistics.median(recorded), statistics.median(sampled), after, total.hex())


if __name__ == "__main__":
    main()
