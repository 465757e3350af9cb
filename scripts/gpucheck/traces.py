#!/usr/bin/env python3
"""Small PyTorch profiler traces of planted problems, each with its clean twin, for gpuprof analyze.

    python3 traces.py --out traces                            record on the GPU
    python3 traces.py --out traces --device cpu --tiny        to see that it runs; nothing is timed
    python3 traces.py --out traces --analyse bin/gpuprof      what gpuprof analyze says of each pair

A pair is NAME-planted.json.gz and NAME-clean.json.gz: the same program, in one of which one thing is done that tuning
guides warn of. index.json says what was planted, and how long a step of each takes without the profiler: what the clean
twin saves is what a claim of analyze has to be compared with.
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time


class Scene:
    """One program: step() does a step, planted says whether the problem is in."""

    expected = ()  # rules of which one has to be named first

    def __init__(self, torch, dev, tiny, planted):
        self.torch, self.dev, self.planted = torch, dev, planted
        width, self.batch, depth = (16, 8, 3) if tiny else (2048, 8192, 8)
        kind = torch.bfloat16
        self.tiny = tiny
        self.layers = [torch.nn.Linear(width, width, device=dev, dtype=kind) for _ in range(depth)]
        self.x = torch.randn(self.batch, width, device=dev, dtype=kind)
        self.width = width

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

    def close(self):
        """Undo what was switched on."""


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
        self.torch.use_deterministic_algorithms(self.planted)

    def step(self):
        out = self.torch.empty(self.values.shape, device=self.dev)
        self.torch.mul(self.values, 2, out=out)
        self.torch.zeros(int(self.index.numel()), self.values.shape[1], device=self.dev).index_add_(0, self.index, out)
        self.forward(self.x)

    def close(self):
        self.torch.use_deterministic_algorithms(False)


class Loader(Scene):
    """Batches come from the loop's own process instead of four workers."""

    expected = ("dataloader-stall",)

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
    """Cached memory is given back every step and has to be asked for again."""

    expected = ("allocator-churn",)

    def step(self):
        kept = [self.forward(self.x) for _ in range(2)]
        del kept
        if self.planted and self.dev == "cuda":
            self.torch.cuda.empty_cache()


class Pageable(Scene):
    """Inputs come from ordinary memory instead of pinned memory."""

    expected = ("pageable-h2d", "exposed-copy")

    def __init__(self, *args):
        super().__init__(*args)
        self.host = self.torch.randn(self.batch, self.width).to(self.x.dtype)
        if self.dev == "cuda":
            self.small = self.torch.randn(1 << 18).pin_memory()  # shows what pinned copies reach here
            self.side = self.torch.cuda.Stream()
            if not self.planted:
                self.host = self.host.pin_memory()

    def step(self):
        if self.dev != "cuda":
            return self.forward(self.host)
        with self.torch.cuda.stream(self.side):
            self.small.to(self.dev, non_blocking=True)
            nxt = self.host.to(self.dev, non_blocking=True)
        self.forward(self.x)
        self.torch.cuda.current_stream().wait_stream(self.side)
        self.x = nxt


SCENES = {"item": Items, "sync": Sync, "deterministic": Deterministic, "dataloader": Loader, "empty-cache": EmptyCache, "pageable": Pageable}


def record(torch, scene, path):
    """Six steps after a warm-up; gzip by the profiler itself."""
    from torch.profiler import ProfilerActivity, profile, schedule
    kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if scene.dev == "cuda" else [])
    with profile(activities=kinds, schedule=schedule(wait=1, warmup=2, active=6, repeat=1), record_shapes=True,
                 on_trace_ready=lambda p: p.export_chrome_trace(str(path))) as prof:
        for _ in range(9):
            scene.step()
            prof.step()
        scene.sync()


def seconds_a_step(scene, tiny):
    """Median of several blocks, the wall clock around ten steps and a synchronise."""
    if tiny:
        return None
    times = []
    for _ in range(5):
        scene.sync()
        begin = time.perf_counter()
        for _ in range(10):
            scene.step()
        scene.sync()
        times.append((time.perf_counter() - begin) / 10)
    return statistics.median(times)


def make(args):
    # Deterministic mode refuses matrix products without it; both twins get it.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    import torch
    args.out.mkdir(parents=True, exist_ok=True)
    index = {"made": datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0).isoformat(), "torch": torch.__version__, "dry": args.tiny,
             "device": torch.cuda.get_device_name() if args.device == "cuda" else "cpu", "pairs": []}
    failed = 0
    for name, kind in SCENES.items():
        pair = {"name": name, "what": kind.__doc__.strip(), "expected": list(kind.expected)}
        try:
            with torch.inference_mode():
                for planted in (True, False):
                    which = "planted" if planted else "clean"
                    scene = kind(torch, args.device, args.tiny, planted)
                    with contextlib.closing(scene):
                        for _ in range(3):
                            scene.step()
                        scene.sync()
                        pair[which + "_s"] = seconds_a_step(scene, args.tiny)
                        pair[which] = f"{name}-{which}.json.gz"
                        record(torch, scene, args.out / pair[which])
        except Exception as e:  # the other pairs go on
            print(f"{name}: {type(e).__name__}: {e}", file=sys.stderr)
            failed += 1
            continue
        index["pairs"].append(pair)
        (args.out / "index.json").write_text(json.dumps(index, indent=1) + "\n")
        print(name, pair.get("planted_s"), pair.get("clean_s"), flush=True)
    return 1 if failed else 0


def findings(gpuprof, path):
    """Rules in order, the first's claim and the number of steps it is about."""
    out = subprocess.run([gpuprof, "--quiet", "analyze", str(path), "--format", "json"], capture_output=True, text=True)
    if out.returncode != 0:
        raise RuntimeError(f"analyze {path.name}: exit code {out.returncode}: {out.stderr.strip()}")
    doc = json.loads(out.stdout)
    steps = sum(not s.get("dropped") for s in doc["steps"])
    found = [f for f in doc["findings"] if f["severity"] != "info"]
    return [f["rule"] for f in found], (found[0].get("claim_ns") or 0) if found else 0, steps


def analyse(args):
    index = json.loads((args.out / "index.json").read_text())
    results, failed = [], 0
    for pair in index["pairs"]:
        try:
            rules, claim, steps = findings(args.analyse, args.out / pair["planted"])
            clean, _, _ = findings(args.analyse, args.out / pair["clean"])
        except (RuntimeError, ValueError, KeyError) as e:
            print(f"{pair['name']}: {e}", file=sys.stderr)
            failed += 1
            continue
        saved = None if pair["planted_s"] is None else (pair["planted_s"] - pair["clean_s"]) * 1e9
        results.append({"name": pair["name"], "expected": pair["expected"], "first": rules[0] if rules else "", "planted": rules, "clean": clean,
                        "claim_ns": claim / steps if steps else None, "saved_ns": saved})
        print(pair["name"], rules, clean)
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
