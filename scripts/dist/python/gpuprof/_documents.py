"""The documents of gpuprof as objects. Each keeps its whole JSON in .json."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Tuple

from . import _binary, _html

Interval = Tuple[Optional[float], Optional[float]]


class Document:
    """A document that gpuprof wrote: str() is its table, and a notebook shows it as HTML."""

    def __init__(self, json: Dict[str, Any]) -> None:
        self.json = json
        self._text: Optional[str] = None

    @property
    def kind(self) -> str:
        return str(self.json.get("kind", ""))

    @property
    def warnings(self) -> List[Dict[str, Any]]:
        return list(self.json.get("warnings") or [])

    def save(self, path: Any, force: bool = False) -> None:
        """Write the document in the format of the path's extension (.html, .json, .md, .txt, …). Raises GpuprofError."""
        _binary.text(["report", "-", "--quiet", "-o", _binary.argument(path)] + (["--force"] if force else []), self.json)

    def __str__(self) -> str:
        if self._text is None:
            self._text = _binary.text(["report", "-", "--no-color", "--quiet"], self.json).rstrip("\n")
        return self._text

    def _repr_html_(self) -> str:
        return _html.page(self)

    # What the page of a notebook shows.

    @property
    def answer(self) -> str:
        """The verdict and the answer in one sentence."""
        a = self.json.get("answer") or {}
        return "[%s] %s" % (a["verdict"], a["sentence"]) if a.get("verdict") and a.get("sentence") else self._summary()

    def _summary(self) -> str:
        """The answer of a document that gpuprof wrote before documents had one."""
        raise NotImplementedError

    def rows(self) -> Tuple[List[str], List[List[str]]]:
        """A short table: its head and its rows."""
        return [], []


class Finding:
    """A finding of an analysis.

    claim is the largest possible saving: seconds per step of a trace, bytes of a memory snapshot. It is a bound, so interval
    begins at 0. share is the claim's part of the mean step, or of the peak. rare is the time, in seconds of the mean step after
    the recorded ones, of a cause that occurs in some steps only; None without one.
    """

    def __init__(self, json: Dict[str, Any]) -> None:
        self.json = json
        self.id = str(json.get("rule", ""))
        self.title = str(json.get("title", ""))
        self.severity = str(json.get("severity", ""))
        self.change = str(json.get("pytorch") or json.get("change") or "")
        self.verify = str(json.get("command", ""))
        self.share: Optional[float] = json.get("claim_share")
        self.caveats: List[str] = list(json.get("caveats") or [])
        ns = json.get("claim_step_ns", json.get("claim_ns"))
        self.unit = "B" if "claim_bytes" in json else "s"
        self.claim: Optional[float] = float(json["claim_bytes"]) if self.unit == "B" else ns / 1e9 if ns is not None else None
        rare = json.get("rare_step_ns")
        self.rare: Optional[float] = rare / 1e9 if rare is not None else None

    @property
    def interval(self) -> Interval:
        return (0.0, self.claim)

    @property
    def where(self) -> List[str]:
        """Call sites, the most expensive first."""
        return [str(s.get("where", "")) for s in self.json.get("sites") or []]

    def __repr__(self) -> str:
        return "Finding(%r, %r, claim=%s)" % (self.id, self.title, amount(self.claim, self.unit))


class Analysis(Document):
    """Where the time of a recorded program went."""

    @property
    def findings(self) -> List[Finding]:
        return [Finding(f) for f in self.json.get("findings") or []]

    def _summary(self) -> str:
        for f in self.findings:
            return f.title
        return str((self.json.get("bound") or {}).get("text", "")) or "The recording has no step and no finding."

    @property
    def step_s(self) -> Optional[float]:
        """The mean step, seconds; None where the recording has no steps."""
        ns = (self.json.get("step") or {}).get("ns")
        return ns / 1e9 if ns else None

    @property
    def steps(self) -> int:
        """How many recorded steps count; the first is left out."""
        return int((self.json.get("step") or {}).get("count", 0))

    @property
    def classes(self) -> Dict[str, float]:
        """Seconds of the mean step in each class of work and of idle time; they add up to the step."""
        step = self.json.get("step") or {}
        out = {str(k): v / 1e9 for k, v in (step.get("classes") or {}).items()}
        for idle in ("starved", "queued", "unknown", "outside"):
            if step.get(idle + "_ns"):
                out[idle] = step[idle + "_ns"] / 1e9
        return dict(sorted(out.items(), key=lambda item: -item[1]))

    def rows(self) -> Tuple[List[str], List[List[str]]]:
        whole = self.step_s
        if not whole:
            return [], []
        if not self.json.get("devices"):
            each = [(str(o["name"]), o.get("step_self_ns", 0) / 1e9) for o in self.json.get("operators") or []]
            return ["operator", "self, per step", "of %s" % amount(whole, "s")], [
                [name, amount(s, "s"), "%.1f %%" % (100 * s / whole)] for name, s in sorted(each, key=lambda e: -e[1])[:8] if s > 0]
        rows = [[name, amount(s, "s"), "%.1f %%" % (100 * s / whole)] for name, s in self.classes.items()]
        return ["of the mean step", amount(whole, "s"), "100 %"], rows[:8]


class MemoryAnalysis(Document):
    """Which lines hold the memory of the device."""

    @property
    def findings(self) -> List[Finding]:
        return [Finding(f) for f in self.json.get("findings") or []]

    def _summary(self) -> str:
        for f in self.findings:
            return f.title
        return "Peak of tensors: %s." % amount(self.peak_bytes, "B")

    @property
    def peak_bytes(self) -> Optional[float]:
        """Bytes of live tensors at the peak of the device that holds most."""
        peaks = [(d.get("peak") or {}).get("requested_bytes") for d in self.json.get("devices") or []]
        return max((float(p) for p in peaks if p is not None), default=None)

    def rows(self) -> Tuple[List[str], List[List[str]]]:
        devices = self.json.get("devices") or []
        if not devices:
            return [], []
        largest = max(devices, key=lambda d: (d.get("peak") or {}).get("requested_bytes") or 0)
        sites = (largest.get("peak") or {}).get("sites") or []
        return ["line", "bytes", "category"], [[os.path.basename(s["where"]), amount(s["bytes"], "B"), s.get("category", "")] for s in sites[:8]]


class Metric:
    """A metric of a comparison. ratio is new / old, interval its 95 % interval; mde is the smallest change that the data could show."""

    def __init__(self, json: Dict[str, Any]) -> None:
        self.json = json
        self.name = str(json.get("name", ""))
        self.unit = str(json.get("unit", ""))
        self.verdict = str(json.get("verdict", ""))
        self.old: Optional[float] = json.get("old")
        self.new: Optional[float] = json.get("new")
        self.ratio: Optional[float] = json.get("ratio")
        self.mde: Optional[float] = json.get("mde")
        self.reason = str(json.get("reason", ""))
        low, high = (json.get("ci95") or [None, None])[:2]
        self.interval: Interval = (low, high)

    def __repr__(self) -> str:
        return "Metric(%r, %s, ratio=%s)" % (self.name, self.verdict, self.ratio)


class Comparison(Document):
    """What changed between two results."""

    @property
    def metrics(self) -> List[Metric]:
        return [Metric(m) for m in self.json.get("metrics") or []]

    @property
    def verdict(self) -> str:
        """pass, improved, regressed, inconclusive or not comparable: the worst of the metrics' verdicts."""
        return str(self.json.get("verdict", ""))

    def _summary(self) -> str:
        new, old = (os.path.basename(str(self.json.get(side) or side)) for side in ("new", "old"))
        return "%s: %s against %s" % (self.verdict, new, old)

    def rows(self) -> Tuple[List[str], List[List[str]]]:
        return ["metric", "old", "new", "ratio", "95 %", "verdict", "MDE"], [
            [m.name, amount(m.old, m.unit), amount(m.new, m.unit), number(m.ratio, "x%.3f"),
             "%s-%s" % tuple(number(v, "%.3f") for v in m.interval), m.verdict, number(m.mde, "%.1f %%", 100)]
            for m in self.metrics[:20]
        ]


def number(value: Optional[float], form: str, factor: float = 1) -> str:
    return "-" if value is None else form % (factor * value)


def amount(value: Optional[float], unit: str) -> str:
    """A figure with its unit, three digits; "-" where there is none."""
    if value is None:
        return "-"
    if unit == "s":
        for name, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
            if abs(value) >= scale:
                return "%.3g %s" % (value / scale, name)
        return "%.3g ns" % (value / 1e-9)
    if unit == "B":
        for name, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
            if abs(value) >= scale:
                return "%.3g %s" % (value / scale, name)
        return "%d B" % value
    return "%.6g" % value if unit in ("count", "") else "%.4g %s" % (value, unit)
