# Inference.
# needs: torch
# exit: 0
# says: recorded 5 calls of the model
import torch

model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()).eval()
with torch.inference_mode():
    for _ in range(30):
        model(torch.ones(4, 16))
print("done")
