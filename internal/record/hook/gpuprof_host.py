"""Clocks and stack samples of the thread that makes the steps: where the host's time goes.

Sizes come from steps without samples: the clocks are read at the borders of recorded steps. Names come from
later steps, in which a thread of the hook samples the stack. The sampler needs the interpreter's lock (GIL),
so the interpreter's switch interval is SWITCH_S in these steps: at its default of 5 ms the sampler would
see the program only where that releases the lock itself, in operators and waits.
"""

import json
import os
import sys
import time

tools = part("gpuprof_tools")  # noqa: F821, see part in gpuprof_hook
names = part("gpuprof_names")  # noqa: F821

SWITCH_S = 1e-4
GAP_S, FIRST_GAP_S = 0.012, 0.005  # between two samples; between the first ones, for programs that end soon
FIRST = 100  # samples that are taken more often
LEAST_S = 0.001  # that a sample stands for
ENOUGH = 200  # samples
MOST_S = 5.0  # steps are sampled for so long, or until enough samples are there
LONGEST_S = 12.0  # a step that takes longer is left within it
WINDOW_S = 3.0  # of a program without steps
FEWEST_STEPS, MOST_STEPS = 3, 2000  # that are sampled
BORDERS = 64  # frames around borders that are kept, at least
DEPTH = 128  # frames of a sample, at most


class Clocks:
    """Clocks of one thread: wall, CPU, run delay (-1 unknown) and CPU of the whole process, seconds."""

    def __init__(self, ident, native):
        self.clock_id = time.pthread_getcpuclockid(ident)
        self.sched = self.open(native, "schedstat")
        self.stat = self.open(native, "stat")

    @staticmethod
    def open(native, name):
        try:
            return os.open("/proc/self/task/%d/%s" % (native, name), os.O_RDONLY)
        except OSError:
            return None

    def read(self):
        # The CPU clock first: reading it brings the thread's sums in schedstat up to date.
        cpu, delay = time.clock_gettime(self.clock_id), -1.0
        if self.sched is not None:
            try:
                delay = int(os.pread(self.sched, 64, 0).split()[1]) / 1e9
            except (OSError, ValueError, IndexError):
                self.sched = None
        return tools.clock(), cpu, delay, time.process_time()

    def state(self):
        """R where the thread runs or wants to, S or D where it is blocked; "" unknown."""
        if self.stat is None:
            return ""
        try:
            text = os.pread(self.stat, 512, 0)
            return chr(text[text.rindex(b")") + 2])
        except (OSError, ValueError, IndexError):
            self.stat = None
            return ""

    def close(self):
        for fd in (self.sched, self.stat):
            if fd is not None:
                try:
                    os.close(fd)
                except OSError:
                    pass
        self.sched = self.stat = None


def difference(a, b):
    """The advance of the clocks from a to b: wall, CPU, run delay (-1 unknown), CPU of other threads."""
    delay = b[2] - a[2] if a[2] >= 0 and b[2] >= 0 else -1.0
    cpu = b[1] - a[1]
    return [b[0] - a[0], cpu, delay, max(0.0, b[3] - a[3] - cpu)]


def pressure():
    """Seconds in which some task of the machine waited for a CPU, and in which this cgroup was throttled; -1 unknown."""
    waited = throttled = -1.0
    try:
        with open("/proc/pressure/cpu", encoding="ascii") as f:
            waited = int(f.readline().rsplit("total=", 1)[1]) / 1e6
    except (OSError, ValueError, IndexError):
        pass
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as f:
            groups = [line.rstrip("\n").split(":", 2) for line in f]
        for _, kinds, path in groups:
            if kinds and "cpu" not in kinds.split(","):
                continue
            root, field, unit = ("/sys/fs/cgroup", "throttled_usec", 1e6) if not kinds else ("/sys/fs/cgroup/cpu", "throttled_time", 1e9)
            for where in (root + path, root):
                try:
                    with open(os.path.join(where, "cpu.stat"), encoding="ascii") as f:
                        fields = dict(line.split() for line in f)
                except (OSError, ValueError):
                    continue
                if field in fields:
                    throttled = int(fields[field]) / unit
                    break
    except (OSError, ValueError):
        pass
    return waited, throttled


class Accounts:
    """The part of the hook that accounts for the host's step."""

    def clock_step(self):
        """A border of recorded steps; the first one begins the account."""
        if self.memory is not None or self.no_account:
            return
        try:
            if self.host is None or self.host.thread != tools.get_ident():
                self.host = Host(self, tools.get_ident(), tools.native_id())
            self.host.border()
        except Exception as e:
            self.give_up_account(e)

    def give_up_account(self, e):
        """The account is lost, and the recording goes on without it."""
        self.tell("host-failed", text="%s: %s" % (type(e).__name__, str(e)[:300]))
        host, self.host, self.no_account = self.host, None, True
        if host is not None:
            host.restore_switch()

    def account_recorded(self, window):
        """The recording ends."""
        if self.host is None:
            return
        try:
            self.host.recording_ends(window)
        except Exception as e:
            self.give_up_account(e)

    def clocks_of_fetch(self):
        """The clocks as a fetch begins in a recorded step, None elsewhere."""
        host = self.host
        if host is None or self.phase != "record" or host.last is None or host.thread != tools.get_ident():
            return None
        try:
            return host.clocks.read()
        except Exception:
            return None

    def fetched(self, before):
        try:
            if self.host is not None:
                self.host.loader.append(difference(before, self.host.clocks.read()))
        except Exception:
            pass

    def look_at_loader(self, it):
        """Keep the settings of a data loader."""
        facts = self.loader_facts
        facts["workers"] = getattr(it, "_num_workers", 0)
        facts["prefetch"] = getattr(it, "_prefetch_factor", None)
        facts["persistent"] = bool(getattr(it, "_persistent_workers", False))
        try:
            facts["batches"] = len(it)
        except Exception:
            facts["batches"] = 0

    def started(self, took):
        """Workers of a data loader were started. The first start of a program makes more than the others."""
        facts = self.loader_facts
        facts["starts"] = facts.get("starts", 0) + 1
        if facts["starts"] > 1:
            facts["start_s"] = facts.get("start_s", 0.0) + took

    def start_samples(self):
        """Sample the steps that follow; false where none are sampled."""
        if self.host is None or self.memory is not None:
            return False
        try:
            self.phase = "sample" if self.source is not None else self.phase
            self.host.start(self.source is None)
            self.tell("sampling")
            return True
        except Exception as e:
            self.give_up_account(e)
            return False

    def stop_samples(self):
        """End the samples, if any are taken, and write them."""
        host, self.host = self.host, None
        if host is not None:
            host.end()
            host.clocks.close()


class Host:
    """The host account of one thread, from the first recorded step to the last sampled one."""

    def __init__(self, hook, thread, native):
        self.hook = hook
        self.thread = thread
        self.clocks = Clocks(thread, native)
        self.switches, self.last_switches = names.switch_counter(), (0, 0)
        self.recorded, self.sampled = [], []  # clocks by step
        self.loader = []  # clocks of fetches in recorded steps
        self.last = None
        self.first_pressure = self.last_pressure = None
        self.stacks, self.borders, self.facts = {}, set(), {}
        self.taken = self.own = 0
        self.stop = self.ended = None
        self.paused = self.told = False
        self.began = self.until = 0.0
        self.switch = 0.0
        self.pid = os.getpid()

    # -- recorded steps: clocks alone ------------------------------------------

    def border(self):
        """A border of recorded steps."""
        now, switches = self.clocks.read(), self.switches()
        if self.last is not None:
            self.recorded.append(difference(self.last, now) + [b - a for a, b in zip(self.last_switches, switches)])
        else:
            self.first_pressure = pressure()
        self.last, self.last_switches = now, switches

    def recording_ends(self, window):
        """The recording ends at a border, unless it was a window of time."""
        if window:
            self.border()
        self.last = None
        self.last_pressure = pressure()

    # -- sampled steps -----------------------------------------------------------

    def start(self, window):
        """Begin to sample: steps, at a border, or a window of time."""
        self.facts = names.facts(self.hook)
        self.began, self.last = tools.clock(), self.clocks.read()
        self.until = self.began + (WINDOW_S if window else LONGEST_S)
        self.resume()

    def resume(self):
        """Start the thread that samples."""
        import _thread

        self.paused = False
        self.stop, self.ended = _thread.allocate_lock(), _thread.allocate_lock()
        self.stop.acquire()
        self.ended.acquire()
        self.switch = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        _thread.start_new_thread(self.run, ())

    def pause(self):
        """Stop the thread for a fork; true where there was one to stop."""
        if self.stop is None or self.told:
            return False
        self.paused = True
        self.end()
        return True

    def step(self):
        """A border of sampled steps; true when there are samples enough."""
        self.keep_border()
        now = self.clocks.read()
        self.sampled.append(difference(self.last, now))
        self.last = now
        if self.told:
            return True
        n = len(self.sampled)
        return n >= MOST_STEPS or n >= FEWEST_STEPS and (self.taken >= ENOUGH or tools.clock() - self.began > MOST_S)

    def keep_border(self):
        """Keep the frames around a border: their lines have the whole step below them."""
        if len(self.borders) < BORDERS:
            frame = sys._getframe()
            while frame is not None:
                if not frame.f_code.co_filename.startswith(names.HERE):
                    self.borders.add((frame.f_code, frame.f_lasti, frame.f_lineno))
                frame = frame.f_back

    def end(self):
        """Stop the sampler, and wait until what it has is written."""
        stop, self.stop = self.stop, None
        if stop is None:
            return
        stop.release()
        self.ended.acquire(timeout=2.0)

    def restore_switch(self):
        # The program may have set another interval meanwhile: that one stays.
        if self.switch > 0 and abs(sys.getswitchinterval() - SWITCH_S) < 1e-6:
            sys.setswitchinterval(self.switch)
        self.switch = 0.0

    def run(self):
        """Runs in a thread of its own."""
        ended = self.ended
        try:
            self.delay = names.OwnDelay()
            self.sample(self.stop)
            self.delay.close()
        except Exception as e:
            self.hook.tell("host-failed", text="%s: %s" % (type(e).__name__, str(e)[:300]))
        finally:
            try:
                self.restore_switch()
                if os.getpid() == self.pid and not self.paused:
                    self.told = True
                    self.write()
            except Exception as e:
                self.hook.tell("host-failed", text="%s: %s" % (type(e).__name__, str(e)[:300]))
            ended.release()

    def sample(self, stop):
        waits, thread, here = names.switch_counter(), self.thread, names.HERE
        before, last, delayed = waits()[0], self.clocks.read(), self.delay.read()
        while not stop.acquire(timeout=FIRST_GAP_S if self.taken < FIRST else GAP_S):
            # One voluntary switch is the pause; another one is the wait for the interpreter's lock.
            held = waits()[0] - before > 1
            stack, inside = [], False
            running = sys._current_frames()
            frame, alone = running.get(thread), len(running) <= 2  # this thread and the sampled one
            running = None
            if frame is None:
                return  # the thread has ended
            try:
                stack = names.task_frames(frame, self.taken)
                frame = frame.f_back if stack else frame
            except Exception:
                pass  # tasks come and go meanwhile
            while frame is not None and len(stack) < DEPTH:
                if frame.f_code.co_filename.startswith(here):
                    inside = inside or not stack
                else:
                    stack.append((frame.f_code, frame.f_lasti, frame.f_lineno, frame.f_globals if not stack else None))
                frame = frame.f_back
            state, now = self.clocks.state(), self.clocks.read()
            weight, cpu, _, others = difference(last, now)
            cpu, others = cpu / max(weight, LEAST_S), others / max(weight, LEAST_S)
            last = now
            # While the sampler itself waited for a CPU, what the other thread did is unknown.
            late, delayed = delayed, self.delay.read()
            weight = max(weight - (delayed - late), LEAST_S)
            if inside:
                self.own += 1  # the hook itself was at work
            elif stack:
                code, lasti, line, scope = stack[0]
                # Alone no thread can keep the interpreter's lock: others at work are of a library.
                key = (names.doing(held, state, cpu, 0.0 if alone else others), tuple((c, i, n) for c, i, n, _ in stack))
                e = self.stacks.setdefault(key, [0.0, 0, scope])
                e[0] += weight
                e[1] += 1
                self.taken += 1
            stack = frame = None
            if now[0] > self.until or self.taken >= 2 * ENOUGH:
                return
            before = waits()[0]

    # -- the file ----------------------------------------------------------------

    def write(self):
        """Write the samples: a line for the whole, then one for each stack, outermost frame first."""
        hook, table = self.hook, names.Frames()
        stacks = []
        for (doing, frames), (ns, count, scope) in self.stacks.items():
            leaf = table.leaf(frames[0], scope)
            stacks.append({"doing": doing, "callee": leaf, "s": round(ns, 6), "count": count, "frames": [table.number(f) for f in reversed(frames)]})
        waited = throttled = -1.0
        if self.first_pressure is not None and self.last_pressure is not None:
            waited, throttled = (b - a if a >= 0 and b >= 0 else -1.0 for a, b in zip(self.first_pressure, self.last_pressure))
        rank = hook.rank()
        name = "samples-%d.jsonl" % self.pid if rank is None else "samples-rank%d.jsonl" % rank
        head = {"version": 1, "pid": self.pid, "recorded": rounded(self.recorded), "loader": rounded(self.loader), "sampled": rounded(self.sampled),
                "samples": self.taken, "own": self.own, "waited_s": waited, "throttled_s": throttled, "facts": self.facts,
                "borders": [table.number(f) for f in self.borders], "frames": table.list}
        with open(os.path.join(hook.out, name), "w", encoding="utf-8") as f:
            for line in [head, *stacks]:
                f.write(json.dumps(line) + "\n")
        hook.tell("host", file=name, samples=self.taken)


def rounded(rows):
    return [tools.round_all(r) for r in rows]
