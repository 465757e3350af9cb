"""A device whose memory is one recorded snapshot; a program uses it by `torch.cuda._lazy_init()`."""

import gzip
import os

_HERE = os.path.dirname(os.path.abspath(__file__))
_SNAPSHOT = os.path.join(_HERE, "..", "..", "memory", "%s.pickle.gz")
state = {"initialized": False, "used": False, "history": None, "observer": None, "oom": False, "calls": []}


class OutOfMemoryError(RuntimeError):
    pass


class _C:
    @staticmethod
    def _cuda_attach_out_of_memory_observer(observer):
        state["observer"] = observer

    graph_task = -1  # of the backward pass that runs, -1 none

    @staticmethod
    def _current_graph_task_id():
        return _C.graph_task


class memory:
    @staticmethod
    def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=0):
        state["history"] = enabled
        state["calls"].append([enabled, stacks])

    @staticmethod
    def _dump_snapshot(filename):
        if state["history"] is None:
            raise RuntimeError("the history is off")
        with gzip.open(_SNAPSHOT % ("oom" if state["oom"] else "clean")) as f, open(filename, "wb") as out:
            out.write(f.read())


class cuda:
    memory = memory
    OutOfMemoryError = OutOfMemoryError

    @staticmethod
    def is_initialized():
        return state["initialized"]

    @staticmethod
    def _lazy_init():
        state["initialized"] = True

    @staticmethod
    def device_count():
        return 1

    @staticmethod
    def max_memory_reserved(_device=0):
        return 1 << 20 if state["used"] else 0


def use():
    """A tensor on the device."""
    cuda._lazy_init()
    state["used"] = True


def fail():
    """A request that the device cannot serve."""
    use()
    state["oom"] = True
    if state["observer"] is not None:
        state["observer"](0, 1 << 30, 1 << 30, 0)
    raise OutOfMemoryError("CUDA out of memory")
