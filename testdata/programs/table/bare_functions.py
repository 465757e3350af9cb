# Torch is imported, and little is done with it.
# needs: torch
# exit: 0
# says: no optimizer step, no backward pass and no module that is called again was seen|shows no step
import torch

print(torch.ones(3).sum().item(), 'done')
