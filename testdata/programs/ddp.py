"""Data-parallel training on the CPU with gloo, under torchrun, srun or mpirun.

--slow RANK makes a rank stand still for --ms milliseconds in every step, as one whose input is late does.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def place():
    """Rank and number of ranks by the launcher that is nearest to this process."""
    for rank, world in (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")):
        if rank in os.environ:
            return int(os.environ[rank]), int(os.environ[world])
    return 0, 1


parser = argparse.ArgumentParser()
parser.add_argument("--slow", type=int, default=-1)
parser.add_argument("--ms", type=float, default=30)
parser.add_argument("--steps", type=int, default=30)
options = parser.parse_args()

rank, world = place()
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29511")
dist.init_process_group("gloo", rank=rank, world_size=world)
torch.set_num_threads(1)
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)]), bucket_cap_mb=1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batch = torch.randn(32, 256)
for _ in range(options.steps):
    if rank == options.slow:
        time.sleep(options.ms / 1000)
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
print("rank", rank, "of", world, "loss", round(float(loss.detach()), 6), flush=True)
dist.destroy_process_group()
