"""Finds the step of a PyTorch program, records a few of them, and leaves.

Rules it keeps: it draws no random numbers, adds no synchronisation outside the
recording, touches no tensor, and whatever goes wrong inside it is noted in the
status file and kept from the program.
"""

import atexit
import functools
import json
import os
import sys
import time
import warnings
import weakref

# How often something must come back before it is taken for the step's mark.
OPTIMIZER_REPEATS = 2
MODULE_REPEATS = 3
# A module that is trained, or called though an optimizer exists, is waited with
# for so many more calls: the optimizer's steps are the better mark.
TRAINING_PATIENCE = 100
# Steps timed after the recording, at least.
AFTER_STEPS = 10
# Traces of processes that are no rank of a job; more say nothing new.
MAX_TRACES = 64
LOOK_S = 0.25  # between two looks at the clock of a program without steps
# Steps that are made while a loader's stock falls are left out, but so many at most.
MAX_FALL = 100
# Where steps to leave out would take longer than the recording may, they are left out no
# longer when so many were timed.
FEWEST_BEFORE = 2
# A recording ends within a step when that takes so many times the longest time
# that whole steps may take.
WITHIN = 10
# How much memory of the process may grow within a recording before it ends: at the next
# border, and at once. The events of a long step are kept in it until they are written.
GROWN_BORDER = 1 << 30
GROWN_MOST = 2 << 30
GROWN_LOOK_S = 1.0
# How far the recording is, is told at most so often: the telling is a part of a step.
TELL_S = 0.5
# What Kineto writes to standard error, past its own log level, when it is first
# started in a thread that did not import torch.
KINETO_LINE = b"ERROR: External init callback must run in same thread as registerClient"

clock = time.perf_counter


def part(here, name):
    """Another module of the hook, by its file."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("_" + name, os.path.join(here, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


marks = part(os.path.dirname(os.path.abspath(__file__)), "gpuprof_marks")
get_ident, MAX_WAIT_S = marks.get_ident, marks.MAX_WAIT_S


def safe(f):
    """Keep what goes wrong in f from the program."""

    @functools.wraps(f)
    def call(self, *args):
        here = self.here
        if self.phase == "done" or getattr(here, "inside", False):
            return None
        here.inside = True
        try:
            return f(self, *args)
        except Exception as e:
            self.fail(f.__name__, e)
            return None
        finally:
            here.inside = False

    return call


class Hook:
    def __init__(self, torch, here, waiter):
        self.torch = torch
        self.waiter = waiter
        with open(os.path.join(here, "config.json"), encoding="utf-8") as f:
            self.config = json.load(f)
        self.out = self.config["out"]
        self.status = self.config["status"]
        self.skip = self.config["skip"]
        self.steps = self.config["steps"]
        self.patches = []
        self.handles = []
        self.global_hooks = []
        self.handlers = {}
        self.timer = None
        self.ticking = None
        self.forking = False
        self.inherited = False  # the parent was recorded when this process was forked
        self.memory = None
        if self.config["memory"]:
            self.memory = part(here, "gpuprof_memory").Memory(self)
        self.fresh()

    def fresh(self):
        """The state of a process that has seen nothing yet."""
        self.pid = os.getpid()
        self.here = thread_local()  # what each thread is in: the hook, a data loader
        self.phase = "wait"
        early = max(1, self.skip)  # who skips nothing wants the first that comes
        self.sources = {
            "optimizer": marks.Optimizers(min(OPTIMIZER_REPEATS, early)),
            "zero_grad": marks.Source("zero_grad", min(OPTIMIZER_REPEATS, early), False),
            "module": marks.Source("module", min(MODULE_REPEATS, early), False),
            "loader": marks.Source("loader", 1, False),
        }
        self.source = None
        self.thread = None
        self.steppers = {}  # optimizer steps of each thread
        self.optimizer_made = False
        self.compiled = False
        self.pending = None  # the thread whose optimizer has stepped, until its border is drawn
        self.depth = 0
        self.outer = lambda: None  # the outermost module being called
        self.profiler = None
        self.own = False  # a call into the profiler is ours
        self.backward_steps = False  # an optimizer steps while gradients are computed
        self.warm = 0
        self.recorded = 0
        self.during, self.after = [], []
        self.since = 0.0  # the first recorded step began
        self.told = 0.0  # how far the recording is
        self.bounded = False  # the recording took too long, or too much memory
        self.held = 0  # memory of the process when the recording began, bytes
        self.grown = 0  # by how much it has grown too much
        self.window_trace = None
        self.window_thread = None  # that records a window now
        self.reason = ""
        self.quiet = marks.Quiet(self.config["window_after_s"], clock(), len(sys.modules))
        self.touch = marks.Touch(self.torch, len(sys.modules))
        self.stock = marks.Stock()
        if self.memory is not None:
            self.memory.on = False

    # -- what is told ------------------------------------------------------

    def tell(self, event, **fields):
        try:
            fields.update(event=event, pid=os.getpid(), t=time.time())
            line = (json.dumps(fields) + "\n").encode("utf-8", "replace")
            fd = os.open(self.status, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(fd, line)
            finally:
                os.close(fd)
        except Exception:
            pass

    def fail(self, where, e):
        """Give up for good; the program goes on."""
        text = "%s: %s" % (type(e).__name__, str(e)[:500])
        self.tell("error", where=where, text=text)
        try:
            self.drop()
        except Exception:
            pass
        self.leave()

    def stand_back(self, reason):
        self.reason = reason
        self.tell("aside", reason=reason)
        self.leave()

    def others(self):
        """Threads that train beside the one whose steps count; one step alone is no training."""
        if self.thread is None:
            return 0
        return sum(n >= OPTIMIZER_REPEATS for thread, n in self.steppers.items() if thread != self.thread)

    def optimizers(self):
        """Which optimizer ends a step, of how many."""
        s = self.sources["optimizer"]
        return {"place": s.chosen.place, "of": s.joined()} if s.chosen else {}

    # -- which mark counts ---------------------------------------------------

    def eligible(self, s):
        """Whether recording may begin by this mark now."""
        done, skip = s.completed(), self.skip_of(s)
        if self.stock.falling() and self.stock.lasts(self.steps + 2) and done < skip + MAX_FALL:
            return False
        training = self.sources["optimizer"].total > 0 or self.sources["zero_grad"].total > 0
        if s.name == "zero_grad" and self.sources["optimizer"].total > 0:
            return False
        if s.name == "optimizer" and s.expects():
            return False
        if s.name == "module":
            if training:
                return False
            patient = not self.backward_steps and sum(s.before) < MAX_WAIT_S
            if patient and (self.optimizer_made or self.trains(s.anchor())):
                skip += TRAINING_PATIENCE
        if s.name == "loader" and (training or self.optimizer_made or self.sources["module"].total > 0):
            return False
        # The last step before the recording is the profiler's warm-up.
        return done >= max(skip - 1, 0)

    def skip_of(self, s):
        """How many steps are left out: fewer where they are long, if the user named no number."""
        done = s.completed()
        if not self.config["skip_exact"] and len(s.before) >= FEWEST_BEFORE and min(s.before) * (self.skip - done) > self.config["longest_s"]:
            return done
        return self.skip

    def trains(self, module):
        return bool(getattr(module, "training", False)) and self.torch.is_grad_enabled()

    def mark(self, name, obj):
        """A mark was seen: returns whether it is a border of the steps that count."""
        s = self.sources[name]
        self.quiet.again(clock())
        if self.source is not None and self.source is not s:
            return False
        if not s.hit(obj, self.phase == "wait"):
            return False
        me = get_ident()
        if self.window_thread is not None:
            # It is the steps that count. The profiler ends where it began: in
            # another thread the clock sees to it.
            if self.window_thread != me:
                return False
            self.drop_window()
        if self.timer is not None and self.phase != "record":
            self.stop_timer()  # a program that shows its steps needs no clock
        if self.thread is None or self.source is None:
            self.thread = me
        return me == self.thread

    def border(self, s):
        """The border between two steps, at a place outside every operator."""
        now = clock()
        dt = None if s.last is None else now - s.last
        if self.phase == "wait":
            if self.stock.falling():
                s.before.clear()  # those are not the pace of the program
            elif dt is not None:
                s.before.append(dt)
            if self.eligible(s):
                self.begin(s)
        elif self.phase == "record":
            if self.warm > 0:
                self.warm_up(s)
                self.since = self.told = now
            else:
                self.recorded += 1
                if dt is not None:
                    self.during.append(dt)
            self.call(self.profiler.step)
            whole = self.recorded >= self.steps
            # The next step would take the recording beyond its time.
            self.bounded = not whole and self.recorded > 0 and (self.grown > 0 or now - self.since + (dt or 0) > self.config["longest_s"])
            if whole or self.bounded:
                self.finish(complete=whole)
            elif now - self.told >= TELL_S:
                self.told = now
                self.tell("step", recorded=self.recorded)
        elif self.phase == "after":
            if dt is not None and not self.stock.over():
                self.after.append(dt)
            if len(self.after) >= max(AFTER_STEPS, self.steps):
                self.times()
                self.leave()
                return
        s.last = clock()

    def warm_up(self, s):
        """A step of the warm-up has ended; it lasts until a stock that grew while the profiler
        started is used up, if the epoch has steps left to record then."""
        if self.warm == 1 and self.stock.lasts(self.steps + 1) and self.stock.over():
            return
        self.warm -= 1
        if self.warm == 0 and s.completed() != self.begins_after:
            self.tell_begin(s)

    def action(self, _step):
        """The schedule of the profiler: its action in the step that begins."""
        actions = self.torch.profiler.ProfilerAction
        if self.warm > 0:
            return actions.WARMUP
        if self.recorded < self.steps - 1:
            return actions.RECORD
        return actions.RECORD_AND_SAVE if self.recorded < self.steps else actions.NONE

    # -- the marks -----------------------------------------------------------

    def in_backward(self):
        """Whether gradients are being computed in this thread."""
        task = getattr(self.torch._C, "_current_graph_task_id", None)
        return task is not None and task() != -1

    @safe
    def on_step(self, optimizer, *_):
        if self.in_backward():
            # An optimizer for each parameter, within the backward pass: no border of a step.
            self.backward_steps = True
            return
        me = get_ident()
        self.steppers[me] = self.steppers.get(me, 0) + 1
        anchor = self.sources["optimizer"].anchor
        if not self.mark("optimizer", optimizer):
            return
        if anchor is not self.sources["optimizer"].anchor:
            self.pending = None  # of an optimizer that no longer counts
        self.unhook_modules()
        # The optimizer's own range is still open here, and a step's border
        # inside it would cross it: the border waits for the next call that is
        # outside, or else for the next step.
        self.settle()
        self.pending = get_ident()

    def settle(self):
        """Draw the border that waits, in the thread whose step it ends."""
        if self.pending and self.pending == get_ident():
            self.pending = None
            self.border(self.sources["optimizer"])

    def settle_at_exit(self):
        """The border that waits for the end of the program. What came after the last step (an
        evaluation, a checkpoint) is not that step's: it is not timed, and where it is
        longer than any step that was, the step stays a part of one."""
        if not self.pending:
            return
        self.pending = None
        s, now = self.sources["optimizer"], clock()
        longest = max([*s.before, *self.during], default=None)
        if self.recorded > 0 and self.warm == 0 and s.last is not None and longest is not None and now - s.last > 2 * longest:
            return
        s.last = None
        self.border(s)

    @safe
    def on_zero_grad(self, optimizer):
        if self.in_backward():
            return
        self.settle()
        if self.sources["optimizer"].total == 0 and self.mark("zero_grad", optimizer):
            self.border(self.sources["zero_grad"])

    @safe
    def on_loader(self, it):
        if self.worker():
            return
        self.stock.look(it)
        self.settle()
        if self.mark("loader", getattr(it, "_dataset", None)):
            self.border(self.sources["loader"])

    @safe
    def on_module(self, module):
        if self.mark("module", module):
            if self.worker():
                self.leave()
                return
            self.border(self.sources["module"])

    def worker(self):
        """A DataLoader's worker is never profiled: it has no steps."""
        data = sys.modules.get("torch.utils.data")
        return data is not None and data.get_worker_info() is not None

    # -- recording -----------------------------------------------------------

    def call(self, f, *args):
        """Call into the profiler, without its warnings."""
        # Not by a filter: a change of the filters makes Python forget which of
        # the program's own warnings it has already shown.
        shown = warnings.showwarning
        warnings.showwarning = ignore
        given = [(m, dict(vars(m).get("__warningregistry__", ()))) for m in self.warners()]
        self.own = True
        try:
            return f(*args)
        finally:
            self.own = False
            if warnings.showwarning is ignore:
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
        if get_ident() == main_ident():
            self.call(self.profiler.start)
        else:
            without_line(KINETO_LINE, lambda: self.call(self.profiler.start))
        self.begun(s)
        return True

    def begun(self, s):
        """The recording has begun."""
        self.source = s
        self.phase = "record"
        self.since = self.told = clock()
        if s is not None:
            self.thread = get_ident()
            self.held = resident()
            self.start_timer()
        self.window_thread = get_ident() if s is None else None
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

    @safe
    def on_device(self):
        """The program has used a device."""
        if self.profiler is not None or self.phase != "wait" or self.worker():
            return
        self.profiler = self.memory
        self.catch_signals()
        self.at_exit_of_workers()
        self.call(self.memory.start)

    @safe
    def on_out_of_memory(self):
        """Keep what there is, in the file that the end writes again."""
        self.export(self.memory.write, False, clock(), True, "oom")

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
        self.phase, self.window_thread = "after", None
        self.stock.pause()
        started = clock()
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
                rename_step(part, getattr(write.__self__, "step_num", -1))
            size, whole = measure(part)
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
                  steps=self.recorded, complete=complete, bounded=self.bounded, grown=self.grown, export_s=clock() - started)

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
        for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"):
            value = os.environ.get(name, "")
            if value.isdigit() and (name != "SLURM_PROCID" or os.environ.get("SLURM_NTASKS", "1") != "1"):
                return int(value)
        return None

    def times(self):
        s = self.source
        if s is not None:
            before = [] if self.memory else s.before  # the history was on in those too
            self.tell("times", kind=s.name, before=round_all(before), during=round_all(self.during), after=round_all(self.after))

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
            self.tell("exit", kind=kind, steps=count, recorded=self.recorded, other_threads=self.others(), **self.optimizers())
        except Exception as e:
            self.tell("error", where="exit", text="%s: %s" % (type(e).__name__, str(e)[:500]))
        finally:
            self.phase = "done"

    def best(self):
        if self.source is not None:
            return self.source.name, self.source.completed()
        for name in ("optimizer", "zero_grad", "module", "loader"):
            s = self.sources[name]
            if s.total > 0:
                return name, s.most()
        return "", 0

    # -- ends of the process ---------------------------------------------------

    def catch_signals(self):
        """While recording, the signals that would end the process save the trace first."""
        import signal

        if get_ident() != main_ident():
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
        if get_ident() != main_ident():
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

    # -- hooks -------------------------------------------------------------------

    def install(self):
        torch = self.torch
        self.tell("torch", version=str(getattr(torch, "__version__", "unknown")), rank=self.rank(), argv=sys.argv[:1] if hasattr(sys, "argv") else [])
        optimizer = sys.modules.get("torch.optim.optimizer")
        if optimizer is not None:
            register = getattr(optimizer, "register_optimizer_step_post_hook", None)
            if register is not None:
                register(lambda *args: self.on_step(*args))
            self.patch(optimizer.Optimizer, "zero_grad", lambda o, *_: self.on_zero_grad(o))
            self.patch(optimizer.Optimizer, "__init__", self.on_optimizer)
        self.hook_modules()
        self.patch(torch, "compile", None, self.on_compile)
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
        """Call `before` with the arguments ahead of owner.name, `after` with its result behind it."""
        original = getattr(owner, name, None)
        if original is None:
            return
        had = name in vars(owner)

        @functools.wraps(original)
        def wrapper(*args, **kwargs):
            if before is not None and self.phase != "done":
                before(*args)
            result = original(*args, **kwargs)
            if after is not None and self.phase != "done":
                after(result)
            return result

        setattr(owner, name, wrapper)
        self.patches.append((owner, name, wrapper, original, had))

    def on_optimizer(self, *_):
        self.optimizer_made = True

    @safe
    def on_compile(self, _result):
        """torch.compile looks at global hooks, warns of them and compiles again when they
        go: compiled programs are seen through the compiled module's own call."""
        self.compiled = True
        self.unhook_modules()
        frames = sys.modules.get("torch._dynamo.eval_frame")
        module = getattr(frames, "OptimizedModule", None)
        if module is not None and not any(owner is module for owner, *_ in self.patches):
            self.patch(module, "__call__", lambda m, *_: self.on_module(m))

    def hook_modules(self):
        if self.compiled:
            return
        module = sys.modules.get("torch.nn.modules.module")
        if module is None:
            return
        compiler = getattr(self.torch, "compiler", None)
        tracing = getattr(compiler, "is_compiling", None)
        main = main_ident()

        def pre(m, _args):
            if tracing is not None and tracing():
                return
            if get_ident() != main or getattr(self.here, "in_loader", False):
                return
            self.depth += 1
            # A call that raised left the depth too high: the module that was
            # outermost is so again, and so is the one that steps are counted by.
            held = self.sources["module"].anchor
            if self.depth == 1 or self.outer() is m or held is not None and held() is m:
                self.depth, self.outer = 1, weakref.ref(m)
                self.on_module(m)

        def post(_m, _args, _result):
            if tracing is not None and tracing():
                return
            if get_ident() == main and not getattr(self.here, "in_loader", False) and self.depth > 0:
                self.depth -= 1

        self.depth = 0
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
            try:
                return original(it)
            finally:
                here.in_loader = False

        iterator.__next__ = __next__
        self.patches.append((iterator, "__next__", __next__, original, True))

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

    @safe
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
        kind, count = self.best()
        self.tell("left", kind=kind, steps=count, recorded=self.recorded, other_threads=self.others(), **self.optimizers())
        self.phase = "done"
        self.unhook_modules()
        for owner, name, wrapper, original, had in reversed(self.patches):
            if vars(owner).get(name) is not wrapper:
                continue
            if had:
                setattr(owner, name, original)
            else:
                delattr(owner, name)
        self.patches = []
        self.waiter.then.clear()
        if self.waiter in sys.meta_path:
            sys.meta_path.remove(self.waiter)
        self.stop_timer()
        for s in self.sources.values():
            s.reset()

    # -- the window of time ----------------------------------------------------

    def start_timer(self):
        """A program without any mark of a step is recorded for a while by the clock; steps are
        recorded for a bounded time."""
        import _thread

        self.timer, self.ticking = _thread.allocate_lock(), _thread.allocate_lock()
        self.timer.acquire()
        self.ticking.acquire()
        _thread.start_new_thread(self.tick, (self.timer, self.ticking))

    def stop_timer(self):
        timer, self.timer = self.timer, None
        if timer is not None:
            try:
                timer.release()
            except RuntimeError:
                pass

    def before_fork(self):
        """Newer Pythons warn of a fork in a process with several threads: let there be none of ours."""
        try:
            if self.timer is not None and (self.phase == "wait" or self.in_steps()):
                self.forking = True
                self.stop_timer()
                self.ticking.acquire(timeout=0.2)
                time.sleep(0.002)  # the thread is about to end
        except Exception:
            pass

    def after_fork(self):
        try:
            forking, self.forking = self.forking, False
            if forking and (self.phase == "wait" or self.in_steps()):
                self.start_timer()
        except Exception:
            pass

    def tick(self, timer, ticking):
        """Runs in a thread of its own; the profiler is started and stopped in the main one."""
        try:
            if self.in_steps():
                self.watch_steps(timer)
            else:
                self.watch_clock(timer)
        except Exception as e:
            self.tell("error", where="window", text="%s: %s" % (type(e).__name__, str(e)[:300]))
        finally:
            ticking.release()

    def in_steps(self):
        """Whether steps are recorded now, not a window of time."""
        return self.phase == "record" and self.window_thread is None

    def watch_steps(self, timer):
        """End a recording that its first step keeps from ending, or that takes much memory."""
        longest = WITHIN * self.config["longest_s"]
        while self.in_steps():
            left = self.since + longest - clock()
            if timer.acquire(timeout=min(max(left, LOOK_S), GROWN_LOOK_S)):
                return
            grown = resident() - self.held if self.memory is None else 0
            if grown > GROWN_BORDER:
                self.grown = grown
            if self.warm == 0 and (left <= 0 or grown > GROWN_MOST):
                self.in_main(timer, self.cut_short)
                return

    @safe
    def cut_short(self):
        # The profiler ends in the thread where it began; this is the main one.
        if self.in_steps() and self.thread == get_ident():
            self.pending, self.bounded = None, True
            self.finish(complete=False)

    def in_main(self, timer, f):
        """Call f in the main thread; false when the timer is stopped first."""
        import ctypes

        done = []

        def run(_):
            f()
            done.append(1)
            return 0

        hold = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(run)
        self.calls = getattr(self, "calls", []) + [hold]
        ctypes.pythonapi.Py_AddPendingCall(hold, None)
        while not done and self.phase != "done":
            if timer.acquire(timeout=0.05):
                return False
        return True

    def watch_clock(self, timer):
        while not timer.acquire(timeout=min(LOOK_S, self.quiet.wait / 2)) and self.phase == "wait":
            if not self.due():
                continue
            if not self.in_main(timer, self.open_window) or self.phase == "done":
                return
            if self.window_thread is not None:
                if timer.acquire(timeout=self.config["window_s"]) or not self.in_main(timer, self.close_window):
                    return
                if self.window_trace is not None:
                    return
            self.quiet.longer(clock())

    def due(self):
        """Whether the program has shown no step for so long that a window may open."""
        n = len(sys.modules)
        cuda = getattr(self.torch, "cuda", None)
        touched = self.touch.seen(n) or cuda is not None and cuda.is_initialized() or any(s.total > 0 for s in self.sources.values())
        return self.quiet.look(clock(), n, touched)

    def retried(self, where, f, *args):
        """Call f; its failure closes the window, which is tried again later, once modules are whole and locks free."""
        try:
            f(*args)
        except Exception as e:
            self.tell("again", where=where, text="%s: %s" % (type(e).__name__, str(e)[:300]))
            try:
                self.drop()
            except Exception:
                pass
            self.phase = "wait"

    @safe
    def open_window(self):
        process = sys.modules.get("multiprocessing.process")
        if process is not None and process.parent_process() is not None and self.rank() is None:
            return  # a helper of the program; it has no time of its own to show
        if self.phase != "wait" or any(s.anchor is not None for s in self.sources.values()):
            return
        if importing(sys._getframe()) and not self.quiet.may_import(clock()):
            return
        self.retried("open_window", self.begin, None)

    @safe
    def close_window(self):
        if self.window_thread is None:
            return
        if any(s.anchor is not None for s in self.sources.values()):
            self.drop_window()
            self.stop_timer()
            return
        self.retried("close_window", self.finish, True)
        # A step may still show itself: then it is what counts.
        self.phase = "wait"


def importing(frame):
    """Whether a frame runs below an import."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def without_line(start, f):
    """Call f, and keep the lines that begin so from standard error. What else is written
    there meanwhile follows when f is done."""
    try:
        aside = os.memfd_create("gpuprof")  # Linux
    except (AttributeError, OSError):
        return f()
    try:
        kept = os.dup(2)
    except OSError:  # it is closed
        os.close(aside)
        return f()
    try:
        os.dup2(aside, 2)
        return f()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.lseek(aside, 0, os.SEEK_SET)
        with open(aside, "rb") as lines:
            rest = b"".join(line for line in lines if not line.startswith(start))
        while rest:
            rest = rest[os.write(2, rest) :]


def resident():
    """The memory of this process, bytes; 0 where the system does not tell it so."""
    try:
        with open("/proc/self/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def round_all(values):
    return [round(v, 7) for v in values]


def ignore(*_args, **_kwargs):
    pass


def measure(path):
    """Size of a trace or a snapshot, and whether it ends as one."""
    size = os.path.getsize(path)
    with open(path, "rb") as f:
        f.seek(max(0, size - 64))
        end = f.read().rstrip()
    return size, end.endswith((b"}", b"]", b"."))


def rename_step(path, n):
    """Take the name of a step from the one that the end of the program cut short.

    The new name has as many bytes, so the file is changed where it is.
    """
    import mmap

    old, new = b'"ProfilerStep#%d"' % n, b'"partial step#%d"' % n
    with open(path, "r+b") as f, mmap.mmap(f.fileno(), 0) as text:
        at = text.find(old)
        while at >= 0:
            text[at : at + len(new)] = new
            at = text.find(old, at + len(new))


def thread_local():
    import _thread

    return _thread._local()


def main_ident():
    import threading

    return threading.main_thread().ident


def install(torch, here, waiter):
    hook = Hook(torch, here, waiter)
    hook.install()
    return hook
