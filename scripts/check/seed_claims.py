"""Measures the promises of tuning guides on five PyTorch programs, and writes docs/guides-on-pytorch.md.

PYTHON scripts/check/seed_claims.py measure [--seconds 15] [--folder FOLDER] [PROGRAM...]
PYTHON scripts/check/seed_claims.py tune GPUPROF [--budget 5m] [--folder FOLDER] [PROGRAM...]
python scripts/check/seed_claims.py table [--folder FOLDER] [-o docs/guides-on-pytorch.md]

measure runs both sides of each row in one process, block by block in turns (ABBA), so that other work on the machine
slows both; CPU time decides. tune runs `gpuprof tune --claims` for what the programs have no flag for, such as the
workers of a loader.
Both keep JSON in the folder, and table writes the page from it. PYTHON needs PyTorch, for one row onnx, onnxruntime
and onnxscript, and for one row pandas; a row that cannot be measured has the reason.
"""

import argparse
import datetime
import importlib
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parents[2]
SEED = HERE / "testdata/programs/seed"
BLOCK = 0.2  # seconds of a block
SITTINGS, LEAST_PAIRS, MARGIN = 5, 4, 0.02


def row(guide, promise, flag, a, b, least=0.0, work="", common="", cost=False):
    """One promise: the values of a flag, the least speedup promised, and the flag by whose value the cost is divided.

    cost: the guide promises no speedup, and the row shows what the change costs.
    """
    return {"guide": guide, "promise": promise, "flag": flag, "a": a, "b": b, "least": least, "work": work, "common": common, "cost": cost}


# The rows of each command: the first word is the program.
COMMANDS = {
    "gru_flow.py": [
        row("none", "no change: the error of the method", "items", "8", "8"),
        row("Energy Flow", "`.item()` in hot loops: avoid it", "items", "8", "1"),
        row("Energy Flow, Aetheria, RxVision", "deterministic mode slows: 5-10 %", "deterministic", "on", "off", 1.05),
        row("PyTorch, not the guides", "foreach optimizer: faster", "optimizer", "loop", "foreach"),
        row("PyTorch, not the guides", "fused optimizer: faster", "optimizer", "loop", "fused"),
        row("Energy Flow", "torch.compile: 20-35 %", "compile", "off", "on", 1.2),
        row("DeePAW", "a larger batch: 10-20 %", "batch", "32", "128", 1.1, work="batch"),
        row("RxVision", "the profiler: what watching costs", "profile", "off", "on", common="--episode 20", cost=True),
        row("RxVision", "the profiler with profile_memory", "profile", "off", "memory", common="--episode 20", cost=True),
        row("RxVision", "the profiler with with_stack", "profile", "off", "stack", common="--episode 20", cost=True),
    ],
    "grid.py": [
        row("none", "no change: the error of the method", "view", "eager", "eager"),
        row("Aetheria", "no gradients: faster", "gradients", "on", "no_grad"),
        row("Aetheria", "inference mode in place of gradients off: 10-30 %", "gradients", "no_grad", "inference", 1.1),
        row("Aetheria", "torch.compile: 2-3x", "compile", "off", "on", 2, common="--gradients no_grad"),
        row("RxVision", "TorchScript: faster", "form", "eager", "script", common="--gradients no_grad"),
        row("RxVision", "torch.jit.freeze: faster", "form", "eager", "freeze", common="--gradients no_grad"),
        row("Aetheria", "copy only when the picture is shown", "view", "eager", "lazy", common="--gradients no_grad"),
        row("RxVision", "channels_last: faster", "layout", "nchw", "nhwc", common="--gradients no_grad"),
    ],
    "tabular.py": [
        row("none", "no change: the error of the method", "source", "row", "row"),
        row("pharmagen", "a DataLoader that reads a database: one query per batch", "source", "row", "batch"),
        row("pharmagen", "the table in memory in place of a database", "source", "row", "memory"),
        row("pharmagen, DeePAW", "vectorised preprocessing: 10-100x", "encode", "apply", "vector", 10, common="--source memory"),
        row("pharmagen", "literal replacement of strings in pandas", "replace", "regex", "literal", common="--source memory --encode vector"),
        row("DeePAW", "a larger batch: 10-20 %", "batch", "64", "256", 1.1, work="batch"),
    ],
    "predictor.py": [
        row("none", "no change: the error of the method", "collate", "slow", "slow"),
        row("DeePAW", "collator: edges of known cells are kept", "collate", "slow", "cached"),
        row("DeePAW", "collator: four changes, 19.2 -> 3.9 s", "collate", "slow", "bulk", 4.9),
        row("DeePAW", "a smaller model: about 2x", "channels", "32", "16", 2, common="--collate bulk"),
        row("DeePAW", "a larger batch: 10-20 %", "batch", "4", "16", 1.1, work="batch", common="--collate bulk"),
        row("DeePAW", "torch.compile: 20-50 %", "compile", "off", "on", 1.2, common="--collate bulk"),
    ],
    "images.py": [
        row("none", "no change: the error of the method", "layout", "nchw", "nchw"),
        row("RxVision", "channels_last in training: faster", "layout", "nchw", "nhwc"),
        row("PyTorch, not the guides", "scaled_dot_product_attention: faster", "attention", "loop", "sdpa"),
        row("pharmagen, RxVision", "mixed precision (bfloat16): 1.5-3x", "amp", "off", "bf16", 1.5),
        row("RxVision, pharmagen", "recomputing activations saves memory, for time", "recompute", "off", "on", cost=True),
        row("Energy Flow, Aetheria, DeePAW", "torch.compile: 20-35 %", "compile", "off", "on", 1.2),
        row("RxVision", "DistributedDataParallel, gloo, two ranks: faster", "ranks", "1", "2"),
    ],
    "images.py --serve": [
        row("none", "no change: the error of the method", "form", "eager", "eager"),
        row("RxVision", "TorchScript: faster", "form", "eager", "script"),
        row("RxVision", "torch.jit.freeze: faster", "form", "eager", "freeze"),
        row("RxVision", "torch.jit.optimize_for_inference: faster", "form", "eager", "optimize"),
        row("RxVision", "dynamic int8 of Linear: faster", "form", "eager", "int8"),
        row("RxVision", "ONNX export, onnxruntime: faster", "form", "eager", "onnx"),
        row("RxVision", "channels_last: faster", "form", "eager", "nhwc"),
        row("Aetheria", "inference mode in place of gradients off: 10-30 %", "gradients", "no_grad", "inference", 1.1),
        row("RxVision", "dynamic batching: max 32", "requests", "1", "32", work="requests"),
    ],
}
# What gpuprof tune --claims tries on a program from outside.
TUNED = {"gru_flow.py": "num_workers", "images.py": "num_workers", "tabular.py": "num_workers"}
# Promises that no CPU can show; their rows wait for a GPU.
WAITING = (
    ("Energy Flow", "synchronize before reading memory metrics blocks every step"),
    ("Energy Flow", "resetting peak statistics each step costs a sync"),
    ("Energy Flow, Aetheria, RxVision", "cudnn.benchmark: 5-10 %"),
    ("Aetheria, RxVision", "empty the cache every 100, 50 or 1 steps"),
    ("pharmagen, RxVision", "pin_memory: 15-20 %"),
    ("pharmagen", "non_blocking copies: 20-30 % utilisation"),
    ("pharmagen, RxVision", "TF32: 8x on Ampere"),
    ("pharmagen, RxVision, DeePAW", "mixed precision on tensor cores: 1.5-3x, 40-50 % memory"),
    ("RxVision", "each batch on a side stream; SyncBatchNorm; max_split_size_mb 128"),
)


# -- measuring ---------------------------------------------------------------------------------------------------------


class Side:
    """One side of a row: its steps, the seconds before the second of them, and the cost of a unit of work."""

    def __init__(self, module, words, work):
        options = module.parse(words)
        self.steps = module.steps(options)
        self.unit = float(getattr(options, work)) if work else 1.0
        began = time.perf_counter()
        next(self.steps)
        self.first = time.perf_counter() - began
        for _ in range(3):
            next(self.steps)

    def block(self, n):
        """The wall time and the CPU time of a unit of work."""
        began, cpu = time.perf_counter(), time.process_time()
        for _ in range(n):
            next(self.steps)
        return [(time.perf_counter() - began) / n / self.unit, (time.process_time() - cpu) / n / self.unit]

    def count(self):
        """Steps of a block."""
        return max(1, round(BLOCK / (min(self.block(1)[1], self.block(2)[1]) * self.unit)))


def student(freedom):
    """The two-sided 95 % quantile of Student's t."""
    return {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365}[freedom]


def interval(logs):
    """The mean of the sittings as a ratio, with the interval of Student's t."""
    mean, half = statistics.fmean(logs), student(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), [math.exp(mean - half), math.exp(mean + half)]


def sitting(module, words, row, seconds):
    """Both sides opened anew and run in turns: ABBA. The medians over pairs of the logarithms of wall and CPU time."""
    sides = [Side(module, [*words, *row["common"].split(), "--" + row["flag"], row[side]], row["work"]) for side in "ab"]
    counts, pairs, deadline = [s.count() for s in sides], [], time.perf_counter() + seconds
    while len(pairs) < LEAST_PAIRS or len(pairs) % 2 or time.perf_counter() < deadline:
        order = [0, 1] if len(pairs) % 2 == 0 else [1, 0]
        cost = {i: sides[i].block(counts[i]) for i in order}
        pairs.append([math.log(a / b) for a, b in zip(cost[0], cost[1])])
    for s in sides:
        s.steps.close()
    if row["flag"] == "compile":
        counters = importlib.import_module("torch._dynamo.utils").counters
        graphs = [counters["stats"].get("unique_graphs", 0), sum(counters["graph_break"].values())]
    else:
        graphs = None
    return [statistics.median(logs) for logs in zip(*pairs)], len(pairs), [s.first for s in sides], graphs


def compare(module, words, row, seconds):
    """All sittings of a row. CPU time decides, but for several ranks, which have one sitting and no interval."""
    runs = [sitting(module, words, row, seconds / SITTINGS) for _ in range(1 if row["flag"] == "ranks" else SITTINGS)]
    wall, cpu = (interval(logs) if len(logs) > 1 else (math.exp(logs[0]), [0, 0]) for logs in zip(*(r[0] for r in runs)))
    ratio, ci = wall if row["flag"] == "ranks" else cpu
    out = {"ratio": ratio, "ci95": ci, "wall": wall, "pairs": sum(r[1] for r in runs), "first_s": runs[0][2]}
    if runs[0][3]:
        out["graphs"] = runs[0][3]
    return out


def one(options, command, number):
    """One row in this process, which prints its result."""
    sys.path.insert(0, str(SEED))
    program, *words = command.split()
    torch = importlib.import_module("torch")
    torch.set_num_threads(options.threads)
    module = importlib.import_module(program[:-3])
    print(json.dumps(compare(module, words, COMMANDS[command][number], options.seconds)))
    sys.stdout.flush()
    os._exit(0)  # further ranks and workers of loaders end with their parent


def measure(options):
    for command in options.names or COMMANDS:
        kept = read(options, command)
        for number, r in enumerate(COMMANDS[command]):
            if options.only and r["flag"] not in options.only.split(","):
                continue
            words = [sys.executable, __file__, "one", command, str(number), "--seconds", str(options.seconds), "--threads", str(options.threads)]
            load = os.getloadavg()[0]
            run = subprocess.run(words, capture_output=True, text=True, timeout=600)
            name = "%s %s %s" % (r["flag"], r["a"], r["b"])
            if run.returncode:
                last = (run.stderr.strip() or "no output").splitlines()[-1]
                kept["rows"][name] = {"failed": last[:160]}
                print(command, name, "failed:", last, flush=True)
                continue
            found = dict(json.loads(run.stdout.strip().splitlines()[-1]), load=load, day=datetime.date.today().isoformat(), threads=options.threads)
            kept["rows"][name] = found
            print("%-18s %-26s x%.3f [%.3f, %.3f] %3d pairs load %.1f %s" % (
                command, name, found["ratio"], *found["ci95"], found["pairs"], load, verdict(found["ci95"], r["least"])), flush=True)
            path(options, command).write_text(json.dumps(kept, indent=1))


def tune(options):
    for command in options.names[1:] or TUNED:
        tool = ["tune", "--claims", "--quiet", "--format", "json", "--budget", options.budget, "--only", TUNED[command]]
        load = os.getloadavg()[0]
        run = subprocess.run([os.path.abspath(options.names[0]), *tool, "--", sys.executable, command], cwd=SEED,
                             env=dict(os.environ, OMP_NUM_THREADS=str(options.threads)), capture_output=True, text=True)
        if run.returncode:
            print(command, run.stderr.strip()[-300:], file=sys.stderr)
            sys.exit(1)
        kept = read(options, command)
        kept["tuned"] = {"load": load, "document": json.loads(run.stdout)}
        path(options, command).write_text(json.dumps(kept, indent=1))
        for r in kept["tuned"]["document"]["claims"]:
            print("%-18s %-30s x%.3f [%.3f, %.3f] load %.1f %s" % (command, r["id"], r["measured"], *r["ci95"], load, r["verdict"]), flush=True)


def path(options, command):
    pathlib.Path(options.folder).mkdir(parents=True, exist_ok=True)
    return pathlib.Path(options.folder) / (command.replace(" --", "-").replace(".py", "") + ".json")


def read(options, command):
    file = path(options, command)
    return json.loads(file.read_text()) if file.exists() else {"rows": {}}


# -- the page ----------------------------------------------------------------------------------------------------------


def error_of(kept, command):
    """By how much the comparison of equal sides is off, as a logarithm; 0 where its interval holds 1."""
    r = COMMANDS[command][0]
    found = kept["rows"].get("%s %s %s" % (r["flag"], r["a"], r["b"]))
    if not found or "failed" in found or found["ci95"][0] <= 1 <= found["ci95"][1]:
        return 0.0
    return abs(math.log(found["ratio"]))


def verdict(ci, least, error=0.0):
    """As gpuprof tune --claims judges; the error of equal sides widens the interval."""
    ci = [ci[0] * math.exp(-error), ci[1] * math.exp(error)]
    if not ci[1]:
        return "one sitting"
    if ci[0] >= 1 - MARGIN and ci[1] <= 1 + MARGIN:
        return "none"
    if ci[1] < 1:
        return "opposite"
    if ci[0] <= 1:
        return "inconclusive"
    return "smaller" if least and ci[1] < least else "confirmed"


def line(*cells):
    return "| " + " | ".join(cells) + " |\n"


def beside(found):
    parts = []
    if "graphs" in found:
        parts.append("%.0f s before the second step; graphs %d, graph breaks %d" % (found["first_s"][1] - found["first_s"][0], *found["graphs"]))
    if found["wall"][0] != found["ratio"]:
        parts.append("wall time x%.2f (%.2f to %.2f)" % (found["wall"][0], *found["wall"][1]))
    return "; ".join([*parts, "%d pairs, load %.1f" % (found["pairs"], found["load"])])


def shown_verdict(r, found, error):
    if r["a"] == r["b"]:
        return "off by %.0f %%" % (100 * math.expm1(error)) if error else "holds 1"
    found = verdict(found["ci95"], r["least"], error)
    return "costs" if r["cost"] and found == "opposite" else found


def rows_of(kept, command):
    error = error_of(kept, command)
    for r in COMMANDS[command]:
        change = "`--%s %s` -> `%s`" % (r["flag"], r["a"], r["b"])
        found = kept["rows"].get("%s %s %s" % (r["flag"], r["a"], r["b"]))
        if not found:
            yield line(r["guide"], r["promise"], change, "-", "-", "not yet measured", "")
        elif "failed" in found:
            yield line(r["guide"], r["promise"], change, "-", "-", "failed", found["failed"].replace("|", "/"))
        else:
            yield line(r["guide"], r["promise"], change, "x%.2f" % found["ratio"], "%.2f to %.2f" % tuple(found["ci95"]) if found["ci95"][1] else "-", shown_verdict(r, found, error), beside(found))
    tuned = kept.get("tuned")
    for r in tuned["document"]["claims"] if tuned else ():
        if r["id"] == "a/a" or r["verdict"].startswith("not "):
            continue
        shown = ("x%.2f" % r["measured"], "%.2f to %.2f" % tuple(r["ci95"])) if r["ci95"][1] else ("-", "-")
        yield line(r["guide"], "%s: %s" % (r["claim"], r["figure"]), "`tune --claims`, " + r["ab"].replace("->", "to"), *shown, r["verdict"], "load %.1f" % tuned["load"])


def table(options):
    out = pathlib.Path(__file__).with_suffix(".md").read_text()
    head = line("guide", "promise", "change", "measured", "95 % interval", "verdict", "beside it") + line("---", "---", "---", "---:", "---", "---", "---")
    for command in COMMANDS:
        out += "\n## `%s`\n\n%s%s" % (command, head, "".join(rows_of(read(options, command), command)))
    out += "\n## Waiting for a GPU\n\n" + line("guide", "promise") + line("---", "---") + "".join(line(*r) for r in WAITING)
    pathlib.Path(options.output).write_text(out) if options.output else sys.stdout.write(out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["measure", "tune", "table", "one"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="only the rows of these flags")
    parser.add_argument("--budget", default="5m")
    parser.add_argument("--folder", default="seed-claims")
    parser.add_argument("-o", "--output", default="")
    options = parser.parse_intermixed_args()
    if options.what == "one":
        one(options, options.names[0], int(options.names[1]))
    {"measure": measure, "tune": tune, "table": table}[options.what](options)


if __name__ == "__main__":
    main()
