#!/usr/bin/env python3
"""Small PyTorch profiler traces of planted problems, each with its clean twin, for gpuprof analyze.

    python3 traces.py --out traces                            record on the GPU
    python3 traces.py --out traces --device cpu --tiny        to see that it runs; nothing is timed
    python3 traces.py --out traces --analyse bin/gpuprof      what gpuprof analyze says of each pair

A pair is NAME-planted.json.gz and NAME-clean.json.gz: the same program, in one of which one thing is done that tuning
guides warn of. index.json says what was planted, how long a step of each takes without the profiler (planted_s,
clean_s), and what the clean twin saves a step (saved_s: least, median and greatest of ROUNDS differences, in each of
which the twins take turns): that is what a claim of analyze has to be compared with. planted_traced_s and clean_traced_s
are the same steps as the traces show them; where they are much longer, the profiler disturbed the program.
"""
import argparse
import contextlib
import datetime
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROUNDS = 6          # least and greatest of six differences hold their median in 31 of 32 cases
WARM_S = 0.3        # a twin runs that long before anything is timed: clocks and caches settle
BLOCK_S = 0.06      # a block of steps takes about that long
STEPS = 6           # in a trace; analyze leaves the first out
TRIES = 3           # recordings of a twin, the least disturbed of which is kept
DISTURBED = 1.2     # a step with the profiler may take that many times as long as without
AGAIN_S = 35        # nothing is recorded again once that much time is spent: gpu-check allows a minute
BEGUN = time.monotonic()


class Scene:
    """One program: step() does a step, planted says whether the problem is in.

    The kernels are long enough for the device to set the pace of a clean twin, not the host: what a problem costs is then
    what the device waits, and neither a busy host nor the profiler's own work on it blurs the difference.
    """

    expected = ()  # rules of which one has to be named first, and whose claims are for what was planted
    batch = 32768

    def __init__(self, torch, dev, tiny, planted):
        self.torch, self.dev, self.tiny, self.planted = torch, dev, tiny, planted
        self.width, depth = (16, 3) if tiny else (2048, 8)
        if tiny:
            self.batch = 8
        kind = torch.bfloat16
        self.layers = [torch.nn.Linear(self.width, self.width, device=dev, dtype=kind) for _ in range(depth)]
        self.x = torch.randn(self.batch, self.width, device=dev, dtype=kind)

    def sync(self):
        if self.dev == "cuda":
            self.torch.cuda.synchronize()

    def forward(self, x):
        for layer in self.layers:
            x = self.torch.nn.functional.relu(layer(x))
            self.after(x)
        return x

    def after(self, x):
        """Between layers."""

    def step(self):
        self.forward(self.x)

    def enter(self):
        """Before steps of this twin: switch on what is global."""

    def leave(self):
        """After them: switch it off."""

    def close(self):
        """At the end."""


class Items(Scene):
    """A number is read back after every layer."""

    expected = ("item", "hidden-sync")

    def after(self, x):
        mean = x[:64].float().mean()
        if self.planted:
            mean.item()


class Sync(Scene):
    """The program waits for the device after every layer."""

    expected = ("explicit-sync",)

    def after(self, x):
        if self.planted:
            self.sync()


class Deterministic(Scene):
    """Sums over indices in a fixed order, and uninitialised memory filled."""

    expected = ("deterministic", "deterministic-fill")

    def __init__(self, *args):
        super().__init__(*args)
        rows = 40 if self.tiny else 200_000
        self.index = self.torch.randint(max(rows // 50, 1), (rows,), device=self.dev)
        self.values = self.torch.randn(rows, 8 if self.tiny else 256, device=self.dev)

    def step(self):
        for _ in range(4):
            out = self.torch.empty(self.values.shape, device=self.dev)
            self.torch.mul(self.values, 2, out=out)
            self.torch.zeros(self.values.shape, device=self.dev).index_add_(0, self.index, out)

    def enter(self):
        self.torch.use_deterministic_algorithms(self.planted)

    def leave(self):
        self.torch.use_deterministic_algorithms(False)


class Fill(Scene):
    """Deterministic algorithms fill uninitialised memory, in a program that writes all of it anyway."""

    expected = ("deterministic-fill",)

    def __init__(self, *args):
        super().__init__(*args)
        self.values = self.torch.randn(40 if self.tiny else 65_536, 8 if self.tiny else 1024, device=self.dev)

    def step(self):
        for _ in range(8):
            out = self.torch.empty(self.values.shape, device=self.dev)
            self.torch.mul(self.values, 2, out=out)

    def enter(self):
        self.torch.use_deterministic_algorithms(True)
        self.torch.utils.deterministic.fill_uninitialized_memory = self.planted

    def leave(self):
        self.torch.utils.deterministic.fill_uninitialized_memory = True
        self.torch.use_deterministic_algorithms(False)


class Loader(Scene):
    """Batches come from the loop's own process instead of four workers."""

    expected = ("dataloader-stall",)
    batch = 8192

    def __init__(self, *args):
        super().__init__(*args)
        data = Slow(self.torch, self.width, 0 if self.tiny else 1e-3)
        more = {} if self.planted else {"num_workers": 4, "persistent_workers": True, "prefetch_factor": 4}
        self.loader = self.torch.utils.data.DataLoader(data, batch_size=8, pin_memory=self.dev == "cuda", **more)
        self.batches = iter(self.loader)

    def step(self):
        x = next(self.batches).to(self.dev, non_blocking=True)
        for _ in range(1 if self.tiny else 4):
            y = self.forward(self.x)
        return y.sum() + x.sum()

    def close(self):
        del self.batches


class Slow:
    """A data set whose samples take a while, as decoding an image does."""

    def __init__(self, torch, width, seconds):
        self.torch, self.width, self.seconds = torch, width, seconds

    def __len__(self):
        return 1 << 16

    def __getitem__(self, i):
        end = time.perf_counter() + self.seconds
        x = self.torch.full((self.width,), float(i))
        while time.perf_counter() < end:
            x = x.flip(0)
        return x


class EmptyCache(Scene):
    """Cached memory is given back in the middle of every step and has to be asked for again."""

    expected = ("allocator-churn",)

    def step(self):
        self.forward(self.x)
        if self.planted and self.dev == "cuda":
            self.torch.cuda.empty_cache()
        self.forward(self.x)


class Pageable(Scene):
    """Inputs come from ordinary memory instead of pinned memory, so that the next batch's copy runs beside nothing."""

    expected = ("pageable-h2d", "exposed-copy")

    def __init__(self, *args):
        super().__init__(*args)
        self.host = self.x.cpu()
        if self.dev == "cuda":
            if not self.planted:
                self.host = self.host.pin_memory()
            self.small = self.torch.randn(1 << 18).pin_memory()  # shows what pinned copies reach here
            self.small_at = self.small.to(self.dev)
            self.at = [self.x, self.x.clone()]
            self.side = self.torch.cuda.Stream()
            self.ready = [self.torch.cuda.Event() for _ in self.at]  # copied
            self.used = [self.torch.cuda.Event() for _ in self.at]   # read by the last kernel that needs it
            self.n = 0

    def step(self):
        if self.dev != "cuda":
            return self.forward(self.host)
        now, nxt = self.n % 2, (self.n + 1) % 2
        with self.torch.cuda.stream(self.side):
            self.side.wait_event(self.used[nxt])
            self.small_at.copy_(self.small, non_blocking=True)
            self.at[nxt].copy_(self.host, non_blocking=True)
            self.ready[nxt].record()
        self.torch.cuda.current_stream().wait_event(self.ready[now])
        self.forward(self.at[now])
        self.used[now].record()
        self.n += 1


SCENES = {"item": Items, "sync": Sync, "deterministic": Deterministic, "deterministic-fill": Fill, "dataloader": Loader, "empty-cache": EmptyCache, "pageable": Pageable}


@contextlib.contextmanager
def entered(scene):
    scene.enter()
    try:
        yield
        scene.sync()
    finally:
        scene.leave()


def record(torch, scene, path):
    """Steps after a warm-up, compressed by the profiler itself."""
    from torch.profiler import ProfilerActivity, profile, schedule
    kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if scene.dev == "cuda" else [])
    wait, warmup = 1, 2 if scene.tiny else 10
    with entered(scene), profile(activities=kinds, schedule=schedule(wait=wait, warmup=warmup, active=STEPS, repeat=1),
                                 on_trace_ready=lambda p: p.export_chrome_trace(str(path))) as prof:
        for i in range(wait + warmup + STEPS):
            scene.step()
            if i == wait + warmup - 1:
                scene.sync()  # else kernels of the warm-up run on into the trace, without their launches
            prof.step()
        scene.sync()


def traced_s(path):
    """Seconds a step of a trace, first operation of the device to last; None without a device."""
    with gzip.open(path, "rt") as f:
        events = [e for e in json.load(f)["traceEvents"] if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    if not events:
        return None
    return (max(e["ts"] + e["dur"] for e in events) - min(e["ts"] for e in events)) / STEPS / 1e6


def least_disturbed(torch, scene, path, alone_s):
    """Records until the profiler leaves the step about as long as it is alone; returns the traced step and the tries."""
    best, other = None, path.with_name("other-" + path.name)
    for n in range(1, TRIES + 1):
        record(torch, scene, path if best is None else other)
        got = traced_s(path if best is None else other)
        if best is not None and got < best:
            other.replace(path)
        best = got if best is None else min(best, got)
        if best is None or alone_s is None or best <= DISTURBED * alone_s or time.monotonic() - BEGUN > AGAIN_S:
            break
    other.unlink(missing_ok=True)
    return best, n


def seconds_a_step(scene, steps):
    """The wall clock around steps of one twin and a synchronise, after a few that are not timed."""
    with entered(scene):
        for _ in range(3):
            scene.step()
        scene.sync()
        begin = time.perf_counter()
        for _ in range(steps):
            scene.step()
        scene.sync()
        return (time.perf_counter() - begin) / steps


def take_turns(planted, clean):
    """Steps of both twins in mirrored order, so that what drifts drifts out: planted, clean, clean, planted."""
    steps = []
    for scene in (planted, clean):
        begin, n = time.perf_counter(), 0
        with entered(scene):
            while time.perf_counter() - begin < (0 if scene.tiny else WARM_S) or n == 0:
                scene.step()
                scene.sync()
                n += 1
        steps.append(max(5, min(50, round(BLOCK_S * n / (time.perf_counter() - begin)))))
    a, b = [], []
    for _ in range(1 if planted.tiny else ROUNDS):
        first, second = seconds_a_step(planted, steps[0]), seconds_a_step(clean, steps[1])
        b.append((second + seconds_a_step(clean, steps[1])) / 2)
        a.append((first + seconds_a_step(planted, steps[0])) / 2)
    if planted.tiny:
        return {"planted_s": None, "clean_s": None, "saved_s": None}
    saved = sorted(x - y for x, y in zip(a, b))
    return {"planted_s": statistics.median(a), "clean_s": statistics.median(b), "saved_s": [saved[0], statistics.median(saved), saved[-1]]}


def make_pair(torch, args, name, kind):
    pair = {"name": name, "what": kind.__doc__.strip(), "expected": list(kind.expected)}
    with contextlib.ExitStack() as stack:
        twins = {}
        for which in ("planted", "clean"):
            twins[which] = kind(torch, args.device, args.tiny, which == "planted")
            stack.callback(twins[which].close)
        pair |= take_turns(**twins)
        for which, scene in twins.items():
            pair[which] = f"{name}-{which}.json.gz"
            pair[which + "_traced_s"], pair[which + "_tries"] = least_disturbed(torch, scene, args.out / pair[which], pair[which + "_s"])
    return pair


def make(args):
    # Deterministic mode refuses matrix products without it; both twins get it.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    import torch
    args.out.mkdir(parents=True, exist_ok=True)
    index = {"made": datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0).isoformat(), "torch": torch.__version__, "dry": args.tiny,
             "device": torch.cuda.get_device_name() if args.device == "cuda" else "cpu", "pairs": []}
    failed = 0
    for name, kind in SCENES.items():
        try:
            with torch.inference_mode():
                pair = make_pair(torch, args, name, kind)
        except Exception as e:  # the other pairs go on
            print(f"{name}: {type(e).__name__}: {e}", file=sys.stderr)
            failed += 1
            continue
        index["pairs"].append(pair)
        (args.out / "index.json").write_text(json.dumps(index, indent=1) + "\n")
        print(name, pair["planted_s"], pair["clean_s"], flush=True)
    return 1 if failed else 0


def findings(gpuprof, path):
    """The findings that are more than a remark, those that claim most first, and the number of steps they are about."""
    out = subprocess.run([gpuprof, "--quiet", "analyze", str(path), "--format", "json"], capture_output=True, text=True)
    if out.returncode != 0:
        raise RuntimeError(f"analyze {path.name}: exit code {out.returncode}: {out.stderr.strip()}")
    doc = json.loads(out.stdout)
    steps = sum(not s.get("dropped") for s in doc["steps"])
    return [f for f in doc["findings"] if f["severity"] != "info"], steps


def analyse(args):
    index = json.loads((args.out / "index.json").read_text())
    results, failed = [], 0
    for pair in index["pairs"]:
        try:
            found, steps = findings(args.analyse, args.out / pair["planted"])
            clean, _ = findings(args.analyse, args.out / pair["clean"])
        except (RuntimeError, ValueError, KeyError) as e:
            print(f"{pair['name']}: {e}", file=sys.stderr)
            failed += 1
            continue
        rules = [f["rule"] for f in found]
        # One planted thing may show in two findings; the clean twin is without both.
        claim = sum(f.get("claim_ns") or 0 for f in found if f["rule"] in pair["expected"])
        saved = pair["saved_s"]
        results.append({"name": pair["name"], "expected": pair["expected"], "first": rules[0] if rules else "", "planted": rules, "clean": [f["rule"] for f in clean],
                        "claim_ns": claim / steps if steps else None, "saved_ns": saved and saved[1] * 1e9, "saved_interval_ns": saved and [saved[0] * 1e9, saved[2] * 1e9]})
        print(pair["name"], rules, results[-1]["clean"])
    (args.out / "analysis.json").write_text(json.dumps(results, indent=1) + "\n")
    return 1 if failed else 0


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--out", type=pathlib.Path, required=True)
    ap.add_argument("--device", default="cuda")
    ap.add_argument("--tiny", action="store_true")
    ap.add_argument("--analyse", metavar="GPUPROF", help="analyse what was recorded instead of recording")
    args = ap.parse_args()
    return analyse(args) if args.analyse else make(args)


if __name__ == "__main__":
    sys.exit(main())
