"""A callback of Hugging Face's Trainer: gpuprof.transformers.GpuprofCallback."""

from __future__ import annotations

import importlib
import os
from typing import Any, List, Optional, Union

from . import _loggers
from ._documents import Analysis
from ._errors import GpuprofError
from ._profile import Steps
from ._training import Ranks, Recorded, Recording


def _base() -> Any:
    try:
        return importlib.import_module("transformers").TrainerCallback
    except ImportError as e:
        raise GpuprofError("importing gpuprof.transformers: transformers is not installed", "pip install transformers") from e


class GpuprofCallback(Recorded, _base()):  # type: ignore[misc]
    """Records steps of a training, and logs the findings to the Trainer's loggers.

        Trainer(…, callbacks=[GpuprofCallback(steps=range(20, 25))])

    A step is one of the optimizer, with all batches whose gradients it sums. steps, skip, shapes and stacks are those of
    gpuprof.profile; ranks are the ranks that record (or "all"), out is the folder for traces, analyses and reports.
    """

    def __init__(self, *, steps: Steps = None, skip: Optional[int] = None, ranks: Ranks = (0,),
                 out: Union[str, "os.PathLike[str]"] = "gpuprof-trainer", shapes: bool = False, stacks: bool = False) -> None:
        super().__init__()
        self._recording = Recording(steps, skip, ranks, out, shapes, stacks)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._recording.start(args.process_index, args.world_size)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._recording.step(state.global_step, lambda a, n: self._log(args, a, n))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._recording.end(state.global_step, lambda a, n: self._log(args, a, n))

    def _log(self, args: Any, analysis: Analysis, number: int) -> List[str]:
        done: List[str] = []
        if "tensorboard" in (args.report_to or ()) and _loggers.guarded("TensorBoard", lambda: _to_folder(folder(args), analysis, number)):
            done.append("TensorBoard")
        return done + _loggers.to_active(analysis, number, done, self._recording.mlflow_run)


def folder(args: Any) -> str:
    """Where the Trainer's own callback of TensorBoard writes."""
    return getattr(args, "logging_dir", None) or os.environ.get("TENSORBOARD_LOGGING_DIR") or os.path.join(args.output_dir, "runs")


def _to_folder(path: str, analysis: Analysis, number: int) -> None:
    """The Trainer shows its writer to no other callback: the findings go to a file of their own beside its file."""
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(log_dir=path, filename_suffix=".gpuprof") as writer:
        _loggers.tensorboard(writer, analysis, number)
