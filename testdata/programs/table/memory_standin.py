# The memory of a training on PyTorch's real allocator, without a GPU.
# needs: standin
# command: python STANDIN
# flags: --memory
# exit: 0
# says: to the end of number 15 of its optimizer steps .*peak [0-9.]+ MiB of tensors
import torch

model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 16)).cuda()
opt = torch.optim.AdamW(model.parameters(), lr=0.01)
for i in range(30):
    opt.zero_grad()
    model(torch.ones(64, 256, device="cuda")).sum().backward()
    opt.step()
print("done")
