"""Training steps with one planted cause on the host: planted.py CAUSE [--fixed] [--steps N] [--pairs N].

--fixed removes the cause and leaves everything else. --pairs runs N blocks of steps with the cause and N without
it in turns (ABBA) in one process. The last line has the mean time of a step in ms, or that of each block, with the
CPU time of the thread that makes the steps: other work on the machine lengthens a step, and hardly its CPU time.
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time

import torch


def model(dtype=torch.float32, width=128, layers=2):
    parts = []
    for _ in range(layers):
        parts += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts, torch.nn.Linear(width, 8)).to(dtype)


class Plain:
    """A step without any cause; a plant adds its own to it."""

    def __init__(self, fixed):
        self.fixed = fixed
        self.net = model()
        self.opt = torch.optim.SGD(self.net.parameters(), 0.01)
        self.x = torch.randn(256, 128)

    def train(self, x):
        self.opt.zero_grad()
        self.net(x).square().mean().backward()
        self.opt.step()

    def batches(self, n):
        for _ in range(n):
            yield self.x

    def step(self, x):
        self.train(x)

    def enter(self):
        """A block of steps begins."""

    def leave(self):
        """A block of steps has ended."""


class Sleep(Plain):
    def step(self, x):
        self.train(x)
        if not self.fixed:
            time.sleep(0.012)


class Preprocess(Plain):
    def features(self):
        out = []
        for i in range(40000):
            out.append(hash(i * 31) % 1000 / 1000.0)
        return out

    def step(self, x):
        if not self.fixed:
            self.features()
        self.train(x)


class Native(Plain):
    """Work in C code of another library, which releases the interpreter's lock."""

    def __init__(self, fixed):
        super().__init__(fixed)
        self.data = os.urandom(300_000)

    def step(self, x):
        import zlib

        if not self.fixed:
            zlib.compress(self.data, 6)
        self.train(x)


class Sorting(Plain):
    """Work in C code that keeps the interpreter's lock."""

    def step(self, x):
        if not self.fixed:
            words = [str(i * 7919 % 50021) for i in range(30000)]
            words.sort()
        self.train(x)


class Checkpoint(Plain):
    def __init__(self, fixed):
        super().__init__(fixed)
        self.big = torch.randn(1_000_000)
        self.path = os.path.join(tempfile.mkdtemp(), "c.pt")

    def step(self, x):
        self.train(x)
        if not self.fixed:
            torch.save({"model": self.net.state_dict(), "big": self.big}, self.path)


class Flushing(logging.FileHandler):
    def emit(self, record):
        super().emit(record)
        os.fsync(self.stream.fileno())


class Logging(Plain):
    def __init__(self, fixed):
        super().__init__(fixed)
        self.log = logging.getLogger("planted")
        self.log.setLevel(logging.INFO)
        self.log.propagate = False
        self.log.addHandler(Flushing(os.path.join(tempfile.mkdtemp(), "log")))

    def step(self, x):
        self.train(x)
        for i in range(0 if self.fixed else 20):
            self.log.info("value %d", i)


class Printing(Plain):
    def __init__(self, fixed):
        super().__init__(fixed)
        self.out = open(os.path.join(tempfile.mkdtemp(), "out"), "w", buffering=1)

    def step(self, x):
        self.train(x)
        for i in range(0 if self.fixed else 3000):
            print("value", i, x.shape, file=self.out)


class Lock(Plain):
    """Another thread refreshes what the step reads, and holds the lock meanwhile."""

    def __init__(self, fixed):
        super().__init__(fixed)
        self.lock = threading.Lock()
        if not fixed:
            threading.Thread(target=self.hold, daemon=True).start()

    def hold(self):
        while True:
            with self.lock:
                time.sleep(0.012)
            time.sleep(0.0005)

    def step(self, x):
        self.train(x)
        with self.lock:
            pass


class Subprocess(Plain):
    def step(self, x):
        self.train(x)
        if not self.fixed:
            subprocess.run(["sh", "-c", "sleep 0.01"], check=True)


class Samples(torch.utils.data.Dataset):
    def __init__(self, fixed, n):
        self.fixed, self.n = fixed, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if self.fixed:
            return torch.full((128,), float(i % 7))
        values = [float((i * k) % 7) for k in range(2000)]
        return torch.tensor(values[:128])


class Getitem(Plain):
    def batches(self, n):
        yield from torch.utils.data.DataLoader(Samples(self.fixed, n * 16), 16)


class Epochs(Plain):
    """Workers that are started again for every epoch of two batches."""

    def batches(self, n):
        loader = torch.utils.data.DataLoader(Samples(True, 32), 16, num_workers=2, persistent_workers=self.fixed)
        for _ in range(n // 2):
            yield from loader


class Float64(Plain):
    def __init__(self, fixed):
        super().__init__(fixed)
        dtype = torch.float32 if fixed else torch.float64
        self.net = model(dtype, 512, 4)
        self.opt = torch.optim.SGD(self.net.parameters(), 0.01)
        self.x = torch.randn(256, 512, dtype=dtype)


class Foreach(Plain):
    """Adam over many small parameters, one at a time."""

    def __init__(self, fixed):
        super().__init__(fixed)
        self.net = model(width=32, layers=60)
        self.opt = torch.optim.Adam(self.net.parameters(), 0.001, foreach=True if fixed else False)
        self.x = torch.randn(8, 32)


class Anomaly(Plain):
    def __init__(self, fixed):
        super().__init__(fixed)
        self.net = model(width=64, layers=20)
        self.opt = torch.optim.SGD(self.net.parameters(), 0.01)
        self.x = torch.randn(32, 64)

    def enter(self):
        torch.autograd.set_detect_anomaly(not self.fixed)


class Threads(Plain):
    def __init__(self, fixed):
        super().__init__(fixed)
        self.net = model(width=512, layers=4)
        self.opt = torch.optim.SGD(self.net.parameters(), 0.01)
        self.x = torch.randn(128, 512)

    def enter(self):
        torch.set_num_threads(len(os.sched_getaffinity(0)) * (1 if self.fixed else 8))


class Recompute(Plain):
    """Activations are computed again in the backward pass though memory is free."""

    def __init__(self, fixed):
        super().__init__(fixed)
        self.net = model(width=512, layers=4)
        self.opt = torch.optim.SGD(self.net.parameters(), 0.01)
        self.x = torch.randn(256, 512, requires_grad=True)

    def train(self, x):
        from torch.utils.checkpoint import checkpoint

        self.opt.zero_grad()
        y = self.net(x) if self.fixed else checkpoint(self.net, x, use_reentrant=False)
        y.square().mean().backward()
        self.opt.step()


class Starved(Plain):
    """Other programs take the CPUs."""

    burners = ()

    def enter(self):
        burn = [sys.executable, "-S", "-c", "import time\nt = time.time()\nwhile time.time() - t < 120: pass"]
        self.burners = [subprocess.Popen(burn) for _ in range(0 if self.fixed else 2 * len(os.sched_getaffinity(0)))]

    def step(self, x):
        s = 0
        for i in range(60000):
            s += i * i
        self.train(x)

    def leave(self):
        for b in self.burners:
            b.kill()
            b.wait()


PLANTS = {c.__name__.lower(): c for c in (Plain, Sleep, Preprocess, Native, Sorting, Checkpoint, Logging, Printing, Lock, Subprocess, Getitem, Epochs,
                                          Float64, Foreach, Anomaly, Threads, Recompute, Starved)}


def block(plant, steps):
    """The mean wall and CPU time of a step, ms, without the first quarter of the steps."""
    took, last = [], None
    plant.enter()
    try:
        for x in plant.batches(steps):
            plant.step(x)
            now = time.perf_counter(), time.thread_time()
            if last is not None:
                took.append([b - a for a, b in zip(last, now)])
            last = now
    finally:
        plant.leave()
    took = took[len(took) // 4 :]
    return [1000 * sum(clock) / len(took) for clock in zip(*took)]


def main(plants):
    p = argparse.ArgumentParser()
    p.add_argument("cause", choices=plants)
    p.add_argument("--fixed", action="store_true")
    p.add_argument("--steps", type=int, default=150)
    p.add_argument("--pairs", type=int, default=0)
    a = p.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    make = plants[a.cause]
    if not a.pairs:
        print(json.dumps({"mean_ms": block(make(a.fixed), a.steps)[0]}))
        return
    both = make(False), make(True)
    for plant in both:
        block(plant, 10)
    took = [], []
    for i in range(2 * a.pairs):
        k = (i + 1) // 2 % 2
        took[k].append(block(both[k], a.steps))
    names = "with_ms", "with_cpu_ms", "without_ms", "without_cpu_ms"
    print(json.dumps(dict(zip(names, [clock for side in took for clock in zip(*side)]))))


if __name__ == "__main__":
    main(PLANTS)
