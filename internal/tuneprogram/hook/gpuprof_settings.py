"""How each setting is applied, and what the program does that decides which settings make sense.

A setting is a key of config.json's "settings"; without its key a wrapper only counts. Each one that took
hold is counted in hook.applied, and each that could not is in hook.refused with its reason. Most
can be switched between two steps (gpuprof_blocks.py): what the program asked for comes back when such a setting is off.
"""

import functools
import gc
import importlib
import inspect
import os
import sys

LOADER_KEYS = ("num_workers", "persistent_workers", "prefetch_factor", "pin_memory")
# DataLoader raises for these where there are no workers.
NEED_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")


class Settings:
    def __init__(self, hook, removable):
        self.hook = hook
        self.torch = hook.torch
        self.set = hook.set
        self.removable = removable
        self.device = "cpu"
        self.undo_call = None
        self.switches = []  # each puts a flag in the state that the settings and the program ask for
        self.own = {}  # id of a parameter group -> its own foreach and fused
        cuda = getattr(self.torch, "cuda", None)
        self.wait = getattr(cuda, "synchronize", lambda: None)

    def all(self):
        """The parts that install wrappers, with names for messages."""
        return (
            ("calls", self.calls), ("loader", self.loader), ("flags", self.flags), ("optimizer", self.optimizer),
            ("zero_grad", self.zero_grad), ("model", self.model),
        )

    def switch(self, settings):
        """Applies other settings from the next step on."""
        self.set = settings
        for apply in self.switches:
            apply()

    # -- calls that can be removed -----------------------------------------------

    def calls(self):
        for full in self.removable:
            *path, name = full.split(".")
            owner = gc if path == ["gc"] else functools.reduce(lambda o, p: getattr(o, p, None), path[1:], self.torch)
            if owner is not None and hasattr(owner, name):
                self.wrap_call(owner, name, full)

    def wrap_call(self, owner, name, full):
        """Counts the calls from outside PyTorch by place, and leaves them out where that is asked for."""
        hook, original = self.hook, getattr(owner, name)
        sites = hook.seen["calls"].setdefault(full, {})
        inside = os.path.dirname(os.path.abspath(getattr(self.torch, "__file__", None) or "/nowhere"))

        @functools.wraps(original)
        def counted(*args, **kwargs):
            code = sys._getframe(1)
            path = os.path.abspath(code.f_code.co_filename)
            if path.startswith(inside + os.sep):
                return original(*args, **kwargs)
            at = "%s:%d" % (os.path.relpath(path) if path.startswith(os.getcwd()) else path, code.f_lineno)
            if hook.borders > 0 and (at in sites or len(sites) < 20):
                sites[at] = sites.get(at, 0) + 1
            if full not in self.set.get("remove", ()):
                return original(*args, **kwargs)
            hook.took("remove " + full)
            return 0 if full == "gc.collect" else None

        setattr(owner, name, counted)

    # -- loader ---------------------------------------------------------------

    def loader(self):
        hook, cls = self.hook, self.torch.utils.data.DataLoader
        keys = [k for k in LOADER_KEYS if k in self.set]
        original, iterate = cls.__init__, cls.__iter__
        signature = inspect.signature(original)

        @functools.wraps(original)
        def __init__(loader, *args, **kwargs):
            if os.getpid() != hook.pid:
                return original(loader, *args, **kwargs)
            given = signature.bind(loader, *args, **kwargs)
            before = {k: given.arguments.get(k) for k in LOADER_KEYS}
            if keys and change(given.arguments, keys, self.set):
                try:
                    original(*given.args, **given.kwargs)
                    hook.took("loader")
                except Exception as e:
                    hook.refused["loader"] = "%s: %s" % (type(e).__name__, str(e)[:300])
                    loader.__dict__.clear()
                    original(loader, *args, **kwargs)
            else:
                original(loader, *args, **kwargs)
            hook.guarded("loaders", self.note_loader, loader, before)

        @functools.wraps(iterate)
        def __iter__(loader):
            if os.getpid() == hook.pid and len(hook.seen["epochs"]) < 1000:
                hook.seen["epochs"].append([loader.__dict__.get("_gpuprof_number", -1), hook.borders])
            return iterate(loader)

        cls.__init__, cls.__iter__ = __init__, __iter__
        if self.set.get("persistent_workers"):
            self.keep_draws()

    def note_loader(self, loader, before):
        loaders = self.hook.seen["loaders"]
        if len(loaders) >= 20:
            return
        batch = getattr(loader, "batch_size", None)
        if isinstance(batch, int) and not self.hook.batch:
            self.hook.batch = batch
        stream = isinstance(getattr(loader, "dataset", None), self.torch.utils.data.IterableDataset)
        loader.__dict__["_gpuprof_number"] = len(loaders)
        before = {k: v if isinstance(v, (int, bool)) or v is None else str(v) for k, v in before.items()}
        loaders.append(dict(before, type=type(loader).__name__, stream=stream))

    def keep_draws(self):
        """Persistent workers draw no base seed at the start of an epoch, as new ones do.

        Without this draw every shuffle and dropout from the second epoch on is another one.
        """
        torch = self.torch
        cls = torch.utils.data.dataloader._MultiProcessingDataLoaderIter
        original = cls._reset

        def _reset(iterator, loader, first_iter=False):
            if not first_iter:
                torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
            return original(iterator, loader, first_iter)

        cls._reset = _reset

    # -- flags ----------------------------------------------------------------

    def flags(self):
        torch = self.torch
        anomaly = getattr(torch, "is_anomaly_enabled", lambda: False)
        self.overrule(torch, "set_num_threads", torch.get_num_threads, "threads")
        self.overrule(torch, "set_anomaly_enabled", anomaly, "anomaly_off", False)
        mode = getattr(torch.autograd, "anomaly_mode", None)  # its classes may have taken the function by name
        if hasattr(mode, "set_anomaly_enabled"):
            mode.set_anomaly_enabled = torch.set_anomaly_enabled
        self.overrule(torch, "use_deterministic_algorithms", torch.are_deterministic_algorithms_enabled, "deterministic_off", False)
        self.overrule(torch._C, "_set_mkldnn_enabled", torch._C._get_mkldnn_enabled, "mkldnn_on", True)
        if hasattr(torch, "set_float32_matmul_precision"):
            self.overrule(torch, "set_float32_matmul_precision", torch.get_float32_matmul_precision, "tf32", "high")
        self.assign(torch.backends.cudnn, "allow_tf32", "tf32")
        self.assign(torch.backends.cudnn, "benchmark", "cudnn_benchmark")
        if self.set.get("flush_denormal") and torch.set_flush_denormal(True):
            self.hook.took("flush_denormal")

    def overrule(self, owner, name, state, setting, value=None):
        """Has a function set the value of a setting while that is on, and what the program asked for while it is off.

        Without `value` the setting has it.
        """
        hook, original, asked = self.hook, getattr(owner, name), {}

        def wanted():
            return self.set[setting] if value is None else value

        @functools.wraps(original)
        def overruled(mode, *args, **kwargs):
            asked["args"], asked["kwargs"] = (mode, *args), kwargs
            if not self.set.get(setting):
                return original(mode, *args, **kwargs)
            if mode != wanted():
                hook.took(setting)
            return original(wanted(), *args, **kwargs)

        def apply():
            now = state() if asked or self.set.get(setting) else None
            if self.set.get(setting):
                asked.setdefault("args", (now,))
                if now != wanted():
                    hook.took(setting)
                    original(wanted())
            elif asked and now != asked["args"][0]:
                original(*asked["args"], **asked.get("kwargs", {}))

        setattr(owner, name, overruled)
        self.switches.append(apply)
        apply()

    def assign(self, owner, name, setting):
        """The same for an attribute that is True while the setting is on."""
        asked = []

        def apply():
            if self.set.get(setting) and not asked:
                asked.append(getattr(owner, name, False))
                setattr(owner, name, True)
                self.hook.took(setting)
            elif not self.set.get(setting) and asked:
                setattr(owner, name, asked.pop())

        self.switches.append(apply)
        apply()

    # -- optimizer --------------------------------------------------------------

    def optimizer(self):
        hook, torch = self.hook, self.torch
        seen = set()

        def before_step(optimizer, *_):
            if os.getpid() != hook.pid or hook.done:
                return
            if id(optimizer) not in seen:
                seen.add(id(optimizer))
                hook.guarded("optimizers", self.note_optimizer, optimizer)
            want = implementation(self.set)
            if want or self.own:
                for group in optimizer.param_groups:
                    self.implement(optimizer, group, want)

        importlib.import_module("torch.optim.optimizer").register_optimizer_step_pre_hook(before_step)

    def implement(self, optimizer, group, want):
        """Before every step: load_state_dict brings the saved values back."""
        if not want:
            group.update(self.own.pop(id(group), {}))
            return
        for k, v in want.items():
            if k not in group:
                self.hook.refused[k] = "%s has no %s" % (type(optimizer).__name__, k)
            elif group[k] is not v:
                self.own.setdefault(id(group), {}).setdefault(k, group[k])
                group[k] = v
                self.hook.took(k)

    def note_optimizer(self, optimizer):
        seen = self.hook.seen
        groups, tensors = optimizer.param_groups, 0
        for group in groups:
            for p in group["params"]:
                tensors += 1
                self.device = str(getattr(getattr(p, "device", None), "type", "cpu"))
                if p.dim() == 4:
                    seen["four_dimensional"] = True
        if len(seen["optimizers"]) < 20:
            flag = {k: groups[0][k] if groups and k in groups[0] else "absent" for k in ("foreach", "fused")}
            sparse = any(getattr(p.grad, "is_sparse", False) for g in groups for p in g["params"])
            seen["optimizers"].append(dict(flag, type=type(optimizer).__name__, tensors=tensors, sparse=sparse))

    def zero_grad(self):
        for owner in (self.torch.optim.Optimizer, self.torch.nn.Module):
            self.wrap_zero_grad(owner)

    def wrap_zero_grad(self, owner):
        hook, original = self.hook, owner.zero_grad

        @functools.wraps(original)
        def zero_grad(obj, set_to_none=True):
            if not set_to_none and os.getpid() == hook.pid:
                hook.seen["keep_grads"] += 1
                if self.set.get("set_to_none"):
                    hook.took("set_to_none")
                    set_to_none = True
            return original(obj, set_to_none=set_to_none)

        owner.zero_grad = zero_grad

    # -- model --------------------------------------------------------------------

    def model(self):
        """Finds the outermost modules with parameters by a class-wide __call__ that goes when training has begun.

        What is applied is put into the instance's _compiled_call_impl: the class and the keys of state_dict
        stay, and pickle and deepcopy leave it out.
        """
        hook, cls = self.hook, self.torch.nn.Module
        original, state, seen = cls.__call__, {"depth": 0}, set()

        def call(module, *args, **kwargs):
            if state["depth"] == 0 and id(module) not in seen and os.getpid() == hook.pid:
                seen.add(id(module))
                hook.guarded("model", self.dress, module)
            state["depth"] += 1
            try:
                return original(module, *args, **kwargs)
            finally:
                state["depth"] -= 1

        def undo():
            if cls.__call__ is call:
                cls.__call__ = original

        cls.__call__, self.undo_call = call, undo

    def training_began(self):
        if self.undo_call is not None:
            self.hook.guarded("model", self.undo_call)

    def dress(self, module):
        hook, torch, s = self.hook, self.torch, self.set
        if not any(True for _ in module.parameters()):
            return
        name = type(module).__name__
        if len(hook.seen["modules"]) < 20:
            hook.seen["modules"].append(name)
        if not any(s.get(k) for k in ("compile", "autocast", "channels_last")):
            return
        if getattr(module, "_compiled_call_impl", None) is not None or name == "OptimizedModule":
            hook.refused["compile"] = "the program compiles " + name + " itself"
            return
        run = module._call_impl
        if s.get("channels_last"):
            module.to(memory_format=torch.channels_last)
            hook.took("channels_last")
        if s.get("compile"):
            run = torch.compile(run, mode=s["compile"])
            if s.get("fallback_random"):  # dropout draws as without compile: only to compare losses, it costs time
                importlib.import_module("torch._inductor.config").fallback_random = True
            hook.took("compile")
        if s.get("autocast") or s.get("channels_last"):
            run = self.casting(run, next(module.parameters()).device.type)
        if s.get("autocast"):
            hook.took("autocast")
        module._compiled_call_impl = run

    def casting(self, inner, device):
        torch, cast, last = self.torch, self.set.get("autocast"), self.set.get("channels_last")

        def layout(a):
            return a.contiguous(memory_format=torch.channels_last) if torch.is_tensor(a) and a.dim() == 4 else a

        def run(*args, **kwargs):
            if last:
                args = tuple(layout(a) for a in args)
            if not cast:
                return inner(*args, **kwargs)
            with torch.autocast(device, dtype=torch.bfloat16):
                out = inner(*args, **kwargs)
            # The program computes the loss outside, in the precision that it expects.
            return out.float() if torch.is_tensor(out) and out.dtype == torch.bfloat16 else out

        return run

    # -- what the program does ----------------------------------------------------

    def look(self, seen):
        """The state of PyTorch when the measured steps are over."""
        torch, s = self.torch, self.set
        seen["threads"] = torch.get_num_threads()
        seen["deterministic"] = bool(torch.are_deterministic_algorithms_enabled())
        seen["mkldnn"] = bool(torch._C._get_mkldnn_enabled())
        cudnn = torch.backends.cudnn
        seen["cudnn_benchmark"] = bool(cudnn.benchmark)
        seen["tf32"] = torch.get_float32_matmul_precision() != "highest"
        seen["transformers"] = "transformers" in sys.modules
        if self.device == "cpu":
            seen["subnormal"] = self.subnormal()
        if s.get("compile"):
            counters = sys.modules["torch._dynamo.utils"].counters
            seen["graph_breaks"] = sum(counters["graph_break"].values())
            seen["graphs"] = counters["stats"].get("unique_graphs", 0)

    def subnormal(self):
        """The share of subnormal values, with which a CPU computes many times slower."""
        torch, found, total = self.torch, 0, 0
        for group in self.hook.optimizer.param_groups:
            for p in group["params"]:
                state = self.hook.optimizer.state.get(p, {}).values()
                for t in (p, p.grad, *state):
                    if torch.is_tensor(t) and t.is_floating_point() and not t.is_sparse:
                        v = t.detach().flatten()[:100000].abs()
                        total += v.numel()
                        found += int(((v > 0) & (v < torch.finfo(v.dtype).tiny)).sum())
        return found / max(total, 1)


def implementation(settings):
    """The values of an optimizer's groups for a setting: one implementation excludes the other."""
    want = {k: settings[k] for k in ("foreach", "fused") if k in settings}
    if want.get("fused"):
        want["foreach"] = False
    elif want.get("foreach"):
        want["fused"] = False
    return want


def change(arguments, keys, values):
    """Puts settings into the arguments of a DataLoader; False where nothing differs."""
    before = dict(arguments)
    for k in keys:
        arguments[k] = values[k]
    if not arguments.get("num_workers"):
        for k in NEED_WORKERS:
            arguments.pop(k, None)
    return before != arguments
