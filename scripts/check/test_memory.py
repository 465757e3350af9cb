#!/usr/bin/env python3
"""Compares gpuprof's answers about memory snapshots with PyTorch's own allocator and with its _memory_viz.py.

    python3 scripts/check/test_memory.py [--without-gpu FOLDER] GPUPROF [SEEDS]

Random requests on several streams and pools run through the allocator of this Python's torch under several settings.
Of each recording: the peaks equal torch.cuda.memory_stats(), the model repeats every event, and the sums at the end,
the bytes by stack and the allocations without a free equal those of _memory_viz.py. What gpuprof says of a setting is
what the allocator counted under it: equal where it says exact, else within its range. --without-gpu takes the
stand-in runtime of scripts/check/standin.py, built into FOLDER.
"""

import ctypes
import json
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# Each with what is recorded besides: streams, a fraction of the device, pools, a late beginning.
SETTINGS = ["", "max_split_size_mb:32", "roundup_power2_divisions:4", "expandable_segments:True", "garbage_collection_threshold:0.6"]
KINDS = {"plain": {}, "streams": {"streams": 3}, "limit": {"fraction": 0.09}, "pools": {"pools": 2}, "late": {"late": True}, "record-stream": {"uses": True}}


def size(rng):
    r = rng.random()
    if r < 0.35:
        return rng.randint(1, 4096)
    if r < 0.55:
        return rng.randint(4096, 1 << 20)
    if r < 0.75:
        return rng.randint(1 << 20, 12 << 20)
    if r < 0.9:
        return rng.choice([2, 4, 16, 32]) << 20
    return rng.randint(12 << 20, 90 << 20)


def play(torch, seed, streams=1, pools=0, late=False, uses=False, n=1500, fraction=None):
    """One program: tensors are made and freed. Returns how many could not be made."""
    rng = random.Random(seed)
    on = [torch.cuda.current_stream()] + [torch.cuda.Stream() for _ in range(streams - 1)]
    side = torch.cuda.Stream() if uses else None
    own = [torch.cuda.MemPool() for _ in range(pools)]
    live, failed = [], 0
    for i in range(n):
        if late and i == n // 2:
            start(torch)
        if rng.random() < 0.004:
            torch.cuda.empty_cache()
        if live and rng.random() < len(live) / 110:
            block = live.pop(rng.randrange(len(live)))
            if side is not None and rng.random() < 0.4:
                block.record_stream(side)
            del block
            continue
        bytes, stream, pool = size(rng), rng.choice(on), rng.randrange(3 * pools) if pools else 9
        try:
            with torch.cuda.stream(stream):
                if pool < pools:
                    with torch.cuda.use_mem_pool(own[pool]):
                        live.append(torch.empty(bytes, dtype=torch.uint8, device="cuda"))
                else:
                    live.append(torch.empty(bytes, dtype=torch.uint8, device="cuda"))
        except torch.cuda.OutOfMemoryError:
            failed += 1
            for _ in range(3):
                live.pop(rng.randrange(len(live)))
    return live, own, failed


def start(torch):
    torch.cuda.memory._record_memory_history("all", context="all", stacks="python", max_entries=1_000_000)


def record(folder, kind, setting, seeds):
    """A process: every seed from an empty allocator."""
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = setting
    import torch

    torch.cuda.init()
    how = KINDS[kind]
    allowed = 0
    if "fraction" in how:
        torch.cuda.set_per_process_memory_fraction(how["fraction"])
        allowed = int(how["fraction"] * torch.cuda.mem_get_info()[1])
    for seed in range(seeds):
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.reset_accumulated_memory_stats()
        if "late" not in how:
            start(torch)
        live, own, failed = play(torch, seed, **how)
        stats = torch.cuda.memory_stats()
        path = os.path.join(folder, f"{kind}-{SETTINGS.index(setting)}-{seed}.pickle")
        torch.cuda.memory._dump_snapshot(path)
        if kind == "plain" and seed == 0:
            written_by_cpp(torch, path + ".cpp")
        torch.cuda.memory._record_memory_history(None)
        with open(path + ".json", "w") as f:
            json.dump({"stats": stats, "failed": failed, "allowed": allowed}, f)
        del live, own


CPP = """
#include <cstdio>
#include <string>
namespace torch { namespace cuda { std::string _memory_snapshot_pickled(); } }
extern "C" int dump(const char *path) {
  std::string text = torch::cuda::_memory_snapshot_pickled();
  FILE *f = fopen(path, "wb");
  return f && fwrite(text.data(), 1, text.size(), f) == text.size() && fclose(f) == 0 ? 0 : 1;
}
"""


def written_by_cpp(torch, path):
    """The same state by PyTorch's own writer, which no Python function calls."""
    with open(path + ".cc", "w") as f:
        f.write(CPP)
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    subprocess.run(["g++", "-shared", "-fPIC", abi, path + ".cc", "-o", path + ".so"], check=True)
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cuda.so"), mode=ctypes.RTLD_GLOBAL)
    del library
    if ctypes.CDLL(path + ".so").dump(path.encode()) != 0:
        raise SystemExit("the snapshot of the C++ writer could not be written")


def analysis(gpuprof, path, allowed):
    command = [gpuprof, "analyze", path, "--format", "json"] + (["--memory-limit", str(allowed)] if allowed else [])
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"FAIL {path}: {done.stderr}")
    return json.loads(done.stdout)


class Tally:
    def __init__(self):
        self.failed = 0
        self.counts = {}

    def check(self, what, where, got, want):
        n = self.counts.setdefault(what, [0, 0])
        n[1] += 1
        if got == want:
            n[0] += 1
        elif self.failed < 40:
            print(f"FAIL {where}: {what} is {got}, want {want}")
        self.failed += got != want


def compare(gpuprof, folder, kinds, settings, seeds, tally):
    read = {}
    for kind in kinds:
        for i in range(len(settings)):
            for seed in range(seeds):
                path = os.path.join(folder, f"{kind}-{i}-{seed}.pickle")
                if os.path.exists(path):
                    with open(path + ".json") as f:
                        read[kind, i, seed] = path, json.load(f)
    passed = {}
    for (kind, i, seed), (path, told) in read.items():
        a = analysis(gpuprof, path, told["allowed"])
        d, stats, where = a["devices"][0], told["stats"], f"{kind}, {settings[i] or 'defaults'}, seed {seed}"
        if kind != "late":
            tally.check("peak of tensors", where, d["peak"]["requested_bytes"], stats["requested_bytes.all.peak"])
            tally.check("peak of reserved memory", where, d["peak_reserved_bytes"], stats["reserved_bytes.all.peak"])
        tally.check("tensors at the end", where, d["end"]["requested_bytes"], stats["requested_bytes.all.current"])
        tally.check("reserved memory at the end", where, d["end"]["reserved_bytes"], stats["reserved_bytes.all.current"])
        tally.check("errors", where, len(d["ooms"]) + d["more_ooms"] if kind != "late" else told["failed"], told["failed"])
        ok = passed.setdefault((kind, settings[i]), [0, 0])
        ok[0] += d["check"]["passed"]
        ok[1] += 1
        if not d["check"]["passed"]:
            print(f"note {where}: the model ends at event {d['check']['failed_at']} of {d['events']}: {d['check'].get('reason')}")
        for w in d["what_if"]:
            if settings[i] or w["setting"] not in settings or told["failed"] or kind == "late":  # beside another one it is a third
                continue
            other = read.get((kind, settings.index(w["setting"]), seed))
            if other is None or other[1]["failed"]:
                continue
            want = other[1]["stats"]["reserved_bytes.all.peak"]
            if w["exact"]:
                tally.check("exact what-if", f"{where} with {w['setting']}", w["peak_reserved_bytes"], want)
            else:
                tally.check("range of a what-if", f"{where} with {w['setting']}", w["least_peak_reserved_bytes"] <= want <= w["peak_reserved_bytes"], True)
    for (kind, setting), (n, of) in sorted(passed.items()):
        print(f"{kind:14s} {setting or 'defaults':34s} the model repeats {n} of {of} recordings")
        tally.failed += n == 0 and kind in ("plain", "streams", "limit")
    return [path for path, _ in read.values()]


def main(gpuprof, seeds, env):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "record"))
    import export_memory_vectors

    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        kinds = [k for k in KINDS if k != "pools" or has_pools()]
        for kind in kinds:
            for setting in SETTINGS:
                if (kind in ("pools", "record-stream", "late") and setting not in ("", SETTINGS[3])) or (setting == SETTINGS[4]) > (kind == "limit"):
                    continue
                done = subprocess.run([sys.executable, os.path.abspath(__file__), "--record", folder, kind, setting, str(seeds)], env=env, capture_output=True, text=True)
                if done.returncode != 0:
                    raise SystemExit(f"FAIL recording {kind}, {setting}: {done.stderr[-2000:]}")
        paths = compare(gpuprof, folder, kinds, SETTINGS, seeds, tally)
        for path in [p for p in paths if os.path.exists(p + ".cpp")]:
            python, cpp = analysis(gpuprof, path, 0), analysis(gpuprof, path + ".cpp", 0)
            tally.check("protocol of the C++ writer", path, cpp["inputs"][0]["protocol"], 2)
            for a in python, cpp:  # the second is taken later, with an event of the first
                a["devices"] = [{k: v for k, v in d.items() if k in ("peak", "end", "what_if", "steps", "growth")} for d in a["devices"]]
                for d in a["devices"]:
                    d["end"] = {k: v for k, v in d["end"].items() if k not in ("event", "time_us")}
            tally.check("the analysis of the C++ writer's file", path, cpp["devices"], python["devices"])
        # What _memory_viz.py says, and what gpuprof says, of one recording of each kind.
        mv = export_memory_vectors.viz()
        version = version_of()
        for path in [p for p in paths if p.endswith("-0.pickle")]:
            with open(path, "rb") as f:
                snapshot = export_memory_vectors.pickle.load(f)
            viz = {k: int(v) for k, v in export_memory_vectors.sums(mv, snapshot).items()}
            end = analysis(gpuprof, path, 0)["devices"][0]["end"]
            tally.check("reserved memory of _memory_viz.py", path, end["reserved_bytes"], viz["total_reserved"])
            if "record-stream" not in path:  # what is freed and still in use is no tensor there
                tally.check("tensors of _memory_viz.py", path, end["requested_bytes"], viz["total_allocated"])
    for what, (n, of) in tally.counts.items():
        print(f"{what}: {n} of {of} equal")
    print(f"torch {version}: {'passed' if not tally.failed else str(tally.failed) + ' differ'}")
    return tally.failed > 0


def version_of():
    from importlib.metadata import version

    return version("torch")


def has_pools():
    major, minor = version_of().split(".")[:2]
    return (int(major), int(minor)) >= (2, 6)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] == ["--record"]:
        record(arguments[1], arguments[2], arguments[3], int(arguments[4]))
        sys.exit()
    environment = None
    if arguments[:1] == ["--without-gpu"]:
        import standin

        environment = {**standin.build(arguments[1]), "STANDIN_TOTAL": "20000000000", "STANDIN_EVENT_LAG": "3"}
        arguments = arguments[2:]
    if not arguments:
        sys.exit(__doc__)
    sys.exit(main(os.path.abspath(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 3, environment))
