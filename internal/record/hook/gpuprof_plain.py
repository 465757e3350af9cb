"""Samples the main thread of a program that does not import torch: its host account for a window of time.

The window begins once the program has imported nothing for QUIET_S and compiles nothing, and ends with enough samples or with the program.
"""

import _thread
import atexit
import json
import os
import sys
import time

tools = part("gpuprof_tools")  # noqa: F821, see part in gpuprof_hook
host = part("gpuprof_host")  # noqa: F821
names = part("gpuprof_names")  # noqa: F821

QUIET_S = 1.0
COMPILING_S = 5.0  # for so long a compilation at the start delays the window
LOOK_S = 0.1
WINDOW_S = 6.0
WINDOW = "gpuprof: sampled window"  # the event by which a reader tells such a trace
# Traces of processes in one recording; further processes are not sampled.
MAX_TRACES = 8


class Samples(host.Host):
    """The samples of a window of time, and the clocks at both ends of it."""

    def __init__(self, plain):
        super().__init__(plain, plain.thread, plain.pid)
        self.switches = names.switches_of(plain.pid)  # of the main thread
        self.opened, self.first = time.time(), None

    def sample(self, stop):
        if self.first is None:  # not after a fork
            self.border()
            self.first = self.last
        super().sample(stop)

    def write(self):
        self.last = self.first
        self.recording_ends(True)
        if self.taken and "torch" not in sys.modules:
            self.hook.write_trace(self.opened, self.recorded[0][0])
            super().write()
        else:
            self.hook.tell("empty", kind="plain")


class Plain(tools.Teller):
    """The hook of a program without torch."""

    def __init__(self, config):
        self.config = config
        self.out, self.status = config["out"], config["status"]
        self.pid, self.thread = os.getpid(), tools.main_ident()
        self.loader_facts, self.sources, self.torch = {}, {}, None
        self.host = self.stop = self.ended = None
        self.resampling = self.waiting = False
        self.done = False
        self.imported, self.since = 0, 0.0  # modules, and since when there are so many
        self.compiles = 0.0  # when a compilation was seen first

    def rank(self):
        return tools.told_rank(os.environ)

    def start(self):
        self.stop, self.ended = _thread.allocate_lock(), _thread.allocate_lock()
        self.stop.acquire()
        self.ended.acquire()
        _thread.start_new_thread(self.wait, (self.stop, self.ended))

    def wait(self, stop, ended):
        """Runs in a thread of its own until the window begins."""
        try:
            while True:
                n, now = len(sys.modules), tools.clock()
                if n != self.imported:
                    self.imported, self.since = n, now
                elif now - self.since >= QUIET_S and not self.starting(now):
                    self.open_window()
                    return
                if stop.acquire(timeout=LOOK_S):
                    return
        except Exception:
            self.done = True
        finally:
            ended.release()

    def starting(self, now):
        """Whether the main thread imports, or compiles for the first time as far as is known."""
        frame = sys._current_frames().get(self.thread)
        if tools.importing(frame):
            return True
        if not names.compiling(frame):
            return False
        self.compiles = self.compiles or now
        return now - self.compiles < COMPILING_S

    def open_window(self):
        if self.done or "torch" in sys.modules or os.getpid() != self.pid or self.is_helper():
            self.done = True
            return
        sampled = Samples(self)
        sampled.began = tools.clock()
        sampled.until = sampled.began + WINDOW_S
        self.host = sampled
        self.tell("begin", kind="plain", after=0, rank=self.rank())
        sampled.resume()

    def is_helper(self):
        """Whether this is a worker process of the program, or one of too many."""
        process = sys.modules.get("multiprocessing.process")
        if process is not None and process.parent_process() is not None:
            return True
        return sum(n.startswith("trace-") for n in os.listdir(self.out)) >= MAX_TRACES

    def write_trace(self, opened, took):
        """Write a trace of the window, without events in it."""
        rank = self.rank()
        name = "trace-%d.json" % self.pid if rank is None else "trace-rank%d.json" % rank
        event = {"ph": "X", "cat": "user_annotation", "name": WINDOW, "pid": self.pid, "tid": self.pid, "ts": opened * 1e6, "dur": took * 1e6, "args": {}}
        path = os.path.join(self.out, name)
        with open(path + ".part", "w", encoding="utf-8") as f:
            json.dump({"schemaVersion": 1, "deviceProperties": [], "traceEvents": [event]}, f)
        os.replace(path + ".part", path)
        self.tell("trace", file=name, bytes=os.path.getsize(path), whole=True, rank=rank, kind="plain", steps=0, complete=True)

    def end(self):
        """Torch was imported, or the program ends: stop, and write what there is."""
        self.done = True
        stop, self.stop = self.stop, None
        if stop is None or os.getpid() != self.pid:
            return
        stop.release()
        self.ended.acquire(timeout=0.5)
        if self.host is not None:
            self.host.end()
            self.host.clocks.close()

    # -- forks: there is no thread of ours meanwhile -----------------------------

    def before_fork(self):
        self.waiting = not self.done and self.stop is not None and self.host is None
        if self.waiting:
            self.stop.release()
            self.ended.acquire(timeout=0.5)
            time.sleep(0.002)  # the thread is about to end
        self.resampling = self.host is not None and self.host.pause()
        if self.resampling:
            time.sleep(0.002)

    def after_fork(self):
        if self.waiting:
            self.start()
        if self.resampling:
            self.host.resume()


def install(config):
    plain = Plain(config)
    atexit.register(plain.end)
    os.register_at_fork(before=plain.before_fork, after_in_parent=plain.after_fork)
    plain.start()
    return plain
