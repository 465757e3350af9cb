"""The clock of the hook: a window of time for a program without steps, and an end for steps that take too long."""

import sys
import time

tools = part("gpuprof_tools")  # noqa: F821, see part in gpuprof_hook

LOOK_S = 0.25  # between two looks at the clock of a program without steps
# A recording ends within a step when that takes so many times the longest time
# that whole steps may take.
WITHIN = 10
# How much memory of the process may grow within a recording before it ends: at the next
# border, and at once. The events of a long step are kept in it until they are written.
GROWN_BORDER = 1 << 30
GROWN_MOST = 2 << 30
GROWN_LOOK_S = 1.0


class Window:
    """The part of the hook that a thread of its own drives."""

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
            self.resampling = self.host is not None and self.host.pause()
            if self.resampling:
                time.sleep(0.002)  # as below
            if self.timer is not None and (self.phase == "wait" or self.in_steps()):
                self.forking = True
                self.stop_timer()
                self.ticking.acquire(timeout=0.2)
                time.sleep(0.002)  # the thread is about to end
        except Exception:
            pass

    def after_fork(self):
        try:
            if self.resampling and self.host is not None:
                self.host.resume()
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
            left = self.since + longest - tools.clock()
            if timer.acquire(timeout=min(max(left, LOOK_S), GROWN_LOOK_S)):
                return
            grown = tools.resident() - self.held if self.memory is None else 0
            if grown > GROWN_BORDER:
                self.grown = grown
            if self.warm == 0 and (left <= 0 or grown > GROWN_MOST):
                self.in_main(timer, self.cut_short)
                return

    @tools.safe
    def cut_short(self):
        # The profiler ends in the thread where it began; this is the main one.
        if self.in_steps() and self.thread == tools.get_ident():
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
            self.quiet.longer(tools.clock())

    def due(self):
        """Whether the program has shown no step for so long that a window may open."""
        n = len(sys.modules)
        cuda = getattr(self.torch, "cuda", None)
        touched = self.touch.seen(n) or cuda is not None and cuda.is_initialized() or any(s.total > 0 for s in self.sources.values())
        return self.quiet.look(tools.clock(), n, touched)

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

    @tools.safe
    def open_window(self):
        process = sys.modules.get("multiprocessing.process")
        if process is not None and process.parent_process() is not None and self.rank() is None:
            return  # a helper of the program; it has no time of its own to show
        if self.phase != "wait" or any(s.anchor is not None for s in self.sources.values()):
            return
        if tools.importing(sys._getframe()) and not self.quiet.may_import(tools.clock()):
            return
        self.retried("open_window", self.begin, None)

    @tools.safe
    def close_window(self):
        if self.window_thread is None:
            return
        if any(s.anchor is not None for s in self.sources.values()):
            self.drop_window()
            self.stop_timer()
            return
        self.retried("close_window", self.finish, True)
        if self.window_trace is not None:
            self.start_samples()
        # A step may still show itself: then it is what counts.
        self.phase = "wait"
