"""A callback of Lightning: gpuprof.lightning.GpuprofCallback."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, List, Optional, Union

from . import _loggers
from ._documents import Analysis
from ._errors import GpuprofError
from ._profile import Steps
from ._training import Ranks, Recorded, Recording


def _base() -> Any:
    """Callback of the Lightning that the program uses: the one that is imported already, else the one that is installed."""
    names = ("lightning.pytorch", "pytorch_lightning")
    for name in sorted(names, key=lambda n: n not in sys.modules):
        try:
            return importlib.import_module(name).Callback
        except ImportError:
            continue
    raise GpuprofError("importing gpuprof.lightning: Lightning is not installed", "pip install lightning")


class GpuprofCallback(Recorded, _base()):  # type: ignore[misc]
    """Records steps of a training, and logs the findings to the trainer's loggers.

        Trainer(callbacks=[GpuprofCallback(steps=range(20, 25))])

    A step is a batch. steps, skip, shapes and stacks are those of gpuprof.profile; ranks are the global ranks that record (or
    "all"), out is the folder for traces, analyses and reports. .analysis has the analysis when the training has ended.
    """

    def __init__(self, *, steps: Steps = None, skip: Optional[int] = None, ranks: Ranks = (0,),
                 out: Union[str, "os.PathLike[str]"] = "gpuprof-lightning", shapes: bool = False, stacks: bool = False) -> None:
        super().__init__()
        self._recording = Recording(steps, skip, ranks, out, shapes, stacks)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._recording.start(trainer.global_rank, trainer.world_size)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *args: Any, **kwargs: Any) -> None:
        self._recording.step(trainer.global_step, lambda a, n: self._log(trainer, a, n))

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._recording.end(trainer.global_step, lambda a, n: self._log(trainer, a, n))

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._recording.end(trainer.global_step, lambda a, n: self._log(trainer, a, n), failed=True)

    def _log(self, trainer: Any, analysis: Analysis, number: int) -> List[str]:
        done: List[str] = []
        for logger in trainer.loggers:
            if type(logger).__name__ == "MLFlowLogger":
                if _loggers.guarded("MLflow", lambda: _loggers.mlflow(logger.experiment, logger.run_id, analysis, number)):
                    done.append("MLflow")
            else:
                done += filter(None, [_loggers.to_known(logger.experiment, analysis, number)])
        return done + _loggers.to_active(analysis, number, done, self._recording.mlflow_run)
