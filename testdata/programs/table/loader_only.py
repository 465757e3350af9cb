# A data loader, and functions.
# needs: torch
# exit: 0
# says: recorded 5 batches of the data loader
import torch
from torch.utils.data import DataLoader, TensorDataset

for (x,) in DataLoader(TensorDataset(torch.ones(60, 16)), 2):
    torch.softmax(x, 1)
print("done")
