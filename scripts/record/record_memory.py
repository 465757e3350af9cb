#!/usr/bin/env python3
"""Records the memory snapshots of testdata/memory: small trainings, clean and with one planted problem each.

    python3 scripts/record/record_memory.py [--without-gpu] testdata/memory [NAME...]

Needs a CUDA build of PyTorch 2.5 or newer and a GPU, or without one the stand-in runtime of scripts/check/standin.py, which
hands out numbers as memory and runs no kernels: a snapshot holds addresses, sizes and stacks alone. Beside each file
stands what torch.cuda.memory_stats() counted, which the replay is tested against. Each recording is a process of
its own. clean-2.9 and clean-2.12 are clean of PyTorch 2.9.1 and 2.12.1.
"""

import gzip
import importlib.util
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile

SCENARIOS = ["clean", "leak", "empty-cache", "late", "expandable", "oom", "two-streams", "stacks-all"]

# The same training with inputs of varying length under several settings: what a replay of the first says of a
# setting is compared with the recording under it.
SETTINGS = {
    "lengths": "",
    "lengths-expandable": "expandable_segments:True",
    "lengths-split": "max_split_size_mb:32",
    "lengths-roundup": "roundup_power2_divisions:4",
    "lengths-inert": "max_split_size_mb:512,garbage_collection_threshold:0.8",
}

# The same in a process that may reserve a part of the device, without and with a collection of what is unused.
LIMITED = {"limit": "", "collection": "garbage_collection_threshold:0.5"}
FRACTION = 0.11


def model(torch, width, layers, vocabulary):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(width)
            self.up = nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)

        def forward(self, x):
            return x + self.down(nn.functional.gelu(self.up(self.norm(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.head = nn.Linear(width, vocabulary)

        def forward(self, x):
            h = self.embedding(x)
            for block in self.blocks:
                h = block(h)
            return self.head(h)

    return Model()


def record(scenario, out):
    lengths = random.Random(1) if scenario.startswith("lengths") or scenario in LIMITED else None
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True" if scenario == "expandable" else {**SETTINGS, **LIMITED}.get(scenario, "")
    import torch

    if scenario in LIMITED:
        torch.cuda.set_per_process_memory_fraction(FRACTION)

    start = lambda **more: torch.cuda.memory._record_memory_history(stacks="all" if scenario == "stacks-all" else "python", **{"max_entries": 100000, **more})
    if scenario != "late":
        start()
    width, vocabulary, batch, length = 256, 2000, 8, 128
    net = model(torch, width, 3, vocabulary).cuda()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, foreach=True)
    kept = []
    side = torch.cuda.Stream() if scenario == "two-streams" else None
    for step in range(6):
        if lengths is not None:
            length = lengths.randrange(64, 400)
        if scenario == "late" and step == 3:
            start()
        x = torch.zeros(batch, length, dtype=torch.long).cuda()
        y = torch.zeros(batch, length, dtype=torch.long).cuda()
        loss = torch.nn.functional.cross_entropy(net(x).view(-1, vocabulary), y.view(-1))
        loss.backward()
        optimizer.step()
        if scenario == "leak":
            kept.append(net.head(net.embedding(x[:1])))
        optimizer.zero_grad(set_to_none=True)
        if scenario == "empty-cache":
            torch.cuda.empty_cache()
        if side is not None:
            with torch.cuda.stream(side):
                kept = [torch.empty(3 << 20, device="cuda")]
    if scenario == "oom":
        blocks = []
        try:
            while True:
                blocks.append(torch.empty(64 << 20, device="cuda"))
        except torch.cuda.OutOfMemoryError:
            pass
    stats = torch.cuda.memory_stats()
    torch.cuda.memory._dump_snapshot(out)
    with open(out + ".stats.json", "w") as f:
        counts = ["num_device_alloc", "num_device_free"] if lengths is not None else []
        keys = counts + ["requested_bytes.all.peak", "requested_bytes.all.current", "reserved_bytes.all.peak", "reserved_bytes.all.current", "active_bytes.all.peak", "num_ooms"]
        told = {k: stats[k] for k in keys}
        if scenario in LIMITED:
            told["allowed_bytes"] = int(FRACTION * torch.cuda.mem_get_info()[1])
        json.dump(told, f, indent=1)
        f.write("\n")


def shortened(value, prefixes):
    """Paths without the folders of the machine that recorded."""
    if isinstance(value, str):
        for old, new in prefixes:
            value = value.replace(old, new)
        return sys.intern(value)
    if isinstance(value, dict):
        for k in value:
            value[k] = shortened(value[k], prefixes)
    elif isinstance(value, list):
        for i, v in enumerate(value):
            value[i] = shortened(v, prefixes)
    return value


def main(folder, names, env):
    torch = importlib.util.find_spec("torch").origin
    here = os.path.dirname(os.path.abspath(__file__))
    prefixes = [(os.path.dirname(os.path.dirname(torch)), "/usr/lib/python3/site-packages"), (here, "/home/user"), (sys.prefix, "/usr")]
    for scenario in names or [*SCENARIOS, *SETTINGS, *LIMITED]:
        path = os.path.join(folder, scenario + ".pickle")
        subprocess.run([sys.executable, os.path.abspath(__file__), "--one", scenario, path], check=True, env=env)
        with open(path, "rb") as f:
            snapshot = shortened(pickle.load(f), prefixes)
        os.remove(path)
        with gzip.GzipFile(path + ".gz", "wb", mtime=0) as f:
            pickle.dump(snapshot, f)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] == ["--one"]:
        record(arguments[1], arguments[2])
    elif arguments[:1] == ["--without-gpu"]:
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "check"))
        import standin

        with tempfile.TemporaryDirectory() as built:
            main(arguments[1], arguments[2:], {**standin.build(built), "STANDIN_TOTAL": "3000000000"})
    else:
        main(arguments[0], arguments[1:], None)
