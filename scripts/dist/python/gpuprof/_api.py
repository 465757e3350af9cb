"""analyze, compare and snapshot: a verb of gpuprof, and its document as an object."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any, Dict, List, Sequence, Union

from . import _binary
from ._documents import Analysis, Comparison, Document, MemoryAnalysis
from ._errors import GpuprofError

Path = Union[str, "os.PathLike[str]"]


def analyze(paths: Union[Path, Sequence[Path]], **options: Any) -> Analysis:
    """Where a recorded program's time went, and which setting to change.

    paths are a trace, a folder of traces, or a list of them (the ranks of one job). options are the flags of
    `gpuprof analyze`: steps="1..2", window="10s..12s", output="report.html", force=True. Raises GpuprofError.
    """
    each = list(paths) if isinstance(paths, (list, tuple)) else [paths]
    if not each:
        raise GpuprofError("analyzing: no trace is named", "give a path or a list of paths")
    found = _binary.document("analyze", *_binary.flags(options), *map(_binary.argument, each))
    if found.get("kind") == "memory":
        raise GpuprofError("analyzing %s: it is a memory snapshot" % each[0], "use gpuprof.snapshot(path)")
    return Analysis(found)


def snapshot(path: Union[Path, None] = None, **options: Any) -> MemoryAnalysis:
    """Which lines hold the memory of the device.

    path is a snapshot that torch.cuda.memory._dump_snapshot wrote. Without it the snapshot is taken now, from the
    history that torch.cuda.memory._record_memory_history() records. options are the flags of `gpuprof analyze` for
    snapshots: at="end", what_if=["max_split_size_mb:64"]. Raises GpuprofError.
    """
    if path is not None:
        found = _binary.document("analyze", *_binary.flags(options), _binary.argument(path))
        if found.get("kind") != "memory":
            raise GpuprofError("reading the snapshot %s: it is a trace" % os.fspath(path), "use gpuprof.analyze(path)")
        return MemoryAnalysis(found)
    torch = sys.modules.get("torch")
    if torch is None:
        raise GpuprofError("taking a memory snapshot: torch is not imported", "import torch, or give the path of a snapshot")
    if not torch.cuda.is_available():
        raise GpuprofError("taking a memory snapshot: PyTorch has no CUDA device here, and its allocator records on a device only",
                           "run it on a machine with a GPU, or give the path of a snapshot")
    with tempfile.TemporaryDirectory(prefix="gpuprof-") as folder:
        taken = os.path.join(folder, "snapshot.pickle")
        torch.cuda.memory._dump_snapshot(taken)
        return snapshot(taken, **options)


def compare(old: Any, new: Any, **options: Any) -> Comparison:
    """What changed between two results, by how much, and the verdict.

    old and new are paths (results, traces, analyses), or objects of this package. options are the flags of
    `gpuprof compare`: threshold="3%", metric=["step"]. Raises GpuprofError. A comparison that cannot tell is no error: its
    verdict is "inconclusive".
    """
    with tempfile.TemporaryDirectory(prefix="gpuprof-") as folder:
        sides = [side(s, os.path.join(folder, name)) for s, name in ((old, "old.json"), (new, "new.json"))]
        return Comparison(_binary.document("compare", *_binary.flags(options), *sides, accepted=(0, 3)))


def side(given: Any, path: str) -> str:
    """The file of one side of a comparison; an object of this package is written to path."""
    value: Union[Dict[str, Any], List[Any], None] = given.json if isinstance(given, Document) else given if isinstance(given, (dict, list)) else None
    if value is None:
        return _binary.argument(given)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f)
    return path
