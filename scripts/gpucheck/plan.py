"""How parts are made: their commands, for a GPU or, dry, for a machine without."""
import dataclasses
import json
import os
import pathlib
import random
import subprocess
import typing


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
        return self.tests(name, "gpucheck.test", f"^({pattern})$", "workloads/gpucheck")

    # -- gpuprof

    def verb(self, name, *argv, stdout="", **more):
        return Command(name, [self.gpuprof, "--quiet", *argv], stdout=stdout, **more)

    def check(self, name, workload, *sets, preset="small", extra=()):
        """A comparison of every stage with float64, on inputs of a seed of its own."""
        self.seed += 1
        argv = ["run", "--check", workload, "--device", self.device, "--preset", preset, "--seed", str(self.seed), "--format", "json", *extra, *self.settings(workload, *sets)]
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
