"""The means that the parts of the hook share: staying out of the program's way, and questions to the system."""

import _thread
import functools
import json
import os
import time

clock = time.perf_counter
get_ident = _thread.get_ident

# Where launchers tell a rank and the number of ranks: those of package launch. RANK comes
# first, since a launcher of the program's own, within gpuprof, is nearest to this process.
RANKS = (
    ("RANK", "WORLD_SIZE"),
    ("GPUPROF_RANK", "GPUPROF_WORLD"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PALS_RANKID", ""),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("FLUX_TASK_RANK", "FLUX_JOB_SIZE"),
    ("JOB_COMPLETION_INDEX", "GPUPROF_WORLD"),
)
# The first step of those that Slurm keeps for batch scripts and interactive shells.
FIRST_INTERNAL_STEP = 4294967290


def told_rank(environ):
    """The rank that a launcher told this process, None without one or where it is the only one."""

    def number(name):
        value = environ.get(name, "").strip()
        return int(value) if value.isascii() and value.isdigit() else None

    for name, world in RANKS:
        rank, ranks = number(name), number(world)
        if rank is None or ranks is not None and rank >= ranks:
            continue
        if name == "SLURM_PROCID":
            step = number("SLURM_STEP_ID")
            if ranks is None or step is None or step >= FIRST_INTERNAL_STEP:
                continue
        if ranks != 1:
            return rank
        if name != "RANK":
            return None  # the launcher that is nearest knows of no other process
    return None


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


class Teller:
    """Tells gpuprof what happens, in the status file."""

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
    return _thread._local()


def native_id():
    """The system's number of the calling thread."""
    return _thread.get_native_id()


def main_ident():
    import threading

    return threading.main_thread().ident
