"""Finds the step of a PyTorch program, records a few of them, and leaves.

Rules it keeps: it draws no random numbers, adds no synchronisation outside the
recording, touches no tensor, and whatever goes wrong inside it is noted in the
status file and kept from the program.
"""

import json
import os
import sys
import time

# How often something must come back before it is taken for the step's mark.
OPTIMIZER_REPEATS = 2
MODULE_REPEATS = 3
# A module that is trained, or called though an optimizer exists, is waited with
# for so many more calls: the optimizer's steps are the better mark.
TRAINING_PATIENCE = 100
# Steps timed after the recording, at least; fewer where so many seconds are over.
AFTER_STEPS = 10
AFTER_S = 2.0
AFTER_FEWEST = 3
# Steps that are made while a loader's stock falls are left out, but so many at most.
MAX_FALL = 100
# Where steps to leave out would take longer than the recording may, they are left out no
# longer when so many were timed.
FEWEST_BEFORE = 2
# How far the recording is, is told at most so often: the telling is a part of a step.
TELL_S = 0.5

folder = os.path.dirname(os.path.abspath(__file__))
loaded = {}


def part(name):
    """Another module of the hook, by its file, and outside sys.modules, which is the program's.
    It finds others in the same way."""
    import importlib.util

    if name not in loaded:
        spec = importlib.util.spec_from_file_location("_" + name, os.path.join(folder, name + ".py"))
        module = importlib.util.module_from_spec(spec)
        module.part = part
        spec.loader.exec_module(module)
        loaded[name] = module
    return loaded[name]


marks, tools, recording = part("gpuprof_marks"), part("gpuprof_tools"), part("gpuprof_recording")
window, patches, host = part("gpuprof_window"), part("gpuprof_patches"), part("gpuprof_host")


class Hook(tools.Teller, recording.Recording, patches.Patches, window.Window, host.Accounts):
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
            self.memory = part("gpuprof_memory").Memory(self)
        self.fresh()

    def fresh(self):
        """The state of a process that has seen nothing yet."""
        self.pid = os.getpid()
        self.here = tools.thread_local()  # what each thread is in: the hook, a data loader
        self.phase = "wait"
        early = max(1, self.skip)  # who skips nothing wants the first that comes
        self.sources = {
            "optimizer": marks.Optimizers(min(OPTIMIZER_REPEATS, early)),
            "zero_grad": marks.Source("zero_grad", min(OPTIMIZER_REPEATS, early), False),
            "module": marks.Source("module", min(MODULE_REPEATS, early), False),
            "backward": marks.Source("backward", min(MODULE_REPEATS, early), False),
            "loader": marks.Source("loader", 1, False),
        }
        self.source = None
        self.thread = None
        self.steppers = {}  # optimizer steps of each thread
        self.optimizer_made = False
        self.compiled = False
        self.pending = None  # the thread whose optimizer has stepped, until its border is drawn
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
        self.host = None  # the account of the thread whose steps are recorded
        self.resampling = False  # samples go on after a fork
        self.no_account = False  # it has failed
        self.loader_facts = {}
        self.functions = {name: marks.Mark() for name in ("backward", "grad")}  # that compute gradients
        self.quiet = marks.Quiet(self.config["window_after_s"], tools.clock(), len(sys.modules))
        self.touch = marks.Touch(self.torch, len(sys.modules))
        self.stock = marks.Stock()
        if self.memory is not None:
            self.memory.on = False

    # -- what is told ------------------------------------------------------

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
            patient = not self.backward_steps and sum(s.before) < marks.MAX_WAIT_S
            if patient and (self.optimizer_made or self.trains(s.anchor())):
                skip += TRAINING_PATIENCE
        if s.name == "backward":
            if training or self.backward_steps:
                return False
            if self.optimizer_made and sum(s.before) < marks.MAX_WAIT_S:
                skip += TRAINING_PATIENCE
        if s.name == "loader" and (training or self.optimizer_made or self.sources["module"].total + self.sources["backward"].total > 0):
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
        self.quiet.again(tools.clock())
        if self.source is not None and self.source is not s:
            return False
        if not s.hit(obj, self.phase == "wait"):
            return False
        me = tools.get_ident()
        if self.window_thread is not None:
            # It is the steps that count. The profiler ends where it began: in
            # another thread the clock sees to it.
            if self.window_thread != me:
                return False
            self.drop_window()
        if self.timer is not None and self.phase != "record":
            self.stop_timer()  # a program that shows its steps needs no clock
        if self.thread is None or self.source is None:
            if self.thread != me:
                s.last = None  # the time between calls of two threads is no step
            self.thread = me
        return me == self.thread

    def border(self, s):
        """The border between two steps, at a place outside every operator."""
        now = tools.clock()
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
                if self.warm == 0:
                    self.clock_step()
            else:
                self.recorded += 1
                self.clock_step()
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
            if self.timed():
                self.times()
                if not self.start_samples():
                    self.leave()
                    return
        elif self.phase == "sample" and self.host.step():
            self.leave()
            return
        s.last = tools.clock()

    def timed(self):
        """Whether steps enough were timed after the recording."""
        n = len(self.after)
        return n >= max(AFTER_STEPS, self.steps) or n >= AFTER_FEWEST and sum(self.after) > AFTER_S

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

    @tools.safe
    def on_step(self, optimizer, *_):
        if self.in_backward():
            # An optimizer for each parameter, within the backward pass: no border of a step.
            self.backward_steps = True
            return
        me = tools.get_ident()
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
        self.pending = tools.get_ident()

    def settle(self):
        """Draw the border that waits, in the thread whose step it ends."""
        if self.pending and self.pending == tools.get_ident():
            self.pending = None
            self.border(self.sources["optimizer"])

    def settle_at_exit(self):
        """The border that waits for the end of the program. What came after the last step (an
        evaluation, a checkpoint) is not that step's: it is not timed, and where it is
        longer than any step that was, the step stays a part of one. In a history of memory the
        step is over, however long that took."""
        if not self.pending:
            return
        self.pending = None
        s, now = self.sources["optimizer"], tools.clock()
        longest = max([*s.before, *self.during], default=None)
        if self.memory is None and self.recorded > 0 and self.warm == 0 and s.last is not None and longest is not None and now - s.last > 2 * longest:
            return
        s.last = None
        self.border(s)

    @tools.safe
    def on_zero_grad(self, optimizer):
        if self.in_backward():
            return
        self.settle()
        if self.sources["optimizer"].total == 0 and self.mark("zero_grad", optimizer):
            self.border(self.sources["zero_grad"])

    @tools.safe
    def on_loader(self, it):
        if self.worker():
            return
        self.stock.look(it)
        self.look_at_loader(it)
        self.settle()
        if self.mark("loader", getattr(it, "_dataset", None)):
            self.border(self.sources["loader"])

    @tools.safe
    def on_module(self, module):
        if self.mark("module", module):
            if self.worker():
                self.leave()
                return
            self.border(self.sources["module"])

    @tools.safe
    def on_backward(self, name, *_):
        """A backward pass begins: the mark of a program that updates its parameters without an optimizer."""
        if self.in_backward() or self.worker():
            return
        s = self.sources["optimizer"]
        if s.total == 0 and self.sources["zero_grad"].total == 0 and self.mark("backward", self.functions[name]):
            self.border(self.sources["backward"])

    def worker(self):
        """A DataLoader's worker is never profiled: it has no steps."""
        data = sys.modules.get("torch.utils.data")
        return data is not None and data.get_worker_info() is not None


def install(torch, here, waiter):
    hook = Hook(torch, here, waiter)
    hook.install()
    return hook
