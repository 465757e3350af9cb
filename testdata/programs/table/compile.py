# A compiled model in training.
# needs: torch-compile
# exit: 0
# says: recorded 5 (optimizer steps|calls of the model)
import torch

model = torch.compile(torch.nn.Linear(16, 1), backend="aot_eager")
opt = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(30):
    opt.zero_grad()
    model(torch.ones(4, 16)).sum().backward()
    opt.step()
print("done")
