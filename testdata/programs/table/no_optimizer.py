# Training whose update is written by hand.
# needs: torch
# exit: 0
# says: recorded 5 optimizer steps|recorded 5 calls of the model
import torch

model = torch.nn.Linear(16, 1)
for _ in range(200):
    model(torch.ones(4, 16)).sum().backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.01 * p.grad
            p.grad = None
print("done")
