"""Starts the profiler, ends it and writes the recording."""

import os
import sys
import warnings

tools = part("gpuprof_tools")  # noqa: F821, see part in gpuprof_hook

# Traces of processes that are no rank of a job; more say nothing new.
MAX_TRACES = 64
# What Kineto writes to standard error, past its own log level, when it is first
# started in a thread that did not import torch.
KINETO_LINE = b"ERROR: External init callback must run in same thread as registerClient"


class Recording:
    """The part of the hook that records: a trace of the steps, or the history of memory."""

    def call(self, f, *args):
        """Call into the profiler, without its warnings."""
        # Not by a filter: a change of the filters makes Python forget which of
        # the program's own warnings it has already shown.
        shown = warnings.showwarning
        warnings.showwarning = tools.ignore
        given = [(m, dict(vars(m).get("__warningregistry__", ()))) for m in self.warners()]
        self.own = True
        try:
            return f(*args)
        finally:
            self.own = False
            if warnings.showwarning is tools.ignore:
                warnings.showwarning = shown
            for m, before in given:
                now = vars(m).get("__warningregistry__")
                if now is not None and now != before:
                    now.clear()
                    now.update(before)

    def warners(self):
        names = ("torch.profiler", "torch.profiler.profiler", "torch.autograd.profiler")
        return [sys.modules[n] for n in names if n in sys.modules]

    def begin(self, s):
        """Start the profiler; s is None for a window of time."""
        self.phase = "begin"  # a second thread that comes here meanwhile begins nothing
        if self.worker():
            self.leave()
            return False
        if self.memory is not None:
            return self.begin_memory(s)
        if self.already_profiled():
            self.stand_back("forked" if self.inherited else "own-profiler")
            return False
        if os.environ.get("NSYS_PROFILING_SESSION_ID"):
            self.stand_back("nsys")
            return False
        if self.rank() is None and sum(n.endswith(".json") for n in os.listdir(self.out)) >= MAX_TRACES:
            self.stand_back("many-processes")
            return False
        profiler = self.torch.profiler
        kinds = [profiler.ProfilerActivity.CPU]
        # Asking whether there is a GPU would initialise the driver in a
        # program that has not done so.
        cuda = getattr(self.torch, "cuda", None)
        if cuda is not None and cuda.is_initialized():
            kinds.append(profiler.ProfilerActivity.CUDA)
        options = {"activities": kinds, "record_shapes": self.config["shapes"], "with_stack": self.config["stacks"]}
        if s is not None:
            # The step before the first that is recorded warms the profiler up.
            # Where a mark shows itself too late for that, there is none, if no stock may grow.
            self.stock.pause()
            self.warm = 1 if s.completed() < self.skip_of(s) or self.stock.usual is not None else 0
            options["schedule"] = self.action
        self.profiler = self.call(lambda: profiler.profile(**options))
        self.catch_signals()
        if tools.get_ident() == tools.main_ident():
            self.call(self.profiler.start)
        else:
            tools.without_line(KINETO_LINE, lambda: self.call(self.profiler.start))
        self.add_cpus()
        self.begun(s)
        return True

    def begun(self, s):
        """The recording has begun."""
        self.source = s
        self.stop_samples()  # of a window of time
        self.phase = "record"
        self.since = self.told = tools.clock()
        if s is not None:
            self.thread = tools.get_ident()
            self.held = tools.resident()
            self.start_timer()
        if s is None or self.warm == 0:
            self.clock_step()
        self.window_thread = tools.get_ident() if s is None else None
        self.at_exit_of_workers()
        self.tell_begin(s)

    def tell_begin(self, s):
        name = s.name if s is not None else "window"
        self.begins_after = s.completed() + self.warm if s is not None else 0
        self.tell("begin", kind=name, after=self.begins_after, rank=self.rank(),
                  optimizer=self.sources["optimizer"].name_of() if name == "optimizer" else "")

    # -- the history of memory -------------------------------------------------

    def begin_memory(self, s):
        """The steps to record begin; the history is on since the first use of a device."""
        if self.profiler is None:
            self.stand_back("no-device")
            return False
        self.warm = 1 if s.completed() < self.skip else 0
        self.begun(s)
        return True

    @tools.safe
    def on_device(self):
        """The program has used a device."""
        if self.profiler is not None or self.phase != "wait" or self.worker():
            return
        self.profiler = self.memory
        self.catch_signals()
        self.at_exit_of_workers()
        self.call(self.memory.start)

    @tools.safe
    def on_out_of_memory(self):
        """Keep what there is, in the file that the end writes again."""
        self.export(self.memory.write, False, tools.clock(), True, "oom")

    def on_history(self):
        """The program switches the history on or off itself: it is the program's then."""
        if self.own or getattr(self.here, "inside", False):
            return
        self.memory.on, self.profiler = False, None
        self.release_signals()
        self.stand_back("own-history")

    def already_profiled(self):
        enabled = getattr(self.torch.autograd, "_profiler_enabled", None)
        return enabled is not None and bool(enabled())

    def finish(self, complete):
        """Stop the profiler and write the trace, once."""
        p, self.profiler = self.profiler, None
        if p is None:
            return
        window = self.source is None
        if not window:
            self.stop_timer()
        self.account_recorded(window)
        self.phase, self.window_thread = "after", None
        self.stock.pause()
        started = tools.clock()
        try:
            if p is self.memory and not p.used():
                self.tell("aside", reason="no-device")
                return
            if p is self.memory:
                self.export(p.write, complete, started, window)
                return
            self.call(p.stop)
            if (window or self.recorded == 0) and not self.anything(p):
                self.tell("empty")
                return
            self.export(p.export_chrome_trace, complete, started, window)
        finally:
            if p is self.memory:
                self.call(p.stop)
            self.release_signals()

    def add_cpus(self):
        """Write into the trace how many CPUs the program may use: advice on workers depends on it."""
        add = getattr(self.profiler, "add_metadata_json", None)
        if add is not None:
            affinity = getattr(os, "sched_getaffinity", None)
            self.call(add, "gpuprof_cpus", str(len(affinity(0)) if affinity else os.cpu_count() or 0))

    def anything(self, p):
        """Whether the recording holds an operator."""
        results = getattr(getattr(p, "profiler", None), "kineto_results", None)
        try:
            return results is None or len(results.events()) > 0
        except Exception:
            return True

    def export(self, write, complete, started, window, event="trace"):
        rank = self.rank()
        what, ending = ("trace", ".json") if self.memory is None else ("snapshot", ".pickle")
        name = "%s-%d" % (what, self.pid) if rank is None else "%s-rank%d" % (what, rank)
        path = os.path.join(self.out, name + ending)
        if os.path.exists(path) and path != self.window_trace:
            path = os.path.join(self.out, "%s-%d%s" % (name, self.pid, ending))
        part = path + ".part"
        size, whole, text = 0, False, ""
        try:
            self.call(write, part)
            if not complete and not window and self.memory is None:
                tools.rename_step(part, getattr(write.__self__, "step_num", -1))
            size, whole = tools.measure(part)
            os.replace(part, path)
        except Exception as e:
            text = "%s: %s" % (type(e).__name__, str(e)[:300])
            # Kineto writes beside the file and moves it there at the end; it
            # raises nothing where the disk is full. What it left only takes
            # the space that the program may need for its own files.
            beside = part + ".tmp"
            try:
                if os.path.exists(beside):
                    text = "the disk took only %d bytes of it" % os.path.getsize(beside)
                    os.remove(beside)
                elif os.path.getsize(part) > 0:
                    os.replace(part, path)
                    size = os.path.getsize(path)
                else:
                    os.remove(part)
            except OSError:
                pass
        if window:
            self.window_trace = path
        elif self.window_trace not in (None, path):
            try:
                os.remove(self.window_trace)
            except OSError:
                pass
        kind = "window" if window else self.source.name
        self.tell(event, file=os.path.basename(path) if size else "", bytes=size, whole=whole, error=text, rank=rank, kind=kind,
                  steps=self.recorded, complete=complete, bounded=self.bounded, grown=self.grown, export_s=tools.clock() - started)

    def drop_window(self):
        """A step has shown itself: go back to waiting until the steps are steady."""
        self.drop()
        self.phase = "wait"
        self.tell("empty")

    def drop(self):
        """End a recording that cannot be kept."""
        self.window_thread = None
        p, self.profiler = self.profiler, None
        if p is not None:
            try:
                self.call(p.stop)
            finally:
                self.release_signals()

    def rank(self):
        dist = sys.modules.get("torch.distributed")
        try:
            if dist is not None and dist.is_available() and dist.is_initialized():
                return int(dist.get_rank())
        except Exception:
            pass
        return tools.told_rank(os.environ)

    def times(self):
        s = self.source
        if s is not None:
            before = [] if self.memory else s.before  # the history was on in those too
            self.tell("times", kind=s.name, before=tools.round_all(before), during=tools.round_all(self.during), after=tools.round_all(self.after))

    def flush(self):
        """The process ends: keep what there is."""
        if self.phase == "done" or os.getpid() != self.pid:
            return
        try:
            if self.phase == "record":
                self.settle_at_exit()
            if self.phase == "record" or self.profiler is not None:
                self.finish(complete=False)
            elif self.phase == "wait" and self.memory is not None:
                self.tell("aside", reason="no-device")
            kind, count = self.best()
            if self.phase == "after":
                self.times()
            self.stop_samples()
            self.tell("exit", kind=kind, steps=count, recorded=self.recorded, other_threads=self.others(), **self.optimizers())
        except Exception as e:
            self.tell("error", where="exit", text="%s: %s" % (type(e).__name__, str(e)[:500]))
        finally:
            self.phase = "done"

    def best(self):
        if self.source is not None:
            return self.source.name, self.source.completed()
        for name in ("optimizer", "zero_grad", "backward", "module", "loader"):
            s = self.sources[name]
            if s.total > 0:
                return name, s.most()
        return "", 0
