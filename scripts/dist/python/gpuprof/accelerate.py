"""For loops that are written by hand with Hugging Face's Accelerate: gpuprof.accelerate.profile."""

from __future__ import annotations

import os
from typing import Any, List, Optional, Union

from . import _loggers
from ._documents import Analysis
from ._profile import Steps
from ._training import Ranks, Recorded, Recording


class profile(Recorded):
    """Records steps of a loop, and logs the findings to the accelerator's trackers.

        with gpuprof.accelerate.profile(accelerator, steps=range(20, 25)) as p:
            for batch in loader:
                …
                p.step()

    steps, skip, shapes and stacks are those of gpuprof.profile; ranks are the ranks that record (or "all"), out is the folder for
    traces, analyses and reports.
    """

    def __init__(self, accelerator: Any, *, steps: Steps = None, skip: Optional[int] = None, ranks: Ranks = (0,),
                 out: Union[str, "os.PathLike[str]"] = "gpuprof-accelerate", shapes: bool = False, stacks: bool = False) -> None:
        self._accelerator = accelerator
        self._recording = Recording(steps, skip, ranks, out, shapes, stacks)
        self._number = 0

    def __enter__(self) -> "profile":
        self._recording.start(self._accelerator.process_index, self._accelerator.num_processes)
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self._recording.end(self._number, self._log, failed=kind is not None)

    def step(self) -> None:
        """A step of the loop has ended."""
        self._number += 1
        self._recording.step(self._number, self._log)

    def _log(self, analysis: Analysis, number: int) -> List[str]:
        done: List[str] = []
        for tracker in self._accelerator.trackers:
            target = tracker.tracker
            if tracker.name == "mlflow":
                if _loggers.guarded("MLflow", lambda: _loggers.mlflow(_client(), target.info.run_id, analysis, number)):
                    done.append("MLflow")
            else:
                done += filter(None, [_loggers.to_known(target, analysis, number)])
        return done + _loggers.to_active(analysis, number, done, self._recording.mlflow_run)


def _client() -> Any:
    import mlflow

    return mlflow.MlflowClient()
