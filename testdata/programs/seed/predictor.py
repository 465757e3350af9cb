"""A predictor of charges at probe points from the atoms around them, with the slow collator of its guide.

python predictor.py [--collate slow] [--batch 4] [--channels 32] [--compile off]

Edges are found by a loop over pairs, each as a tensor of its own. The model multiplies features with spherical
harmonics up to degree 2 and sums over edges, as a layer of e3nn does.
"""

import argparse

import torch
from torch.utils.data import DataLoader, Dataset

ATOMS, PROBES, CUTOFF = 12, 24, 1.2


def parse(words=None):
    flags = argparse.ArgumentParser()
    flags.add_argument("--collate", choices=["slow", "cached", "bulk"], default="slow")
    flags.add_argument("--batch", type=int, default=4)
    flags.add_argument("--channels", type=int, default=32)
    flags.add_argument("--compile", choices=["off", "on"], default="off")
    return flags.parse_args(words)


class Cells(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i % 64)
        return i % 64, torch.rand(ATOMS, 3, generator=g) * 2, torch.rand(PROBES, 3, generator=g) * 2


def edges_slow(atoms, probes):
    pairs, offsets = [], []
    for p in range(len(probes)):
        for a in range(len(atoms)):
            offset = probes[p] - atoms[a]
            if offset.norm() < CUTOFF:
                pairs.append((a, p))
                offsets.append(offset)
    return torch.tensor(pairs).T, torch.stack(offsets)


def edges_bulk(atoms, probes):
    offsets = probes[:, None] - atoms[None]
    p, a = (offsets.norm(dim=-1) < CUTOFF).nonzero(as_tuple=True)
    return torch.stack([a, p]), offsets[p, a]


class Collator:
    def __init__(self, how):
        self.how, self.cache = how, {}

    def edges(self, number, atoms, probes):
        if self.how == "bulk":
            return edges_bulk(atoms, probes)
        if self.how == "slow":
            return edges_slow(atoms, probes)
        if number not in self.cache:
            self.cache[number] = edges_slow(atoms, probes)
        return self.cache[number]

    def __call__(self, batch):
        indices, offsets, targets = [], [], []
        for n, (number, atoms, probes) in enumerate(batch):
            index, offset = self.edges(number, atoms, probes)
            indices.append(index + torch.tensor([[n * ATOMS], [n * PROBES]]))
            offsets.append(offset)
            targets.append(torch.exp(-torch.cdist(probes, atoms)).sum(1))
        return torch.cat(indices, 1), torch.cat(offsets), torch.cat(targets)


class Layer(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.radial = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.SiLU(), torch.nn.Linear(64, 3 * channels))
        self.atoms = torch.nn.Parameter(torch.randn(ATOMS, channels))
        self.out = torch.nn.Linear(9 * channels, 1)
        self.register_buffer("centres", torch.linspace(0, CUTOFF, 16))

    def harmonics(self, v):
        x, y, z = (v / v.norm(dim=1, keepdim=True).clamp_min(1e-6)).unbind(1)
        return torch.stack([torch.ones_like(x), x, y, z, x * y, y * z, 3 * z * z - 1, x * z, x * x - y * y], 1)

    def forward(self, index, offsets, probes):
        distance = offsets.norm(dim=1, keepdim=True)
        weights = self.radial(torch.exp(-((distance - self.centres) ** 2) * 10)).unflatten(1, (3, -1))
        sh = self.harmonics(offsets)
        per_degree = torch.stack([weights[:, 0], *[weights[:, 1]] * 3, *[weights[:, 2]] * 5], 1)
        messages = self.atoms[index[0] % ATOMS][:, None] * per_degree * sh[:, :, None]
        summed = torch.zeros(probes, *messages.shape[1:]).index_add(0, index[1], messages)
        return self.out(summed.flatten(1))[:, 0]


def steps(options):
    """Trains, and yields the loss of each step."""
    torch.manual_seed(5)
    model = Layer(options.channels)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    if options.compile == "on":
        model.compile(dynamic=True)  # the number of edges differs from batch to batch
    while True:
        for index, offsets, y in DataLoader(Cells(), batch_size=options.batch, shuffle=True, collate_fn=Collator(options.collate)):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(index, offsets, len(y)), y)
            loss.backward()
            optimizer.step()
            yield loss


if __name__ == "__main__":
    for _ in steps(parse()):
        pass
