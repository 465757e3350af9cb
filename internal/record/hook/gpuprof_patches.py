"""The hooks that a program gets, and their removal."""

import atexit
import functools
import os
import sys
import weakref

tools = part("gpuprof_tools")  # noqa: F821, see part in gpuprof_hook


class Patches:
    """The part of the hook that waits for marks of steps and for the end of the process."""

    def install(self):
        torch = self.torch
        self.tell("torch", version=str(getattr(torch, "__version__", "unknown")), rank=self.rank(), argv=sys.argv[:1] if hasattr(sys, "argv") else [])
        optimizer = sys.modules.get("torch.optim.optimizer")
        if optimizer is not None:
            register = getattr(optimizer, "register_optimizer_step_post_hook", None)
            if register is not None:
                # It stays when the hook leaves, perhaps within the call of it: PyTorch goes through these hooks then.
                self.handles.append(register(lambda *args: self.on_step(*args)))
            self.patch(optimizer.Optimizer, "zero_grad", lambda o, *_: self.on_zero_grad(o))
            self.patch(optimizer.Optimizer, "__init__", self.on_optimizer)
        self.hook_modules()
        self.patch(torch, "compile", None, self.on_compile)
        self.patch(getattr(torch.nn, "Module", None), "compile", None, self.on_compiled_module)
        for name in ("backward", "grad"):
            self.patch(torch.autograd, name, functools.partial(self.on_backward, name))
        if self.memory is None:
            self.watch_profilers()
        else:
            self.memory.install()
        if "torch.utils.data.dataloader" in sys.modules:
            self.hook_loader(sys.modules["torch.utils.data.dataloader"])
        else:
            self.wait_for("torch.utils.data.dataloader", self.hook_loader)
        atexit.register(self.flush)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self.before_fork, after_in_parent=self.after_fork, after_in_child=self.in_child)
        if self.memory is None:
            self.start_timer()

    def wait_for(self, name, then):
        self.waiter.then[name] = then
        if self.waiter not in sys.meta_path:
            sys.meta_path.insert(0, self.waiter)

    def patch(self, owner, name, before, after=None):
        """Call `before` with the arguments ahead of owner.name, `after` with its result and them behind it."""
        original = getattr(owner, name, None) if owner is not None else None
        if original is None:
            return
        had = name in vars(owner)

        @functools.wraps(original)
        def wrapper(*args, **kwargs):
            if before is not None and self.phase != "done":
                before(*args)
            result = original(*args, **kwargs)
            if after is not None and self.phase != "done":
                after(result, *args)
            return result

        setattr(owner, name, wrapper)
        self.patches.append((owner, name, wrapper, original, had))

    def take_out(self, of=None):
        """Restore what patches replaced: of one owner, or all."""
        kept = []
        for patch in reversed(self.patches):
            owner, name, wrapper, original, had = patch
            if of is not None and owner is not of:
                kept.append(patch)
            elif vars(owner).get(name) is wrapper:
                if had:
                    setattr(owner, name, original)
                else:
                    delattr(owner, name)
        self.patches = kept[::-1]

    def on_optimizer(self, *_):
        self.optimizer_made = True

    @tools.safe
    def on_compile(self, _result, *_):
        """torch.compile looks at global hooks, warns of them and compiles again when they
        go: compiled programs are seen through the compiled module's own call."""
        self.compiled = True
        self.unhook_modules()
        self.take_out(self.torch.autograd)  # a compiler would look into these functions
        frames = sys.modules.get("torch._dynamo.eval_frame")
        module = getattr(frames, "OptimizedModule", None)
        if module is not None and not any(owner is module for owner, *_ in self.patches):
            self.patch(module, "__call__", lambda m, *_: self.on_module(m))

    @tools.safe
    def on_compiled_module(self, _result, module, *_):
        """module.compile() leaves the class as it is: calls of this module go to the function that it kept."""
        self.on_compile(None)
        if callable(vars(module).get("_compiled_call_impl")):
            self.patch(module, "_compiled_call_impl", lambda *_: self.on_module(module))

    def hook_modules(self):
        """Watch calls of modules, in every thread: a server calls its model from a pool."""
        if self.compiled:
            return
        module = sys.modules.get("torch.nn.modules.module")
        if module is None:
            return
        compiler = getattr(self.torch, "compiler", None)
        tracing = getattr(compiler, "is_compiling", None)
        calls = tools.thread_local()  # how deep each thread is in modules, and its outermost one

        def pre(m, _args):
            if tracing is not None and tracing():
                return
            if getattr(self.here, "in_loader", False):
                return
            calls.depth = getattr(calls, "depth", 0) + 1
            outer = getattr(calls, "outer", None)
            # A call that raised left the depth too high: the module that was
            # outermost is so again, and so is the one that steps are counted by.
            held = self.sources["module"].anchor
            if calls.depth == 1 or outer is not None and outer() is m or held is not None and held() is m:
                calls.depth, calls.outer = 1, weakref.ref(m)
                self.on_module(m)

        def post(_m, _args, _result):
            if tracing is not None and tracing():
                return
            if not getattr(self.here, "in_loader", False) and getattr(calls, "depth", 0) > 0:
                calls.depth -= 1

        self.global_hooks = [module.register_module_forward_pre_hook(pre), module.register_module_forward_hook(post)]

    def unhook_modules(self):
        handles, self.global_hooks = self.global_hooks, []
        for h in handles:
            h.remove()

    def hook_loader(self, dataloader):
        iterator = getattr(dataloader, "_BaseDataLoaderIter", None)
        original = getattr(iterator, "__next__", None)
        if original is None or self.phase == "done":
            return

        @functools.wraps(original)
        def __next__(it):
            if self.phase == "done":
                return original(it)
            self.on_loader(it)
            here = self.here
            here.in_loader = True
            before = self.clocks_of_fetch()
            try:
                return original(it)
            finally:
                here.in_loader = False
                if before is not None:
                    self.fetched(before)

        iterator.__next__ = __next__
        self.patches.append((iterator, "__next__", __next__, original, True))
        self.time_starts(getattr(dataloader, "_MultiProcessingDataLoaderIter", None))

    def time_starts(self, iterator):
        """Time the start of a loader's workers, which no event of a trace has."""
        original = getattr(iterator, "__init__", None)
        if original is None:
            return

        @functools.wraps(original)
        def __init__(it, *args, **kwargs):
            began = tools.clock()
            original(it, *args, **kwargs)
            self.started(tools.clock() - began)

        iterator.__init__ = __init__
        self.patches.append((iterator, "__init__", __init__, original, True))

    def watch_profilers(self):
        """Notice a program that profiles itself, and stand back."""
        torch = self.torch
        for owner, name in (
            (getattr(torch.profiler, "profile", None), "start"),
            (getattr(torch.profiler, "_KinetoProfile", None), "start"),
            (getattr(torch.profiler, "_KinetoProfile", None), "prepare_trace"),
            (getattr(torch.autograd.profiler, "profile", None), "__enter__"),
            (getattr(torch.autograd.profiler, "emit_nvtx", None), "__enter__"),
            (getattr(torch.autograd.profiler, "emit_itt", None), "__enter__"),
        ):
            if owner is not None and name in vars(owner):
                self.patch(owner, name, lambda *_: self.on_profiler())

    def on_profiler(self):
        if self.own or getattr(self.here, "inside", False):
            return
        self.program_profiles()

    @tools.safe
    def program_profiles(self):
        if self.phase == "record":
            if self.recorded > 0:
                self.finish(complete=False)
            else:
                self.drop()
        self.stand_back("own-profiler")

    def leave(self):
        """Take everything out again: from here on the program runs as without gpuprof."""
        if self.phase == "done":
            return
        self.stop_samples()
        kind, count = self.best()
        self.tell("left", kind=kind, steps=count, recorded=self.recorded, other_threads=self.others(), **self.optimizers())
        self.phase = "done"
        self.unhook_modules()
        self.take_out()
        self.waiter.then.clear()
        if self.waiter in sys.meta_path:
            sys.meta_path.remove(self.waiter)
        self.stop_timer()
        for s in self.sources.values():
            s.reset()

    # -- ends of the process ---------------------------------------------------

    def catch_signals(self):
        """While recording, the signals that would end the process save the trace first."""
        import signal

        if tools.get_ident() != tools.main_ident():
            return
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                handler = functools.partial(self.on_signal, signal)
                self.handlers[number] = handler
                signal.signal(number, handler)

    def on_signal(self, signal, number, _frame):
        if os.getpid() == self.pid:
            self.flush()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def release_signals(self):
        if not self.handlers:
            return
        import signal

        handlers, self.handlers = self.handlers, {}
        if tools.get_ident() != tools.main_ident():
            return
        for number, handler in handlers.items():
            if signal.getsignal(number) is handler:
                signal.signal(number, signal.SIG_DFL)

    def at_exit_of_workers(self):
        """Forked processes of multiprocessing end without atexit."""
        process = sys.modules.get("multiprocessing.process")
        if process is None or process.parent_process() is None:
            return
        from multiprocessing.util import Finalize

        Finalize(None, self.flush, exitpriority=100)

    def in_child(self):
        """After fork: the parent's recording is not the child's."""
        self.timer, self.forking = None, False
        if self.phase == "done":
            return
        self.release_signals()
        hooked, recording = bool(self.global_hooks), self.phase == "record"
        self.fresh()
        self.inherited = self.inherited or recording
        if not hooked and not self.compiled:
            self.hook_modules()
