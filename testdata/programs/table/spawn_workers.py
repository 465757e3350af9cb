# A data loader with spawned workers.
# needs: torch
# exit: 0
# says: recorded 5 optimizer steps from number 1[1-9] on
import torch
from torch.utils.data import DataLoader, TensorDataset


def main():
    model = torch.nn.Linear(16, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for (x,) in DataLoader(TensorDataset(torch.ones(60, 16)), 2, num_workers=1, multiprocessing_context="spawn"):
        opt.zero_grad()
        model(x).sum().backward()
        opt.step()
    print("done")


if __name__ == "__main__":
    main()
