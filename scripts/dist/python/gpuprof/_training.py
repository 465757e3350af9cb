"""The parts that callbacks of training frameworks share: which ranks record, and what happens with the analysis."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any, Callable, Collection, List, Optional, Union

from . import _loggers
from ._documents import Analysis
from ._errors import GpuprofError, GpuprofWarning
from ._profile import Steps, profile

Ranks = Union[Collection[int], str]
Log = Callable[[Analysis, int], List[str]]


class Recording:
    """Records steps of a training on the ranks that are asked for, and gives the analysis to the loggers once."""

    def __init__(self, steps: Steps, skip: Optional[int], ranks: Ranks, out: Union[str, "os.PathLike[str]"], shapes: bool, stacks: bool) -> None:
        if isinstance(ranks, str) and ranks != "all":
            raise GpuprofError("recording ranks %r: it is no list of numbers" % ranks, 'give ranks=(0, 3), or ranks="all"')
        self.options = {"steps": steps, "skip": skip, "shapes": shapes, "stacks": stacks, "out": out}
        profile(**self.options)  # type: ignore[arg-type]  # a wrong value is told before the training
        self.ranks = ranks
        self.profile: Optional[profile] = None
        self.logged: Optional[List[str]] = None
        self.mlflow_run: Optional[str] = None  # that was active during the training

    def start(self, rank: int, world: int) -> None:
        """The training begins; one that begins again is not recorded again."""
        if self.profile is not None or self.ranks != "all" and rank not in self.ranks:
            return
        self.profile = profile(rank=rank if world > 1 else None, explicit=True, **self.options)  # type: ignore[arg-type]
        try:
            self.profile.__enter__()
        except GpuprofError as e:
            self.profile._closed = True
            self.profile._error = e
            warnings.warn(str(e), GpuprofWarning, stacklevel=3)

    def step(self, number: int, log: Log) -> None:
        """A step of the training has ended; number is how many were made."""
        if self.profile is not None and self.logged is None:
            self.profile.step()
            self.mlflow_run = self.mlflow_run or _loggers.mlflow_run()
            self.tell(self.profile.poll(), number, log)

    def end(self, number: int, log: Log, failed: bool = False) -> None:
        if self.profile is None:
            return
        self.profile.close(wait=not failed)
        self.tell(self.profile._analysis, number, log)

    def tell(self, analysis: Optional[Analysis], number: int, log: Log) -> None:
        if analysis is None or self.logged is not None:
            return
        self.logged = log(analysis, number)
        print("gpuprof: %s" % analysis.answer, file=sys.stderr)

    @property
    def analysis(self) -> Analysis:
        if self.profile is None:
            raise GpuprofError("reading the analysis: this rank recorded nothing", "name it in ranks=, and read it after the training")
        return self.profile.analysis


class Recorded:
    """The results of a callback's recording, which it keeps in self._recording."""

    _recording: Recording

    @property
    def analysis(self) -> Analysis:
        return self._recording.analysis

    @property
    def recorded(self) -> range:
        """The steps that were recorded, from 0 on."""
        return self._recording.profile.recorded if self._recording.profile is not None else range(0)

    @property
    def logged(self) -> List[str]:
        """The loggers that have the findings."""
        return list(self._recording.logged or [])
