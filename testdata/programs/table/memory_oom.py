# A training that ends by an out-of-memory error, on PyTorch's real allocator without a GPU.
# needs: standin
# command: python STANDIN
# flags: --memory
# exit: 1
# says: from its first use of a GPU to its end .*1\. high oom-cause
import torch

model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 16)).cuda()
opt = torch.optim.AdamW(model.parameters(), lr=0.01)
for i in range(30):
    opt.zero_grad()
    model(torch.ones(64, 256, device="cuda")).sum().backward()
    opt.step()
    if i == 3:
        print("done", flush=True)
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
print("done")
