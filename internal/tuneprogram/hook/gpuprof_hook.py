"""Applies settings to a PyTorch program, times its steps, keeps its losses and ends it.

Loaded after `import torch` by the sitecustomize of gpuprof's recorder. config.json beside it has the
settings (settings.go lists them), how many steps are left out and measured, and where the result goes.
The same calls are wrapped with and without settings, so that both sides of a comparison pay for them.
Nothing here draws random numbers, and a failure inside it is noted and kept from the program.
"""

import atexit
import functools
import importlib
import json
import os
import sys
import time

folder = os.path.dirname(os.path.abspath(__file__))
# Calls that cost time and change nothing in the training: each may be removed.
REMOVABLE = (
    "gc.collect",
    "torch.cuda.synchronize",
    "torch.cuda.empty_cache",
    "torch.cuda.reset_peak_memory_stats",
)


def part(name):
    """Another module of the hook, by its file and outside sys.modules."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("_" + name, os.path.join(folder, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def worker():
    """Whether this process was started by multiprocessing: it gets no settings and makes no steps."""
    return any("multiprocessing" in word for word in getattr(sys, "orig_argv", sys.argv))


class Hook:
    def __init__(self, torch):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
            self.config = json.load(f)
        self.torch = torch
        self.set = self.config["settings"]
        self.pid = os.getpid()
        self.began = time.perf_counter()
        self.anchor = None  # the optimizer whose steps count
        self.borders = 0
        self.first = self.start = self.cpu = self.last = 0.0
        self.window = [0.0, 0.0]  # begin and end of the measured steps, seconds since 1970
        self.longest = 0.0
        self.done = False
        self.blocks = None  # settings that are switched within this process
        self.batch = 0  # of the first loader that has one
        self.losses = []
        self.applied = {}  # setting -> how often it took hold
        self.refused = {}  # setting -> why it did not
        self.seen = {
            "loaders": [], "epochs": [], "optimizers": [], "calls": {}, "keep_grads": 0, "anomaly": 0,
            "modules": [], "four_dimensional": False,
        }

    def took(self, name):
        self.applied[name] = self.applied.get(name, 0) + 1

    def guarded(self, what, function, *args):
        """A failure of the hook's own becomes a note in the result."""
        try:
            return function(*args)
        except Exception as e:
            self.refused[what] = "%s: %s" % (type(e).__name__, str(e)[:300])
            return None

    # -- what is measured ------------------------------------------------------

    def keep_losses(self):
        torch, autograd = self.torch, self.torch.autograd
        original = autograd.backward

        @functools.wraps(original)
        def backward(tensors, *args, **kwargs):
            if not self.done and os.getpid() == self.pid:
                self.guarded("losses", self.keep, tensors)
            return original(tensors, *args, **kwargs)

        autograd.backward = backward
        self.anomaly_enabled = getattr(torch, "is_anomaly_enabled", lambda: False)

    def keep(self, tensors):
        if self.anomaly_enabled():
            self.seen["anomaly"] += 1
        if len(self.losses) >= self.config["losses"]:
            return
        for t in (tensors,) if hasattr(tensors, "detach") else tensors:
            if t.numel() == 1:
                # A copy without a wait: `loss /= k` of the program must not change it.
                self.losses.append(t.detach().clone())

    def step(self, optimizer):
        """A border between two steps."""
        if self.done or os.getpid() != self.pid:
            return
        if self.anchor is None:
            self.anchor, self.optimizer = id(optimizer), optimizer
            self.first = time.perf_counter()
        if id(optimizer) != self.anchor:
            return
        self.borders += 1
        warm, steps = self.config["warm"], self.config["steps"]
        if self.blocks is not None and self.borders > warm:
            self.last = time.perf_counter()
            if not self.blocks.border():
                self.finish(self.last)
            return
        at_border = self.borders in (warm, warm + steps)
        if self.borders == warm:
            self.guarded("began", self.note_began)
        if at_border:
            self.synchronize()
        now = time.perf_counter()
        if self.borders > warm:
            self.longest = max(self.longest, now - self.last)
        self.last = now
        if self.borders == warm:
            self.start, self.cpu = now, time.process_time()
            self.window[0] = time.time()
            self.settings.training_began()
            if self.blocks is not None and not self.blocks.advance():
                self.finish(now)
        elif self.borders == warm + steps:
            self.finish(now)

    def note_began(self):
        """Notes the time for a run that is stopped before its last step: each measured step then took a part of the rest."""
        with open(self.config["out"] + ".began", "w", encoding="utf-8") as f:
            f.write(repr(time.time()))

    def synchronize(self):
        cuda = getattr(self.torch, "cuda", None)
        if cuda is not None and cuda.is_initialized():
            self.settings.wait()

    def finish(self, now):
        """After the last measured step: writes the result and ends the program."""
        cpu, self.window[1] = time.process_time() - self.cpu, time.time()
        self.done = True
        self.guarded("result", self.write, self.borders - self.config["warm"], now - self.start, cpu, False)
        if self.config["end"]:
            end()

    def ended(self):
        """The program ended by itself, before the last step that was asked for."""
        if self.done or os.getpid() != self.pid or self.anchor is None:
            return
        steps = self.borders - self.config["warm"]
        self.done = True
        cpu = time.process_time() - self.cpu
        self.guarded("result", self.write, max(steps, 0), self.last - self.start if steps > 0 else 0.0, cpu, True)

    def write(self, steps, window, cpu, ended):
        self.guarded("state", self.settings.look, self.seen)
        result = {
            "steps": steps, "window_s": window, "cpu_s": cpu, "longest_step_s": self.longest,
            "startup_s": self.first - self.began, "losses": self.numbers(), "applied": self.applied,
            "refused": self.refused, "seen": self.seen, "memory_bytes": memory(self.torch), "ended": ended,
            "device": self.settings.device, "batch": self.batch,
            "window_at": self.window, "gpus": self.guarded("gpus", gpus, self.torch) or [],
            "blocks": self.blocks.result() if self.blocks is not None else [],
        }
        part = self.config["out"] + ".part"
        with open(part, "w", encoding="utf-8") as f:
            json.dump(result, f)
        os.replace(part, self.config["out"])

    def numbers(self):
        """The losses as text with every digit: JSON has no word for one that is not finite."""
        out = []
        for t in self.losses:
            v = t.item()
            out.append(float.hex(float(v)) if v == v and v not in (float("inf"), float("-inf")) else str(v))
        return out


def memory(torch):
    """The peak of this process in bytes: on the GPU where it uses one, else of the host."""
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_initialized():
        return int(cuda.max_memory_allocated())
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def gpus(torch):
    """The UUIDs of the GPUs on which this process has memory; "" for one that PyTorch does not report."""
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return []
    used = [i for i in range(cuda.device_count()) if cuda.max_memory_allocated(i) > 0]
    return [str(getattr(cuda.get_device_properties(i), "uuid", "")) for i in used]


def end():
    """Ends the process at once: no `finally` of the program overwrites a checkpoint with one of a few steps.

    Workers of a loader would notice the end only seconds later, so that they are killed first.
    """
    mp = sys.modules.get("multiprocessing")
    for child in mp.active_children() if mp else ():
        try:
            child.kill()
            child.join()
        except Exception:
            pass
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    os._exit(0)


def install(torch, here, waiter):
    if worker():
        return
    hook = Hook(torch)
    settings = part("gpuprof_settings")
    hook.settings = settings.Settings(hook, REMOVABLE)
    for what, function in hook.settings.all():
        hook.guarded(what, function)
    hook.guarded("losses", hook.keep_losses)
    if hook.config.get("blocks"):
        hook.blocks = part("gpuprof_blocks").Blocks(hook, hook.config["blocks"])
    atexit.register(hook.ended)

    def border(optimizer, *_):
        hook.step(optimizer)

    # torch.optim takes the module's name away once it has loaded it.
    importlib.import_module("torch.optim.optimizer").register_optimizer_step_post_hook(border)
