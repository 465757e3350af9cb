"""Training steps as people write them, each with another cause on the host, and four without any.

everyday.py CAUSE [--fixed] [--steps N] [--pairs N], as planted.py.
"""

import copy
import csv
import gc
import hashlib
import io
import json
import os
import pickle
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

import torch
from planted import Plain, main, model

WORDS = ["token", "step", "loss", "graph", "kernel", "layer", "batch", "queue", "state", "value"]


class Confusion(Plain):
    """A confusion matrix, one prediction at a time."""

    def step(self, x):
        self.train(x)
        if not self.fixed:
            table = [[0] * 8 for _ in range(8)]
            for _ in range(60):
                for a, b in zip(self.labels, self.guesses):
                    table[a][b] += 1

    labels = [i % 8 for i in range(1500)]
    guesses = [i * 7 % 8 for i in range(1500)]


class Records(torch.utils.data.Dataset):
    """Items that PARSE makes from a row; without it they are there already."""

    def __init__(self, plant, n):
        self.plant, self.n = plant, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.plant.ready if self.plant.fixed else self.plant.item(i)


class Loaded(Plain):
    """Batches of a data loader whose items are made by the plant."""

    loader = {}

    def __init__(self, fixed):
        super().__init__(fixed)
        self.ready = torch.ones(128)

    def batches(self, n):
        yield from torch.utils.data.DataLoader(Records(self, n * 16), 16, **self.loader)


class Csv(Loaded):
    """A row of a table is parsed for each item."""

    text = "\n".join(",".join(str(i * k % 97) for k in range(128)) for i in range(16))

    def item(self, i):
        rows = list(csv.reader(io.StringIO(self.text)))
        return torch.tensor([float(v) for v in rows[i % 16]])


class Tokens(Loaded):
    """collate_fn splits text into tokens with a regular expression."""

    text = " ".join(WORDS * 120)
    pattern = re.compile(r"\w+|[^\w\s]")

    def item(self, i):
        return self.ready

    def collate(self, items):
        if not self.fixed:
            vocabulary = {}
            for _ in items:
                [vocabulary.setdefault(w.lower(), len(vocabulary)) for w in self.pattern.findall(self.text)]
        return torch.stack(items)

    def batches(self, n):
        yield from torch.utils.data.DataLoader(Records(self, n * 16), 16, collate_fn=self.collate)


class Files(Loaded):
    """Each item opens a file and unpickles it."""

    def __init__(self, fixed):
        super().__init__(fixed)
        self.path = os.path.join(tempfile.mkdtemp(), "item.pickle")
        with open(self.path, "wb") as f:
            pickle.dump({"values": [float(i) for i in range(12000)], "names": WORDS * 200}, f)

    def item(self, i):
        with open(self.path, "rb") as f:
            return torch.tensor(pickle.load(f)["values"][:128])


class Waiting(torch.utils.data.Dataset):
    """Items of a slow storage."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        time.sleep(0.001)
        return torch.ones(128)


class Storage(Loaded):
    """Each item waits for a slow storage. The change that gpuprof prints is workers, one for each CPU."""

    def batches(self, n):
        more = {"num_workers": len(os.sched_getaffinity(0)), "persistent_workers": True, "prefetch_factor": 4} if self.fixed else {}
        yield from torch.utils.data.DataLoader(Waiting(n * 16), 16, **more)


class Database(Loaded):
    """Each item is a query of a database without an index."""

    def __init__(self, fixed):
        super().__init__(fixed)
        self.base = sqlite3.connect(":memory:")
        self.base.execute("create table items (name text, value real)")
        self.base.executemany("insert into items values (?, ?)", [("n%d" % i, float(i)) for i in range(8000)])

    def item(self, i):
        self.base.execute("select value from items where name = ?", ("n%d" % i,)).fetchall()
        return self.ready


class Pickled(Loaded):
    """A worker sends lists of Python numbers, which the program unpickles."""

    loader = {"num_workers": 1, "persistent_workers": True, "collate_fn": list}

    def item(self, i):
        return [float(k) for k in range(6000)]

    def step(self, x):
        self.train(self.x)


class Item(Plain):
    """Each value of a tensor is read on its own."""

    def step(self, x):
        self.train(x)
        if not self.fixed:
            total = 0.0
            for v in self.x[:24].flatten():
                total += v.item()


class Json(Plain):
    text = json.dumps([{"id": i, "name": WORDS[i % 10], "values": [i * 0.5] * 20} for i in range(1200)])

    def step(self, x):
        if not self.fixed:
            json.loads(self.text)
        self.train(x)


class Collector(Plain):
    """The garbage collector runs in every step."""

    held = [{"k": i} for i in range(60000)]

    def step(self, x):
        self.train(x)
        if not self.fixed:
            gc.collect()


class Interpreter(Plain):
    """Another thread computes in Python meanwhile."""

    def __init__(self, fixed):
        super().__init__(fixed)
        self.on = threading.Event()
        if not fixed:
            threading.Thread(target=self.spin, daemon=True).start()

    def enter(self):
        self.on.set()

    def leave(self):
        self.on.clear()

    def spin(self):
        n = 0
        while True:
            self.on.wait()
            for i in range(20000):
                n += i * i


class Retry(Plain):
    """A service is asked again after a pause."""

    def ask(self, tries):
        return tries >= 3

    def step(self, x):
        self.train(x)
        tries = 3 if self.fixed else 0
        while not self.ask(tries):
            time.sleep(0.004)
            tries += 1


class Ranking(Plain):
    """The area under a curve, from sorted scores, in each step."""

    random.seed(1)
    scores = [(random.random(), i % 2) for i in range(14000)]

    def step(self, x):
        self.train(x)
        if not self.fixed:
            seen = area = 0
            for _, label in sorted(self.scores):
                seen, area = seen + label, area + (seen if not label else 0)


class Copies(Plain):
    """The history of outputs is joined again in each step."""

    def __init__(self, fixed):
        super().__init__(fixed)
        self.history = [self.x.numpy().copy() for _ in range(60)]

    def step(self, x):
        import numpy

        self.train(x)
        if not self.fixed:
            numpy.concatenate([numpy.array(h, dtype=numpy.float64) for h in self.history]).mean()


class Deepcopy(Plain):
    """The configuration is copied for each step."""

    config = {"layers": [{"name": w, "sizes": list(range(12)), "on": True} for w in WORDS * 12]}

    def step(self, x):
        self.train(x)
        if not self.fixed:
            copy.deepcopy(self.config)


class Regex(Plain):
    """A regular expression is compiled again in each step."""

    def step(self, x):
        if not self.fixed:
            for k in range(6):
                re.purge()
                re.compile("|".join("(%s%d[a-z]{1,%d})" % (w, k, k + 2) for w in WORDS))
        self.train(x)


class Metric(Plain):
    """The memory of the process is read in each step."""

    def step(self, x):
        self.train(x)
        for _ in range(0 if self.fixed else 2):
            with open("/proc/self/smaps", encoding="utf-8") as f:
                sum(int(line.split()[1]) for line in f if line.startswith("Pss:"))


class Command(Plain):
    """The version of the code is asked for in each step."""

    def step(self, x):
        self.train(x)
        if not self.fixed:
            subprocess.check_output([sys.executable, "-S", "-c", "print(1)"])


class Digest(Plain):
    """A checksum of the parameters and of a large state in each step."""

    state = os.urandom(8_000_000)

    def step(self, x):
        self.train(x)
        if not self.fixed:
            hashlib.sha256(self.state).hexdigest()


class Saving(Plain):
    """A checkpoint in each tenth step."""

    def __init__(self, fixed):
        super().__init__(fixed)
        self.big, self.count = torch.randn(8_000_000), 0
        self.path = os.path.join(tempfile.mkdtemp(), "c.pt")

    def step(self, x):
        self.train(x)
        self.count += 1
        if not self.fixed and self.count % 10 == 0:
            torch.save({"model": self.net.state_dict(), "big": self.big}, self.path)


class Progress(Plain):
    """A line of progress is printed and flushed for each sample."""

    def __init__(self, fixed):
        super().__init__(fixed)
        self.out = open(os.path.join(tempfile.mkdtemp(), "out"), "w")

    def step(self, x):
        self.train(x)
        for i in range(0 if self.fixed else 1500):
            print(f"\rsample {i} of {len(x)}: {i / 1500:.3f}", end="", file=self.out, flush=True)


class Mlp(Plain):
    """Healthy: large layers."""

    def __init__(self, fixed):
        super().__init__(fixed)
        self.net = model(width=768)
        self.opt = torch.optim.SGD(self.net.parameters(), 0.01)
        self.x = torch.randn(256, 768)


class Conv(Plain):
    """Healthy: a convolution."""

    def __init__(self, fixed):
        super().__init__(fixed)
        self.net = torch.nn.Sequential(torch.nn.Conv2d(16, 32, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(32 * 14 * 14, 8))
        self.opt = torch.optim.SGD(self.net.parameters(), 0.01)
        self.x = torch.randn(64, 16, 16, 16)


class Recurrent(Plain):
    """Healthy: a recurrent network."""

    def __init__(self, fixed):
        super().__init__(fixed)
        self.net = torch.nn.GRU(128, 256)
        self.opt = torch.optim.Adam(self.net.parameters(), 0.001)
        self.x = torch.randn(20, 32, 128)

    def train(self, x):
        self.opt.zero_grad()
        self.net(x)[0].square().mean().backward()
        self.opt.step()


class Fed(Loaded):
    """Healthy: a loader whose items are there already, and a log each 50 steps."""

    item = None

    def __init__(self, fixed):
        super().__init__(True)
        self.net = model(width=768)
        self.net[0] = torch.nn.Linear(128, 768)
        self.opt = torch.optim.SGD(self.net.parameters(), 0.01)
        self.count = 0

    def step(self, x):
        self.train(x.repeat(16, 1))
        self.count += 1
        if self.count % 50 == 0:
            print("step", self.count, file=sys.stderr)


PLANTS = {c.__name__.lower(): c for c in (Confusion, Csv, Tokens, Files, Storage, Database, Pickled, Item, Json, Collector, Interpreter, Retry, Ranking, Copies, Deepcopy, Regex,
                                          Metric, Command, Digest, Saving, Progress, Mlp, Conv, Recurrent, Fed)}

if __name__ == "__main__":
    main(PLANTS)
