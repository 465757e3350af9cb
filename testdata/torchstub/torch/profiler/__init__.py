"""torch.profiler with its schedule, writing a small Kineto trace."""

import enum
import json
import os
import shutil
import threading
import types
import warnings

from .. import _events
from ..autograd import profiler as lower


class ProfilerActivity(enum.Enum):
    CPU = 0
    CUDA = 1


class ProfilerAction(enum.Enum):
    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(*, wait, warmup, active, repeat=0, skip_first=0):
    def action(step):
        step -= skip_first
        if step < 0 or (repeat and step >= repeat * (wait + warmup + active)):
            return ProfilerAction.NONE
        at = step % (wait + warmup + active)
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if at == wait + warmup + active - 1 else ProfilerAction.RECORD

    return action


class profile:
    exported = False  # any trace, by anyone: programs of the tests wait for it

    def __init__(self, *, activities=None, schedule=None, record_shapes=False, with_stack=False, on_trace_ready=None):
        self.schedule = schedule or (lambda step: ProfilerAction.RECORD)
        self.scheduled = schedule is not None
        self.ready = on_trace_ready
        self.options = {"record_shapes": int(record_shapes), "with_stack": int(with_stack)}
        self.step_num, self.events, self.running, self.step_rec_fn = 0, [], False, None
        results = types.SimpleNamespace(events=lambda: self.events)
        self.profiler = types.SimpleNamespace(kineto_results=results)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        warnings.warn("the stand-in's profiler begins")
        if threading.current_thread() is not threading.main_thread():
            os.write(2, b"ERROR: External init callback must run in same thread as registerClient (1 != 2)\n")
        self.enter()

    def enter(self):
        self.action = self.schedule(self.step_num)
        if self.action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE) and not self.running:
            lower.begin(self)
            self.running = True
        if self.scheduled:
            self.step_rec_fn = _events.span("ProfilerStep#%d" % self.step_num, "user_annotation")
            self.step_rec_fn.__enter__()

    def leave(self):
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__()
            self.step_rec_fn = None

    def step(self):
        self.leave()
        if self.action == ProfilerAction.RECORD_AND_SAVE:
            self.end()
        self.step_num += 1
        self.enter()

    def end(self):
        if self.running:
            self.events, self.running = lower.end(self), False
            if self.ready:
                self.ready(self)

    def stop(self):
        self.leave()
        self.end()

    def export_chrome_trace(self, path):
        ready = os.environ.get("TORCHSTUB_TRACE")
        if ready:
            shutil.copyfile(ready, path)
            return
        # As Kineto does: beside the file, then moved there; no word of a disk that is full.
        try:
            with open(path + ".tmp", "w", encoding="utf-8") as f:
                json.dump(dict(self.options, schemaVersion=1, traceEvents=self.events, traceName=os.path.basename(path)), f)
            os.replace(path + ".tmp", path)
            profile.exported = True
        except OSError:
            pass
