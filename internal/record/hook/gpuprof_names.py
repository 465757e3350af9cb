"""Names of what a sampled thread was doing: frames, the expression that a frame evaluates, and whose code it calls."""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LONGEST = 100  # characters of an expression
MOST_FILE = 4 << 20  # bytes of a source file
BUSY, IDLE = 0.5, 0.3  # parts of the time between two samples that a thread was on a CPU
COMPILERS = ("/jax/_src/compiler.py", "/numba/core/compiler.py")
ROOT = re.compile(r"\s*(?:return\s+|await\s+)?([A-Za-z_]\w*)\s*([.(\[]?)")


def switch_counter():
    """A function that counts the voluntary and the involuntary context switches of the calling thread; always
    zeros where they are not counted."""
    try:
        import resource

        usage, who = resource.getrusage, resource.RUSAGE_THREAD
        usage(who)
    except (ImportError, AttributeError, OSError, ValueError):
        return lambda: (0, 0)

    def count():
        u = usage(who)
        return u.ru_nvcsw, u.ru_nivcsw

    return count


def switches_of(native):
    """A function that counts the voluntary and the involuntary context switches of a thread of this process; always
    zeros where they are not counted."""
    path = "/proc/self/task/%d/status" % native

    def count():
        try:
            with open(path, encoding="ascii", errors="replace") as f:
                found = [int(line.split()[1]) for line in f if "ctxt_switches" in line]
            return tuple(found) if len(found) == 2 else (0, 0)
        except (OSError, ValueError, IndexError):
            return 0, 0

    return count


class OwnDelay:
    """The seconds that the calling thread has waited for a CPU; always 0 where they are not counted."""

    def __init__(self):
        try:
            self.fd = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            self.fd = None

    def read(self):
        if self.fd is None:
            return 0.0
        try:
            return int(os.pread(self.fd, 64, 0).split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            self.fd = None
            return 0.0

    def close(self):
        fd, self.fd = self.fd, None
        if fd is not None:
            os.close(fd)


def doing(held, state, cpu, others):
    """What the thread does, by whether the sampler had to wait for the interpreter's lock, the thread's state in
    the system, and the parts of the time since the last sample that it and other threads were on a CPU.

    python: it runs Python, or C code that keeps the lock. native: it runs without the lock. blocked: it
    sleeps or waits. lock: another thread kept the lock from it, or from the sampler while it waited.
    """
    if held:
        # A thread that waits for the lock is asleep: one that is ready has lost its CPU, and may hold the lock itself.
        if cpu < IDLE and others > BUSY and state != "R":
            return "lock"
        return "blocked" if state in ("S", "D") and cpu < IDLE else "python"
    if state:
        return "blocked" if state in ("S", "D") else "native"
    return "native" if cpu >= BUSY else "blocked"


def task_frames(frame, turn):
    """The frames of a task, innermost first, where the event loop of asyncio waits for its tasks; tasks take turns.
    [] where the thread does something else. A task that waits for other tasks is left out, if any does not."""
    loop = frame.f_back
    if frame.f_code.co_name != "select" or loop is None or loop.f_code.co_name != "_run_once":
        return []
    asyncio = sys.modules["asyncio"]
    tasks = sorted(asyncio.all_tasks(loop.f_locals["self"]), key=id)
    leaves = [t for t in tasks if not isinstance(getattr(t, "_fut_waiter", None), asyncio.Task)]
    leaves = [t for t in leaves if type(getattr(t, "_fut_waiter", None)).__name__ != "_GatheringFuture"] or tasks
    if not leaves:
        return []
    stack, coroutine = [], leaves[turn % len(leaves)].get_coro()
    while getattr(coroutine, "cr_frame", None) is not None:
        f = coroutine.cr_frame
        stack.append((f.f_code, f.f_lasti, f.f_lineno, None))
        coroutine = coroutine.cr_await
    return stack[::-1]


def compiling(frame):
    """Whether a frame runs below a compiler of JAX or Numba."""
    while frame is not None:
        if frame.f_code.co_filename.endswith(COMPILERS):
            return True
        frame = frame.f_back
    return False


class Frames:
    """The table of frames of a file of samples."""

    def __init__(self):
        self.list, self.numbers, self.sources = [], {}, {}
        self.roots = sorted(libraries(), key=len, reverse=True)
        self.here = os.path.join(os.getcwd(), "")

    def number(self, frame):
        """The place of a frame in the list: [file, function, line, expression, library]."""
        if frame not in self.numbers:
            code, lasti, line = frame
            path, library = self.place(code.co_filename)
            text = self.text(code, lasti, line)
            self.numbers[frame] = len(self.list)
            self.list.append([path, getattr(code, "co_qualname", code.co_name), line or 0, text, library])
        return self.numbers[frame]

    def place(self, path):
        """The path to show, and whether it is of a library: that is shown from the library's folder on."""
        if path.startswith("<"):
            return path, not path.startswith(("<stdin>", "<string>", "<ipython"))
        for root in self.roots:
            if path.startswith(root):
                return path[len(root):], True
        real = os.path.realpath(path)
        for root in self.roots:
            if real.startswith(root):
                return real[len(root):], True
        if path.startswith(self.here):
            path = path[len(self.here):]
        return os.path.normpath(path), False

    def lines(self, path):
        if path not in self.sources:
            self.sources[path] = []
            try:
                if os.path.getsize(path) <= MOST_FILE:
                    with open(path, "rb") as f:
                        self.sources[path] = f.read().split(b"\n")
            except OSError:
                pass
        return self.sources[path]

    def text(self, code, lasti, line):
        """The expression that a frame evaluates, or its line where the bytecode has no columns (before Python 3.11)."""
        last = first = end = None
        try:
            line, last, first, end = list(code.co_positions())[lasti // 2]
        except Exception:
            pass
        lines = self.lines(code.co_filename)
        if not line or line > len(lines):
            return ""
        text = lines[line - 1]
        if first is not None and (last != line or end is None or end <= first):
            text = text[first:]
        elif first is not None:
            text = text[first:end]
        return " ".join(text.decode("utf-8", "replace").split())[:LONGEST]

    def leaf(self, frame, scope):
        """Whose code the innermost frame calls: "torch", "other", or "" unknown."""
        number = self.number(frame)
        path, _, _, text, library = self.list[number]
        if library:
            return "torch" if path.startswith("torch/") else "other"
        found = ROOT.match(text)
        if not found or scope is None:
            return ""
        name = found.group(1)
        value = scope.get(name, sys.modules.get(name))
        if value is not None:
            owner = owner_of(value)
            return "torch" if owner.split(".")[0] == "torch" else "other" if owner else ""
        builtins = scope.get("__builtins__", {})
        builtins = builtins if isinstance(builtins, dict) else vars(builtins)
        return "other" if name in builtins and found.group(2) == "(" else ""


def owner_of(value):
    """The module whose code a call through this value runs, "" unknown. Nothing of the program runs for it: only
    types are looked at, and attributes of modules, functions and classes."""
    kind = type(value)
    if kind is type(sys):
        return value.__name__
    if kind in (type(owner_of), type(len)) or issubclass(kind, type):
        owner = value.__module__
        return owner if type(owner) is str else ""
    torch = sys.modules.get("torch")
    module = getattr(getattr(torch, "nn", None), "Module", None)
    return "torch" if module is not None and issubclass(kind, module) else kind.__module__


def libraries():
    """Folders of Python's own library and of installed packages, each with a slash behind it."""
    import site
    import sysconfig

    paths = {sysconfig.get_paths().get(k) for k in ("stdlib", "platstdlib", "purelib", "platlib")}
    for ask in ("getsitepackages", "getusersitepackages"):
        try:
            found = getattr(site, ask)()
            paths.update([found] if isinstance(found, str) else found)
        except Exception:
            pass
    paths.update(p for p in sys.path if p.rstrip("/\\").endswith(("site-packages", "dist-packages")))
    paths.update([os.path.realpath(p) for p in paths if p])
    return [os.path.join(p, "") for p in paths if p]


def facts(hook):
    """Settings of the program that are known to cost time."""
    torch, out = hook.torch, {}

    def look(name, f):
        try:
            value = f()
        except Exception:
            return
        if value is not None:
            out[name] = value

    look("threads", lambda: torch.get_num_threads())
    look("cpus", lambda: len(os.sched_getaffinity(0)))
    look("anomaly", lambda: bool(torch.is_anomaly_enabled()))
    look("loader", lambda: dict(hook.loader_facts) if hook.loader_facts else None)
    look("memory", memory)
    look("optimizer", lambda: optimizer(hook, torch))
    return out


def memory():
    """The memory of this process and what the system has left, bytes."""
    with open("/proc/self/statm", encoding="ascii") as f:
        resident = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with open("/proc/meminfo", encoding="ascii") as f:
        available = next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable:"))
    return {"resident": resident, "available": available}


def optimizer(hook, torch):
    """The optimizer whose step ends a recorded step."""
    anchor = hook.sources["optimizer"].anchor
    held = anchor() if anchor is not None else None
    if held is None:
        return None
    group = held.param_groups[0]
    tensors = [p for g in held.param_groups for p in g["params"]]
    return {"class": type(held).__name__, "foreach": group.get("foreach"), "fused": group.get("fused"), "parameters": len(tensors),
            "float64": sum(p.dtype == torch.float64 for p in tensors), "elements": sum(p.numel() for p in tensors)}
