"""The baseline of the pytest plugin, and its judge, which is `gpuprof gate`."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any, Dict, Iterable, List

from . import _binary
from ._documents import Comparison, Metric, number
from ._errors import GpuprofError

SESSIONS = 10  # that a baseline keeps
FORMAT = "gpuprof-pytest"  # of the documents, beside what pytest-benchmark's have

Doc = Dict[str, Any]


def read(path: str) -> List[Doc]:
    """The documents of a baseline, one for each process. Raises GpuprofError."""
    try:
        with open(path, encoding="utf-8") as f:
            docs = json.load(f)
        if not isinstance(docs, list) or any(d[FORMAT]["session"] == "" or not isinstance(d["benchmarks"], list) for d in docs):
            raise ValueError("it is no list of sessions")
        return docs
    except OSError as e:
        raise GpuprofError("reading the baseline %s: %s" % (path, e.strerror or e), "make one with --gpuprof-update") from e
    except (ValueError, KeyError, TypeError) as e:
        raise GpuprofError("reading the baseline %s: it is not a file that --gpuprof-update wrote (%s)" % (path, e),
                           "name the baseline, or another file to make one", exit_code=4) from e


def write(path: str, docs: List[Doc]) -> None:
    """Write a baseline so that a reader sees it whole or not at all."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        fd, part = tempfile.mkstemp(dir=folder, prefix=".gpuprof-", suffix=".json")
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as f:
                json.dump(docs, f)
            os.chmod(part, 0o644)
            os.replace(part, path)
        except BaseException:
            os.unlink(part)
            raise
    except OSError as e:
        raise GpuprofError("writing the baseline %s: %s" % (path, e.strerror or e), "name a file in a folder that takes files") from e


def kept(docs: List[Doc]) -> List[Doc]:
    """The documents of the latest sessions."""
    order = list(dict.fromkeys(d[FORMAT]["session"] for d in docs))[-SESSIONS:]
    return [d for d in docs if d[FORMAT]["session"] in order]


def only(docs: Iterable[Doc], names: Iterable[str]) -> List[Doc]:
    """The documents with these tests alone; a process that has none is left out."""
    wanted = set(names)
    cut = [dict(d, benchmarks=[b for b in d["benchmarks"] if b["fullname"] in wanted]) for d in docs]
    return [d for d in cut if d["benchmarks"]]


def judge(old: List[Doc], new: List[Doc], thresholds: Dict[str, str]) -> Dict[str, Metric]:
    """The verdict on each test, by its name: that of `gpuprof gate`, one call for each threshold."""
    out: Dict[str, Metric] = {}
    measured = {b["fullname"] for d in new for b in d["benchmarks"]}
    known = {b["fullname"] for d in old for b in d["benchmarks"]}
    for threshold in sorted(set(thresholds.values())):
        names = [n for n, t in thresholds.items() if t == threshold and n in measured]
        if not known.intersection(names):
            continue  # all of them are new
        with tempfile.TemporaryDirectory(prefix="gpuprof-") as folder:
            sides = []
            for name, docs in (("baseline.json", old), ("now.json", new)):
                sides.append(os.path.join(folder, name))
                with open(sides[-1], "w", encoding="utf-8") as f:
                    json.dump(only(docs, names), f)
            found = Comparison(_binary.document("gate", *sides, "--threshold", threshold, accepted=(0, 1, 3)))
        out.update((m.name, m) for m in found.metrics)
    return out


def sentence(m: Metric) -> str:
    """A verdict in one line: ratio, interval, verdict, smallest slowdown that could be found."""
    low, high = m.interval
    out = m.verdict
    if m.ratio is not None and low is not None and high is not None:
        out = "x%.3f [%.3f, %.3f] %s, MDE %s" % (m.ratio, low, high, m.verdict, number(m.mde, "%.1f %%", 100))
    return out + (": " + m.reason if m.reason else "")
