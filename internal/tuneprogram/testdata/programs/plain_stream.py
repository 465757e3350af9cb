"""Nothing to recommend: large products over an IterableDataset, which workers would yield twice."""

import torch
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        data = torch.randn(512, 768)
        while True:
            yield data


if __name__ == "__main__":
    torch.manual_seed(24)
    model = torch.nn.Sequential(torch.nn.Linear(768, 768), torch.nn.ReLU(), torch.nn.Linear(768, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x in DataLoader(Stream(), batch_size=None):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
