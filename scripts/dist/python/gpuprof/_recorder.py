"""Records steps of this process with the recorder of `gpuprof run`, driven by explicit borders of steps.

The recorder lies in _hook, the same files that `gpuprof run` gives to the programs it starts: how it warms the profiler
up, waits for a loader's stock to fall, bounds time and memory, and writes the trace are its decisions.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import json
import os
import sys
from typing import Any, Dict, List, Optional

SKIP, STEPS = 10, 5  # as `gpuprof run` has them
LONGEST_S = 60.0  # of a recording, unless a number of steps was asked for by name

# Reasons for which the recorder records nothing, in words.
REASONS = {
    "own-profiler": "the program uses PyTorch's profiler itself",
    "forked": "the process was forked from one that was being recorded",
    "nsys": "Nsight Systems records this process already",
    "many-processes": "the folder has the traces of 64 processes already",
}


class Waiter:
    """Stands for the recorder's wait for modules, which begins before torch is imported."""

    def __init__(self) -> None:
        self.then: Dict[str, Any] = {}


@functools.lru_cache(maxsize=None)
def hook() -> Any:
    """The recorder's module, apart from one that `gpuprof run` may have loaded."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_hook", "gpuprof_hook.py")
    spec = importlib.util.spec_from_file_location("_gpuprof_recorder", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_config(folder: str, steps: int, skip: Optional[int], exact: bool, shapes: bool, stacks: bool) -> None:
    """config.json, as `gpuprof run` writes it for its hook."""
    config = {
        "out": folder, "status": os.path.join(folder, "hook.jsonl"), "steps": steps, "skip": SKIP if skip is None else skip,
        "skip_exact": skip is not None, "shapes": shapes, "stacks": stacks, "memory": False,
        "window_s": 2.0, "window_after_s": 20.0, "longest_s": 1e9 if exact else LONGEST_S,
    }
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)


def recorder(torch: Any, folder: str, rank: Optional[int], explicit: bool) -> Any:
    """A recorder that is installed in this process and waits for its first step."""
    made = steps_class()(torch, folder, rank, explicit)
    made.install()
    return made


@functools.lru_cache(maxsize=None)
def steps_class() -> Any:
    base, marks = hook().Hook, hook().marks

    class Steps(base):  # type: ignore[misc, valid-type]
        """The recorder of one block of this process: its steps end at step(), or at the recorder's own marks."""

        def __init__(self, torch: Any, folder: str, rank: Optional[int], explicit: bool) -> None:
            self.events: List[Dict[str, Any]] = []
            self.told_rank, self.explicit = rank, explicit
            super().__init__(torch, folder, Waiter())

        def fresh(self) -> None:
            super().fresh()
            self.sources["step"] = marks.Source("step", 1, True)
            self.no_account = True  # stacks are sampled after the recording, and this recording has an end

        def install(self) -> None:
            if not self.explicit:
                super().install()
                return
            self.tell("torch", version=str(getattr(self.torch, "__version__", "unknown")), rank=self.rank(), argv=sys.argv[:1])
            self.watch_profilers()
            loader = sys.modules.get("torch.utils.data.dataloader")
            if loader is not None:
                self.hook_loader(loader)
            atexit.register(self.flush)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(before=self.before_fork, after_in_parent=self.after_fork, after_in_child=self.in_child)

        def wait_for(self, name: str, then: Any) -> None:
            """The loader's module is imported already, or the block has no loader."""

        def rank(self) -> Optional[int]:
            return self.told_rank if self.told_rank is not None else super().rank()

        def tell(self, event: str, **fields: Any) -> None:
            self.events.append(dict(fields, event=event))
            super().tell(event, **fields)

        def start_timer(self) -> None:
            if self.phase == "record":  # no window of time is recorded here
                super().start_timer()

        def start_samples(self) -> bool:
            return False

        def timed(self) -> bool:
            return True  # the recording ends the wait: no later step is timed

        def mark(self, name: str, obj: Any) -> bool:
            if self.explicit and name != "step":
                return False
            return bool(super().mark(name, obj))

        def in_child(self) -> None:
            """A forked process, such as a data loader's worker, is not recorded."""
            self.timer, self.phase, self.profiler = None, "done", None

        def begin_now(self) -> None:
            """Record from the block's first step on: no step is left out."""
            self.guarded(lambda: self.begin(self.sources["step"]))

        def step(self) -> None:
            """A step has ended."""
            if not self.explicit and self.source is None:
                self.explicit, self.pending = True, None
                self.unhook_modules()
            self.guarded(self.border_of_step)

        def border_of_step(self) -> None:
            if self.mark("step", self):
                self.border(self.sources["step"])

        def guarded(self, f: Any) -> None:
            """Call f as the hook's own marks are called: what goes wrong in it is told, and kept from the program."""
            if self.phase == "done" or getattr(self.here, "inside", False):
                return
            self.here.inside = True
            try:
                f()
            except Exception as e:
                self.fail("step", e)
            finally:
                self.here.inside = False

        def close(self) -> None:
            """The block has ended: keep what was recorded, and take everything out."""
            self.here.inside = True
            try:
                self.flush()
            finally:
                self.here.inside = False
            self.unhook_modules()
            self.take_out()
            self.stop_timer()
            while self.handles:
                self.handles.pop().remove()
            atexit.unregister(self.flush)

        # What came of it.

        def found(self, event: str) -> Dict[str, Any]:
            """The last event of a name, {} where there was none."""
            return next((e for e in reversed(self.events) if e["event"] == event), {})

        def trace(self) -> str:
            """The trace that was written, "" none."""
            name = str(self.found("trace").get("file", ""))
            return str(os.path.join(self.out, name)) if name else ""

        def why_not(self) -> str:
            """Why there is no trace, as the second part of a sentence."""
            for event, key in (("error", "text"), ("trace", "error")):
                if self.found(event).get(key):
                    return "the recorder gave up: %s" % self.found(event)[key]
            reason = self.found("aside").get("reason", "")
            if reason:
                return str(REASONS.get(reason, reason))
            done = max(self.best()[1], self.sources["step"].total)
            if done == 0:
                return "the block showed no step; call step() at the end of each"
            if self.found("empty"):
                return "the recorded steps hold no operator of PyTorch"
            return "the block ended after %d steps, and %d are left out before the recording; give skip=%d" % (done, self.skip, max(0, min(self.skip, done - 2)))

    return Steps
