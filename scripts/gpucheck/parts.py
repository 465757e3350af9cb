"""The parts of gpu-check in order of value: what each runs and how long it may take."""
import json
import pathlib
import subprocess

from plan import Command, Part, Table, made

# The parts in their order, with their seconds on an H200 (virtual machine, 16 cores). First what nothing else is worth
# anything without, then what a figure is missing of, last what was measured most often. docs/gpu-check.md says which of
# these seconds were measured, and test_gpucheck.py that they add up to less than the budget.
SECONDS = {"doctor": 1, "conformance": 2, "conformance-failure": 1, "kernels": 18, "workload-checks": 45, "recorder": 65, "ceilings": 6, "shapes": 55,
           "runs": 189, "peers": 97, "sweeps": 78, "peers-compiled": 60, "bit-identity": 17, "measure": 5, "protocol": 3, "energy": 11, "null": 21, "traces": 32,
           "presets": 40}
NAMES = list(SECONDS)

def table(args, programs, wanted, left):
    """The parts of gpu-check. left() is how many seconds there are for everything."""
    t = Table(args, programs, left)
    (args.out / "checks").mkdir(exist_ok=True)
    makers = (doctor, conformance, conformance_failure, kernels, workload_checks, recorder, ceilings, shapes, runs, peers, sweeps, peers_compiled,
              bit_identity, measure, protocol, energy, null, traces, presets)
    return made(t, dict(zip(NAMES, makers)), wanted)

def doctor(t):
    return t.part("doctor", 30, [t.verb("doctor", "doctor", "--format", "json", stdout="doctor.json"),
                                 t.verb("devices", "list", "devices", "--format", "json", stdout="devices.json"),
                                 t.verb("version", "version", stdout="version.txt")])

def conformance(t):
    return t.part("conformance", 60, [t.tests("suite", "cuda.test", "^TestConformance$", "workloads/device/cuda", skip="TestConformance/.*/kernel_failure")])

def conformance_failure(t):
    # A kernel that dies takes the process's context with it: alone, in a process of its own.
    return t.part("conformance-failure", 25, [t.tests("kernel-failure", "cuda.test", "^TestConformance$/.*/^kernel_failure$", "workloads/device/cuda")])

def kernels(t):
    return t.part("kernels", t.pick(75, 150), [t.tests("op", "op.test", "^TestCUDA", "workloads/op", skip="" if not t.dry else "PresetShapes|TensorProduct|Modes|Candidates|Segments")])

# What `pass` computes beside the forward pass, with what is kept and what is made again. A whole step in float64 takes
# the host ten seconds at the sizes of small; a quarter of them has every kernel and every border.
TRAINING = {"e3nn": [("forces", "pass=forces"), ("train", "pass=train", "batch=128"), ("train-again", "pass=train", "recompute=all", "batch=128")],
            "gruflow": [("train", "pass=train", "flows=66"), ("train-bf16", "pass=train", "precision=bf16", "flows=66"), ("train-again", "pass=train", "checkpoint=3", "flows=66", "depth=10")]}
CHOICES = {"gridsim": {"impl": ["fused", "gemm", "split"], "precision": ["tf32", "bf16", "fp16"], "law": ["diffuse", "walk"]},
           "serving": {"impl": ["cudnn", "implicit", "im2col", "direct"], "layout": ["nchw"], "bn": ["fused", "apart"], "precision": ["tf32", "bf16", "fp16"],
                       "preprocess": ["device"]}}

def workload_checks(t):
    data = t.args.bundle / "data"
    out = [t.check(f"e3nn-{impl}", "e3nn", f"impl={impl}")
           for impl in t.choices("e3nn", "impl", ["csr", "fused", "unfused"])]
    for workload in ("e3nn", "gruflow"):
        out += [t.check(f"{workload}-{p}", workload, f"precision={p}") for p in t.choices(workload, "precision", ["tf32", "tf32x3", "bf16", "fp16"])]
    # Without cuDNN there is nothing to check of it; the part doctor says that it is missing.
    impls = ["plain", "fused"] + (["cudnn"] if t.device != "host" and t.finds("cuDNN") else [])
    out += [t.check(f"gruflow-{impl}", "gruflow", f"impl={impl}") for impl in t.choices("gruflow", "impl", impls)]
    out.append(t.check("collate", "collate"))
    # The ways back, and what makes values again for them.
    for workload, passes in TRAINING.items():
        for name, *sets in passes:
            out.append(t.check(f"{workload}-{name}", workload, *sets))
    # The generated products have presets of their own; their first edges are enough here.
    for preset in t.pick(["mace-medium", "deepaw"], []):
        out.append(t.check(f"e3nn-{preset}", "e3nn", "edges=4000", preset=preset))
    for workload in ("gridsim", "serving"):
        for knob, wanted in CHOICES[workload].items():
            wanted = [v for v in wanted if v != "cudnn" or t.device != "host" and t.finds("cuDNN")]
            out += [t.check(f"{workload}-{knob}-{v}", workload, f"{knob}={v}") for v in t.choices(workload, knob, wanted)]
    for workload in ("e3nn", "gruflow"):
        out.append(t.verb(f"{workload}-vectors", "run", "--check", workload, "--device", t.device, "--vectors", str(data / f"{workload}-vectors.json"), "--format", "json",
                          stdout=f"checks/{workload}-vectors.json"))
    for c in out:
        c.limit = t.pick(20, 0)
    return t.part("workload-checks", t.pick(90, 150), out)

def bit_identity(t):
    return t.part("bit-identity", 45, [t.gpucheck("csr", "TestHundredRunsAreBitIdentical")])

def measure(t):
    # Its other tests need the simulator's faults; this one follows GPUPROF_DEVICE.
    return t.part("measure", 40, [t.tests("device", "measure.test", "^TestOnDevice$", "workloads/measure")])

def protocol(t):
    return t.part("protocol", 40, [t.gpucheck("protocol", "TestEventTick|TestSpinSlope|TestShortKernelSlopes|TestColdAndHot|TestOverheadLadder")])

def ceilings(t):
    return t.part("ceilings", 30, [t.gpucheck("rates", "TestCeilings|TestHostLink")])

def shapes(t):
    return t.part("shapes", 95, [t.gpucheck("products", "TestTensorProducts|TestScatter"), t.gpucheck("gemm", "TestGemmShapes")])

# The runs that others are compared with. A new preset's reference costs about three seconds, its set-up, warm-up and
# ladder two more, so that six leave some time for samples. The energy pass takes seven more: where its steps differ.
MAIN = ["e3nn-deepaw", "e3nn-mace-large", "gruflow-energyflow", "e3nn-mace-medium", "collate-deepaw", "e3nn-nequip-lips"]
ENERGY = ["e3nn-mace-large", "gruflow-energyflow"]
# Training passes at presets, by the run's name. The reference of a whole step of training in float64 takes 16 cores of a
# host more than 45 s at full size: some of the edges, and 25 of 1,500 time steps, as in peers.py.
TRAINED = {"e3nn-mace-large-forces": ("e3nn", "mace-large", "pass=forces"), "e3nn-mace-large-train": ("e3nn", "mace-large", "pass=train", "edges=20000"),
           "gruflow-deepbench-train": ("gruflow", "deepbench", "pass=train", "steps=25")}
# No preset has these channels, so that the program makes the tensor product's kernels there, by NVRTC where it is found.
COMPILED = {"e3nn-nequip-lips-compiled": ("e3nn", "nequip-lips", "mul=24")}
# What peers have too, or has no figure yet, before the rest of the main ones.
NEXT = [MAIN[0], *TRAINED, "serving-rxvision", "gridsim-aetheria", *COMPILED, "gruflow-energyflow-own", "gruflow-deepbench"]

def found(t):
    """Every run by its name: the presets that the program lists, and those with settings of their own."""
    # A dry run judges no times, and a service whose sender is late on a busy machine is not complete.
    workloads = ("e3nn", "gruflow", "collate", "gridsim") + t.pick(("serving",), ())
    out = {f"{w}-{p}": (w, p) for w in workloads for p in t.presets(w) if p == "small" or not t.dry}
    out |= {name: way for name, way in {**TRAINED, **COMPILED}.items() if way[1] in t.presets(way[0])}
    # The GRU's products are cuBLAS's; our own kernels beside them.
    if "off" in t.choices("gruflow", "library", ["off"]):
        preset = t.pick("energyflow", "small")
        out[f"gruflow-{preset}-own"] = ("gruflow", preset, "library=off")
    return out

def ways(t, ways, seconds):
    out = []
    for name, (workload, preset, *sets) in ways.items():
        # deepbench takes 27 s, the service opens with a batch of every size
        out.append(t.run("runs", name, workload, t.pick(preset, "small"), *sets, seconds=6 if name in MAIN else seconds, energy=name in ENERGY, limit=t.pick(40, 45)))
    return out

def runs(t):
    """What is compared: the main presets, those that peers have too, training."""
    all = found(t)
    first = [*NEXT, *MAIN[1:], "gruflow-small-own"]
    return t.part("runs", t.pick(240, 120), ways(t, {name: all[name] for name in first if name in all}, 4), least=20 if not t.dry else 5)

def presets(t):
    """The other presets, and last what is made for machines without a GPU."""
    others = {name: way for name, way in found(t).items() if name not in [*NEXT, *MAIN, "gruflow-small-own"]}
    order = sorted(others, key=lambda name: name.endswith("-small"))
    return t.part("presets", t.pick(60, 120), ways(t, {name: others[name] for name in order}, 1))

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

# The peers in their order, with seconds on an H200 for which one that hangs is waited: about twice what they take, and for
# packages, which build kernels when they are first called, what the others leave.
PEERS = {"resnet": 30, "training": 30, "grid": 15, "tensor_product": 25, "tensor_product_bwd": 20, "gru": 20, "packages": 60, "gemm": 15, "scatter": 25}

def peers(t):
    commands = [peers_py(t, n, "--only", n) for n in PEERS] + [serving_turns(t)]
    for c in commands:
        c.limit = t.pick(PEERS.get(c.name, 45), 0)
    return t.part("peers", t.pick(150, 150), commands, ask=lambda: python_lacks(t, "torch"), least=15)

def serving_turns(t):
    """The service's network and PyTorch's forms of it in turns; the table is in the log."""
    here = pathlib.Path(__file__).parent
    script = next(p for p in (here / "peer_serving.py", here.parent / "peer" / "peer_serving.py") if p.exists())
    sizes = t.pick(["--device", "cuda", "--preset", "rxvision", "--rounds", "6", "--steps", "10"], ["--device", "cpu", "--preset", "small", "--batch", "2", "--rounds", "1", "--steps", "1"])
    return Command("serving-turns", [t.args.python, "-B", str(script), "--binary", str(t.bin / "peerserving.test"), *sizes])

def energy(t):
    return t.part("energy", 30, [t.gpucheck("energy", "TestEnergyTwoToOne")], least=15 if not t.dry else 5)

def swept(t, workload, preset, knob, values, *sets):
    """A sweep over those of the values that the knob of this build takes; none where it takes one at most."""
    values = t.choices(workload, knob, values)
    return [t.run("sweeps", f"{workload}-{preset}-{knob}", workload, t.pick(preset, "small"), f"{knob}=" + ",".join(values), *sets, seconds=2)] if len(values) > 1 else []

def sweeps(t):
    """What has no figure yet first: launches one by one and as graphs."""
    out = swept(t, "e3nn", "mace-large", "graph", ["off", "on"]) + swept(t, "gruflow", "energyflow", "graph", ["off", "on"])
    # The fastest step that is as accurate as fp32, and the copy of its result beside the next one.
    precise = t.choices("e3nn", "precision", ["fp32", "tf32x3"])
    out += swept(t, "e3nn", "mace-large", "streams", ["2", "3"], *(["precision=" + ",".join(precise)] if precise else []))
    out += swept(t, "gruflow", "energyflow", "precision", ["fp32", "tf32", "bf16"])  # those of the peer
    return t.part("sweeps", 100, out, least=10)

def size_sweeps(t):
    """Those of gpu-record."""
    out = swept(t, "e3nn", "deepaw", "precision", ["fp32", "tf32", "tf32x3", "bf16", "fp16"]) + swept(t, "gruflow", "energyflow", "precision", ["fp32", "tf32", "tf32x3", "bf16", "fp16"])
    for preset, batches in (("deepaw", "750,1500,3000,6000"), ("mace-medium", "250,500,1000")):
        out.append(t.run("sweeps", f"e3nn-{preset}-batch", "e3nn", t.pick(preset, "small"), "batch=" + t.pick(batches, "2,4"), seconds=2))
    return out

# A step that the GPU bounds: on an H100 mace-large takes 4.9 ms there and 2.1 ms of the one host thread that makes its
# batches. mace-medium's 2.2 ms are that thread's, and follow the noise of a virtual machine's processor by 30 %.
DEVICE_BOUND = "mace-large"

def null(t):
    """The same run again and again, each in a process of its own: an A/A comparison."""
    n = t.pick(6, 2)  # three pairs, of which the summary takes the median
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
    commands = [t.gpucheck(name, pattern) for name, pattern in (("torch", "TestRecorderTorch"), ("counts", "TestRecorderCounts"), ("graphs", "TestRecorderGraphs"), ("cost", "TestRecorderCost"), ("jax", "TestRecorderJAX"))]
    for c in commands:
        c.env, c.limit = env, t.pick(75 if c.name in ("torch", "jax") else 30, 90)  # torch is imported five times
    return t.part("recorder", t.pick(140, 150), commands, ask=lambda: cupti_lacks(t), least=15)

def peers_compiled(t):
    return t.part("peers-compiled", 65, [peers_py(t, "compiled", "--only", "compiled")], ask=lambda: python_lacks(t, "torch", "e3nn"),
                  absent=t.pick("", "torch.compile is left out of dry runs"), least=30)

def doctor_bench(t):
    absent = "" if "--bench" in t.ask("doctor", "--help") else "this build's doctor has no --bench"
    if t.dry:
        absent = absent or "it refuses a simulated driver"
    return t.part("doctor-bench", 80, [t.verb("bench", "doctor", "--bench", "--format", "json", stdout="doctor-bench.json")], absent=absent, least=70)
