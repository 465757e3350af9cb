"""The parts of gpu-check in order of value: what each runs and how long it may take."""
import dataclasses
import json
import os
import pathlib
import random
import subprocess
import typing

NAMES = ["doctor", "conformance", "conformance-failure", "kernels", "workload-checks", "bit-identity", "measure", "protocol", "ceilings",
         "shapes", "runs", "peers", "energy", "null", "traces", "recorder", "sweeps", "peers-compiled", "doctor-bench"]


@dataclasses.dataclass
class Command:
    name: str
    argv: typing.List[str]
    stdout: str = ""           # file for standard output, below the results
    cwd: str = ""
    limit: float = 0           # of this command, 0: the part's
    env: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Part:
    name: str
    limit: float
    commands: typing.List[Command]
    least: float = 5           # with less time left it is not begun
    absent: str = ""           # why it cannot run
    ask: typing.Callable = None  # asked when there is time for the part: a status and why, or two empty texts
    broken: str = ""           # why it could not even be made
    env: dict = dataclasses.field(default_factory=dict)


# Settings that make a step tiny, for the dry run.
SMALL = {"e3nn": ["batch=4", "edges=40"], "gruflow": ["flows=16", "hidden=8", "depth=3"], "collate": ["batch=2", "probes=8"],
         "gridsim": ["grid=16"], "serving": ["max_batch=4"]}


class Table:
    """Builds the parts for a GPU or, dry, for a machine without."""

    def __init__(self, args, programs, left):
        self.args, self.dry, self.bin, self.left = args, args.dry_run, programs, left
        self.gpuprof = str((args.gpuprof or programs / "gpuprof").absolute())
        self.device = args.gpuprof_device
        self.env = {"XDG_CACHE_HOME": str(args.out / "cache"), "TMPDIR": str(args.out / "tmp"),
                    "GPUPROF_DEVICE": "sim" if self.dry else "cuda", "GPUPROF_FIGURES": str(args.out / "figures.jsonl")}
        if self.dry:
            # Kept from run to run: building the simulated driver takes longer than using it.
            self.env["XDG_CACHE_HOME"] = os.environ.get("XDG_CACHE_HOME") or str(pathlib.Path.home() / ".cache")
        self.seed = random.SystemRandom().randrange(1, 1 << 31)
        self.asked = {}  # what the questions to python found out

    def pick(self, real, dry):
        return dry if self.dry else real

    def part(self, name, limit, commands, **more):
        return Part(name, limit, commands, env=self.env, **more)

    # -- test binaries

    def tests(self, name, binary, pattern, folder, skip="", **more):
        argv = [str(self.bin / binary), "-test.v", "-test.run", pattern, "-test.timeout", "300s"]
        if skip:
            argv += ["-test.skip", skip]
        return Command(name, argv, cwd=str(self.args.source / folder) if self.dry else "", **more)

    def gpucheck(self, name, pattern):
        return self.tests(name, "gpucheck.test", f"^({pattern})$", "internal/gpucheck")

    # -- gpuprof

    def verb(self, name, *argv, stdout="", **more):
        return Command(name, [self.gpuprof, "--quiet", *argv], stdout=stdout, **more)

    def check(self, name, workload, *sets, preset="small", extra=()):
        """A comparison of every stage with float64, on inputs of a seed of its own."""
        self.seed += 1
        argv = ["check", workload, "--device", self.device, "--preset", preset, "--seed", str(self.seed), "--format", "json", *extra, *self.settings(workload, *sets)]
        return self.verb(name, *argv, stdout=f"checks/{name}.json")

    def run(self, folder, name, workload, preset, *sets, seconds=5.0, energy=False, processes=1, **more):
        """A run of a workload. The energy pass takes seven seconds a process: it is left out where nothing needs it."""
        argv = ["run", workload, "--device", self.device, "--preset", preset, "--format", "table", "--force", "-o", str(self.args.out / folder / (name + ".json.gz"))]
        argv += ["--samples", "10", "--warmup", "2"] if self.dry else ["--min-time", f"{min(1, seconds / 2):g}s", "--max-time", f"{seconds:g}s"]
        argv += ([] if energy else ["--no-energy"]) + (["--runs", str(processes)] if processes > 1 else [])
        argv += self.settings(workload, *sets)
        (self.args.out / folder).mkdir(exist_ok=True)
        return self.verb(name, *argv, **more)

    def settings(self, workload, *sets):
        """The flags for these settings. In a dry run its small sizes stand in place of their like, but for those a sweep goes through."""
        swept = {s.partition("=")[0] for s in sets if "," in s}
        small = self.pick([], [s for s in SMALL[workload] if s.partition("=")[0] not in swept])
        chosen = {s.partition("=")[0]: s for s in (*sets, *small)}
        return [word for s in chosen.values() for word in ("--set", s)]

    def at_most(self, seconds):
        """That long, or what is left of the whole."""
        return max(1, min(seconds, self.left()))

    def ask(self, *argv):
        """What gpuprof prints; nothing where it does not answer."""
        try:
            return subprocess.run([self.gpuprof, *argv], capture_output=True, text=True, timeout=self.at_most(20), env={**os.environ, **self.env}).stdout
        except (OSError, subprocess.TimeoutExpired):
            return ""

    def lists(self, what, *of):
        try:
            return json.loads(self.ask("list", what, *of, "--format", "json"))[what]
        except (ValueError, KeyError, TypeError):
            return []

    def knobs(self, workload):
        """Names of a workload's knobs and what they accept, from the program itself."""
        return {k["name"]: k.get("accepts", "") for k in self.lists("knobs", workload)}

    def presets(self, workload):
        return next((w["presets"] for w in self.lists("workloads") if w["name"] == workload), [])

    def finds(self, library):
        """Whether gpuprof found that library, by its own doctor."""
        try:
            return any(c["name"] == library and c["state"] == "ok" for c in json.loads(self.ask("doctor", "--format", "json"))["checks"])
        except (ValueError, KeyError, TypeError):
            return False

    def choices(self, workload, knob, wanted):
        """Those of the wanted values that the knob of this build takes."""
        accepts = self.knobs(workload).get(knob, "").replace(",", " ").split()
        return [v for v in wanted if v in accepts]


def made(t, makers, wanted):
    """The wanted parts, all where none is named, each made when its turn comes. One that cannot be made loses itself alone."""
    for name, make in makers.items():
        if wanted and name not in wanted:
            continue
        try:
            part = make(t)
        except Exception as e:  # whatever it is, the other parts go on
            part = Part(name, 0, [], broken=f"it could not be made: {type(e).__name__}: {e}")
        yield part


def table(args, programs, wanted, left):
    """The parts of gpu-check. left() is how many seconds there are for everything."""
    t = Table(args, programs, left)
    (args.out / "checks").mkdir(exist_ok=True)
    makers = dict(zip(NAMES, (doctor, conformance, conformance_failure, kernels, workload_checks, bit_identity, measure, protocol, ceilings,
                              shapes, runs, peers, energy, null, traces, recorder, sweeps, peers_compiled, doctor_bench)))
    return made(t, makers, wanted)


def doctor(t):
    return t.part("doctor", 30, [t.verb("doctor", "doctor", "--format", "json", stdout="doctor.json"),
                                 t.verb("devices", "list", "devices", "--format", "json", stdout="devices.json"),
                                 t.verb("version", "version", stdout="version.txt")])


def conformance(t):
    return t.part("conformance", 60, [t.tests("suite", "cuda.test", "^TestConformance$", "internal/cuda", skip="TestConformance/.*/kernel_failure")])


def conformance_failure(t):
    # A kernel that dies takes the process's context with it: alone, in a process of its own.
    return t.part("conformance-failure", 25, [t.tests("kernel-failure", "cuda.test", "^TestConformance$/.*/^kernel_failure$", "internal/cuda")])


def kernels(t):
    return t.part("kernels", t.pick(75, 150), [t.tests("op", "op.test", "^TestCUDA", "workloads/op", skip="" if not t.dry else "PresetShapes|TensorProduct|Modes|Candidates|Segments")])


# What `pass` computes beside the forward pass, with what is kept and what is made again. A whole step in float64 takes
# the host ten seconds at the sizes of small; a quarter of them has every kernel and every border.
TRAINING = {"e3nn": [("forces", "pass=forces"), ("train", "pass=train", "batch=128"), ("train-again", "pass=train", "recompute=all", "batch=128"),
                     ("train-forces", "pass=train-forces", "batch=64")],
            "gruflow": [("train", "pass=train", "flows=66"), ("train-bf16", "pass=train", "precision=bf16", "flows=66"), ("train-again", "pass=train", "checkpoint=3", "flows=66", "depth=10")]}
CHOICES = {"gridsim": {"impl": ["fused", "gemm", "split"], "precision": ["tf32", "bf16", "fp16"], "law": ["diffuse", "walk"]},
           "serving": {"impl": ["cudnn", "implicit", "im2col", "direct"], "layout": ["nchw"], "bn": ["fused", "apart"], "precision": ["tf32", "bf16", "fp16", "int8"],
                       "preprocess": ["device"]}}


def workload_checks(t):
    data = t.args.bundle / "data"
    out = [t.check(f"e3nn-{impl.replace('+', '-')}", "e3nn", f"impl={impl}")
           for impl in t.choices("e3nn", "impl", ["csr", "fused", "unfused", "csr+mlp"])]
    for workload in ("e3nn", "gruflow"):
        out += [t.check(f"{workload}-{p}", workload, f"precision={p}") for p in t.choices(workload, "precision", ["tf32", "tf32x3", "bf16", "fp16"])]
    # Without cuDNN there is nothing to check of it; the part doctor says that it is missing.
    impls = ["plain", "fused", "persistent"] + (["cudnn"] if t.device != "host" and t.finds("cuDNN") else [])
    out += [t.check(f"gruflow-{impl}", "gruflow", f"impl={impl}") for impl in t.choices("gruflow", "impl", impls)]
    out.append(t.check("collate", "collate"))
    # The ways back, and what makes values again for them.
    for workload, passes in TRAINING.items():
        for name, *sets in passes:
            out.append(t.check(f"{workload}-{name}", workload, *sets))
    # csr+mlp makes its weights on the tensor cores, at the presets that have a kernel of it.
    if t.choices("e3nn", "impl", ["csr+mlp"]):
        for p, preset in t.pick([("tf32x3", "mace-large"), ("tf32x3", "deepaw"), ("tf32", "mace-large")], [("tf32x3", "small"), ("tf32", "small")]):
            out.append(t.check(f"e3nn-csr-mlp-{p}-{preset}", "e3nn", "impl=csr+mlp", f"precision={p}", *t.pick(["edges=4000"], []), preset=preset))
    # The generated products have presets of their own; their first edges are enough here.
    for preset in t.pick(["mace-medium", "deepaw"], []):
        out.append(t.check(f"e3nn-{preset}", "e3nn", "edges=4000", preset=preset))
    for workload in ("gridsim", "serving"):
        for knob, wanted in CHOICES[workload].items():
            wanted = [v for v in wanted if v != "cudnn" or t.device != "host" and t.finds("cuDNN")]
            out += [t.check(f"{workload}-{knob}-{v}", workload, f"{knob}={v}") for v in t.choices(workload, knob, wanted)]
    for workload in ("e3nn", "gruflow"):
        out.append(t.verb(f"{workload}-vectors", "check", workload, "--device", t.device, "--vectors", str(data / f"{workload}-vectors.json"), "--format", "json",
                          stdout=f"checks/{workload}-vectors.json"))
    return t.part("workload-checks", t.pick(75, 150), out)


def bit_identity(t):
    return t.part("bit-identity", 45, [t.gpucheck("csr", "TestHundredRunsAreBitIdentical")])


def measure(t):
    # Its other tests need the simulator's faults; this one follows GPUPROF_DEVICE.
    return t.part("measure", 40, [t.tests("device", "measure.test", "^TestOnDevice$", "internal/measure")])


def protocol(t):
    return t.part("protocol", 40, [t.gpucheck("protocol", "TestEventTick|TestSpinSlope|TestShortKernelSlopes|TestColdAndHot|TestOverheadLadder")])


def ceilings(t):
    return t.part("ceilings", 30, [t.gpucheck("rates", "TestCeilings|TestHostLink")])


def shapes(t):
    # cuDNN's training of deepbench's GRU is beside that of our own kernels, the run gruflow-deepbench-train.
    return t.part("shapes", 95, [t.gpucheck("products", "TestTensorProducts|TestScatter"), t.gpucheck("gemm", "TestGemmShapes"), t.gpucheck("gru", "TestGRUTraining")])


# The runs that others are compared with, the most wanted first. A new preset's reference costs about three seconds, its
# set-up, warm-up and ladder two more, so that seven leave some time for samples.
MAIN = ["e3nn-mace-large", "e3nn-deepaw", "gruflow-energyflow", "e3nn-mace-medium", "collate-deepaw", "e3nn-nequip-lips"]
# Training passes at presets, by the run's name. The reference of a whole step of training in float64 takes 16 cores of a
# host more than 45 s at full size: some of the edges, and 25 of 1,500 time steps, as in peers.py.
TRAINED = {"e3nn-mace-large-forces": ("e3nn", "mace-large", "pass=forces"), "e3nn-mace-large-train": ("e3nn", "mace-large", "pass=train", "edges=20000"),
           "gruflow-deepbench-train": ("gruflow", "deepbench", "pass=train", "steps=25")}
# What follows them: that the peers have too, so that a machine on which time runs out has both.
NEXT = list(TRAINED) + ["gruflow-deepbench", "serving-rxvision", "gridsim-aetheria", "gruflow-energyflow-own"]


def runs(t):
    """Every preset that the program lists: the main ones, those of peers, the others, and last what is made for machines without a GPU."""
    # A dry run judges no times, and a service whose sender is late on a busy machine is not complete.
    workloads = ("e3nn", "gruflow", "collate", "gridsim") + t.pick(("serving",), ())
    found = {f"{w}-{p}": (w, p) for w in workloads for p in t.presets(w) if p == "small" or not t.dry}
    found |= {name: way for name, way in TRAINED.items() if way[1] in t.presets(way[0])}
    # The GRU's products are cuBLAS's; our own kernels beside them.
    if "off" in t.choices("gruflow", "library", ["off"]):
        preset = t.pick("energyflow", "small")
        found[f"gruflow-{preset}-own"] = ("gruflow", preset, "library=off")
    out, first = [], MAIN + NEXT
    for name in sorted(found, key=lambda n: (n.endswith("-small"), first.index(n) if n in first else len(first))):
        workload, preset, *sets = found[name]
        seconds = 6 if name in MAIN else 1.5 if preset == "small" else 4
        out.append(t.run("runs", name, workload, t.pick(preset, "small"), *sets, seconds=seconds, energy=name in MAIN, limit=45))
    return t.part("runs", t.pick(170, 120), out)


ASK_S = 60  # importing torch for the first time takes so long on a machine whose disk is slow


def python_lacks(t, *modules):
    """Why that python cannot measure the peers: a part's status and the reason, two empty texts where it can.

    Each question is asked once; only the last imports torch."""
    names = f"lacks = [m for m in {list(modules)!r} if u.find_spec(m) is None]"
    questions = [f"import importlib.util as u, sys; {names}; lacks and sys.exit('has no ' + ' and no '.join(lacks))"]
    if not t.dry:
        questions.append("import sys, torch; torch.cuda.is_available() or sys.exit('has a torch that sees no GPU')")
    for q in questions:
        if q not in t.asked:
            t.asked[q] = why_not(t, q)
        if t.asked[q][0]:
            return t.asked[q]
    return "", ""


def why_not(t, code):
    """Without its full time, no answer says something of the time and nothing of python."""
    python, seconds = t.args.python, t.at_most(ASK_S)
    try:
        out = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=seconds)
    except OSError as e:
        why = f"cannot be started ({e.strerror})"
    except subprocess.TimeoutExpired:
        if seconds < ASK_S:
            return "not-run", f"{python} had not answered after {seconds:.0f} s, and no more were left"
        why = f"did not answer in {ASK_S} s"
    else:
        if out.returncode == 0:
            return "", ""
        why = (out.stderr.strip().splitlines() or [f"ended with {out.returncode}"])[-1]
    return "absent", f"{python} {why}; the peers are not measured"


def peers_py(t, name, *argv):
    here = pathlib.Path(__file__).parent
    return Command(name, [t.args.python, "-B", str(here / "peers.py"), "--out", str(t.args.out / "peers.jsonl"), *argv, *t.pick([], ["--device", "cpu", "--tiny", "--strict"])])


def peers(t):
    return t.part("peers", t.pick(110, 130), [peers_py(t, n, "--only", n) for n in ("gemm", "scatter", "gru", "tensor_product", "tensor_product_bwd", "training", "resnet", "grid", "packages")], ask=lambda: python_lacks(t, "torch"), least=15)


def energy(t):
    return t.part("energy", 30, [t.gpucheck("energy", "TestEnergyTwoToOne")], least=15 if not t.dry else 5)


def sweep_runs(t):
    out = []
    for workload, preset in (("e3nn", "deepaw"), ("gruflow", "energyflow")):
        values = t.choices(workload, "precision", ["fp32", "tf32", "tf32x3", "bf16", "fp16"])
        if values:
            out.append(t.run("sweeps", f"{workload}-{preset}-precision", workload, t.pick(preset, "small"), "precision=" + ",".join(values), seconds=2))
    # The fastest step that is as accurate as fp32, and the copy of its result beside the next one.
    sets = ["precision=" + ",".join(t.choices("e3nn", "precision", ["fp32", "tf32x3"])), "streams=" + ",".join(t.choices("e3nn", "streams", ["2", "3"]))]
    if not any(s.endswith("=") for s in sets):
        out.append(t.run("sweeps", "e3nn-mace-large-streams", "e3nn", t.pick("mace-large", "small"), *sets, seconds=2))
    # The same with the weights made inside the product: neither written nor read, the second layer on the tensor cores.
    if t.choices("e3nn", "impl", ["csr+mlp"]):
        for p, preset in t.pick([("tf32x3", "mace-large"), ("tf32x3", "deepaw"), ("tf32", "mace-large")], [("tf32x3", "small"), ("tf32", "small")]):
            out.append(t.run("sweeps", f"e3nn-{preset}-weights-inside-{p}", "e3nn", preset, "impl=csr,csr+mlp", f"precision={p}", seconds=2))
    for preset, batches in (("deepaw", "750,1500,3000,6000"), ("mace-medium", "250,500,1000")):
        out.append(t.run("sweeps", f"e3nn-{preset}-batch", "e3nn", t.pick(preset, "small"), "batch=" + t.pick(batches, "2,4"), seconds=2))
    return out


def sweeps(t):
    return t.part("sweeps", t.pick(75, 110), sweep_runs(t), least=10)


# A step that the GPU bounds: on an H100 mace-large takes 4.9 ms there and 2.1 ms of the one host thread that makes its
# batches. mace-medium's 2.2 ms are that thread's, and follow the noise of a virtual machine's processor by 30 %.
DEVICE_BOUND = "mace-large"


def null(t):
    """The same run again and again, each in a process of its own: an A/A comparison."""
    n = t.pick(12, 2)
    return t.part("null", 60, [t.run("null", f"{i:02d}", "e3nn", t.pick(DEVICE_BOUND, "small"), seconds=2.5) for i in range(n)], least=15)


def traces(t):
    here = pathlib.Path(__file__).parent
    record = Command("record", [t.args.python, "-B", str(here / "traces.py"), "--out", str(t.args.out / "traces"), *t.pick([], ["--device", "cpu", "--tiny"])],
                     limit=t.pick(60, 120))
    analyse = Command("analyse", [t.args.python, "-B", str(here / "traces.py"), "--analyse", t.gpuprof, "--out", str(t.args.out / "traces")])
    return t.part("traces", t.pick(75, 150), [record, analyse], ask=lambda: python_lacks(t, "torch"), least=20)


def cupti_lacks(t):
    """Why the recorder cannot be checked: a part's status and gpuprof doctor's reason, two empty texts where it can."""
    if t.dry:
        return "", ""  # the stand-in is built for it
    try:
        line = next(c for c in json.loads(t.ask("doctor", "--format", "json"))["checks"] if c["name"] == "cupti")
    except (ValueError, KeyError, TypeError, StopIteration):
        return "absent", "gpuprof doctor did not say which libcupti there is; the recorder is not checked"
    if line["state"] == "ok":
        return "", ""
    return "absent", f"{line.get('found') or 'no libcupti'}: {line.get('reason', '')}; {line.get('fix', '')}; the recorder is not checked"


def recorder(t):
    env = {"GPUPROF_CHECK_PROGRAM": t.gpuprof, "GPUPROF_CHECK_PYTHON": t.args.python, "GPUPROF_CHECK_TORCH": str(pathlib.Path(__file__).parent / "recorder_torch.py"),
           "GPUPROF_CHECK_JAX": str(pathlib.Path(__file__).parent / "recorder_jax.py")}
    # A window that never comes must not take the others' time.
    commands = [t.gpucheck(name, pattern) for name, pattern in (("counts", "TestRecorderCounts"), ("graphs", "TestRecorderGraphs"), ("cost", "TestRecorderCost"), ("torch", "TestRecorderTorch"), ("jax", "TestRecorderJAX"))]
    for c in commands:
        c.env, c.limit = env, t.pick(60 if c.name in ("torch", "jax") else 30, 90)  # each is imported three times
    return t.part("recorder", t.pick(120, 150), commands, ask=lambda: cupti_lacks(t), least=15)


def peers_compiled(t):
    return t.part("peers-compiled", 60, [peers_py(t, "compiled", "--only", "compiled")], ask=lambda: python_lacks(t, "torch", "e3nn"),
                  absent=t.pick("", "torch.compile is left out of dry runs"), least=30)


def doctor_bench(t):
    absent = "" if "--bench" in t.ask("doctor", "--help") else "this build's doctor has no --bench"
    if t.dry:
        absent = absent or "it refuses a simulated driver"
    return t.part("doctor-bench", 80, [t.verb("bench", "doctor", "--bench", "--format", "json", stdout="doctor-bench.json")], absent=absent, least=70)
