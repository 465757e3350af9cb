# Two ranks of torchrun that average gradients by gloo.
# needs: torch
# exit: 0
# says: recorded 5 optimizer steps from number 11 on.*2 ranks|2 ranks|trace-rank1
# command: python -m torch.distributed.run --standalone --nproc-per-node 2
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(30):
    opt.zero_grad()
    model(torch.ones(4, 16)).sum().backward()
    opt.step()
if dist.get_rank() == 0:
    print("done")
dist.destroy_process_group()
