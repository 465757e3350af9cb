# Torch is imported, and little is done with it.
# needs: torch
# exit: 0
# says: made no optimizer step and called no module twice|shows no step
import torch

print(torch.ones(3).sum().item(), 'done')
