"""gpuprof.profile: records steps of this process and analyses them."""

from __future__ import annotations

import functools
import os
import shutil
import sys
import tempfile
import warnings
from typing import Any, Callable, Dict, Optional, TypeVar, Union

from . import _binary, _recorder
from ._documents import Analysis
from ._errors import GpuprofError, GpuprofWarning

F = TypeVar("F", bound=Callable[..., Any])
Steps = Union[int, range, None]

# How a finding of a recording without a file is verified.
VERIFY = "gpuprof.compare(BEFORE.analysis, AFTER.analysis), of two gpuprof.profile()"


class profile:
    """Records a few steps of a block, or of the calls of a function, with PyTorch's profiler, and analyses them.

        with gpuprof.profile() as p:            @gpuprof.profile(skip=2)
            for batch in loader:                def train_step(batch):
                train_step(batch)                   …
                p.step()                        train_step.profile.analysis

    steps is how many are recorded, or a range of them: range(20, 25) leaves out the first 20. skip is how many are left out
    before; the last of them warms the profiler up. By default 10 are left out and 5 recorded, and fewer are left out where
    they are long. Where step() is never called, a step ends as in `gpuprof run`: at the optimizer's step, else at the call of
    the outermost module. shapes and stacks record the operators' shapes and Python frames, which make recorded steps slower.
    out is a folder for the trace, its analysis (JSON) and report (HTML); without it the trace is removed after the analysis. rank is
    this process' rank where no launcher and no torch.distributed names it.

    The block never fails because of the recording: what went wrong there is a GpuprofWarning, and .analysis raises it.
    """

    def __init__(self, *, steps: Steps = None, skip: Optional[int] = None, shapes: bool = False, stacks: bool = False,
                 out: Union[str, "os.PathLike[str]", None] = None, rank: Optional[int] = None, explicit: bool = False) -> None:
        if isinstance(steps, range):
            if skip is not None or steps.step != 1 or steps.start < 0 or len(steps) == 0:
                raise GpuprofError("recording steps %r: a range has the steps to record, one after the other" % (steps,),
                                   "give range(10, 15) alone, or steps=5 and skip=10")
            skip, steps = steps.start, len(steps)
        for name, value, least in (("steps", steps, 1), ("skip", skip, 0)):
            if value is not None and (not isinstance(value, int) or value < least):
                raise GpuprofError("recording with %s=%r: it is no whole number of at least %d" % (name, value, least), "give one")
        self._steps, self._skip, self._exact = steps or _recorder.STEPS, skip, steps is not None
        self._shapes, self._stacks, self._rank, self._explicit = shapes, stacks, rank, explicit
        self._out = os.path.abspath(os.fspath(out)) if out is not None else None
        self._folder: Optional[str] = None
        self._recorder: Any = None
        self._job: Optional[_binary.Job] = None
        self._analysis: Optional[Analysis] = None
        self._error: Optional[GpuprofError] = None
        self._closed = self._quiet = False

    # -- the block ---------------------------------------------------------

    def __enter__(self) -> "profile":
        if self._recorder is not None:
            raise GpuprofError("recording: this profile was used before", "make another one with gpuprof.profile()")
        torch = sys.modules.get("torch")
        if torch is None or not hasattr(torch, "profiler"):
            raise GpuprofError("recording: torch is not imported, and gpuprof.profile records with PyTorch's profiler",
                               "import torch first; for other programs use `gpuprof run -- COMMAND`")
        _binary.find()  # an analysis that cannot be made is told before the work
        self._folder = self._make_folder()
        _recorder.write_config(self._folder, self._steps, self._skip, self._exact, self._shapes, self._stacks)
        # Kineto reads its level at its first use: as in `gpuprof run`, a machine without a GPU is no error to print.
        self._quiet = "KINETO_LOG_LEVEL" not in os.environ
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")
        self._recorder = _recorder.recorder(torch, self._folder, self._rank, self._explicit)
        if self._skip == 0:
            self._recorder.begin_now()
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self.close(wait=kind is None)

    def _make_folder(self) -> str:
        if self._out is None:
            return tempfile.mkdtemp(prefix="gpuprof-")
        try:
            os.makedirs(self._out, mode=0o700, exist_ok=True)
        except OSError as e:
            raise GpuprofError("making the folder %s: %s" % (self._out, e.strerror or e), "give out= a folder that takes files") from e
        return self._out

    def step(self) -> None:
        """A step of the program has ended."""
        if self._recorder is not None and not self._closed:
            self._recorder.step()

    def close(self, wait: bool = True) -> None:
        """End the recording. wait=False leaves out the analysis: the block ended by an exception."""
        if self._recorder is None or self._closed:
            return
        self._closed = True
        try:
            self._recorder.close()
            if wait or self._job is not None:
                self._start_analysis()
                self._analysis = Analysis(self._verifiable(self._job.result()[0]))  # type: ignore[union-attr]
            else:
                kept = "; its trace is %s" % self.trace if self.trace else ""
                self._error = GpuprofError("analyzing: the block ended by an exception" + kept, exit_code=4)
        except GpuprofError as e:
            self._fail(e)
        except Exception as e:  # the program's own work is not lost for it
            self._fail(GpuprofError("recording: %s: %s" % (type(e).__name__, e), exit_code=4))
        finally:
            self._clean()

    # -- the analysis ------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether the recording has ended; the block may go on."""
        return self._closed or self._recorder is not None and self._recorder.phase == "done"

    @property
    def trace(self) -> Optional[str]:
        """The trace, where out= keeps it."""
        return self._recorder.trace() or None if self._recorder is not None and self._out is not None else None

    @property
    def recorded(self) -> range:
        """The steps that were recorded, by their numbers from 0 on; empty before."""
        begin, trace = (self._recorder.found(e) if self._recorder is not None else {} for e in ("begin", "trace"))
        first = int(begin.get("after", 0))
        return range(first, first + int(trace.get("steps", 0)))

    @property
    def analysis(self) -> Analysis:
        """The analysis of the recorded steps. Raises GpuprofError with the reason where there is none."""
        if self._analysis is None and self._recorder is not None and self.done:
            self.close()
        if self._analysis is not None:
            return self._analysis
        raise self._error or GpuprofError("reading the analysis: the recording has not ended", "read it after the block")

    def poll(self) -> Optional[Analysis]:
        """The analysis as soon as it is there, None before. It is made beside the program, which does not wait for it."""
        if self._analysis is None and self._error is None and self.done and not self._closed:
            try:
                self._start_analysis()
                if self._job is not None and self._job.ended():
                    self.close()
            except GpuprofError as e:
                self._fail(e)
                self._closed = True
                self._clean()
        return self._analysis

    def _start_analysis(self) -> None:
        if self._job is not None:
            return
        trace = self._recorder.trace()
        if not trace:
            raise GpuprofError("recording with gpuprof.profile: " + self._recorder.why_not(), exit_code=4)
        outputs = []
        if self._out is not None:
            stem = os.path.join(self._out, "%s" + os.path.basename(trace)[len("trace"):-len(".json")])
            outputs = ["-o", stem % "analysis" + ".json", "-o", stem % "report" + ".html"]
        self._job = _binary.Job(["analyze", trace, *outputs])

    def _verifiable(self, document: Dict[str, Any]) -> Dict[str, Any]:
        """Without out= the trace is removed, so that a command that names it would fail."""
        name = os.path.basename(self._recorder.trace())
        for f in document.get("findings") or []:
            if self._out is None and name in f.get("command", ""):
                f["command"] = VERIFY
        return document

    def _fail(self, e: GpuprofError) -> None:
        self._error = e
        warnings.warn(str(e), GpuprofWarning, stacklevel=3)

    def _clean(self) -> None:
        if self._quiet:
            os.environ.pop("KINETO_LOG_LEVEL", None)
        if self._folder is not None and self._out is None:
            shutil.rmtree(self._folder, ignore_errors=True)
        elif self._folder is not None:
            try:
                os.remove(os.path.join(self._folder, "config.json"))
            except OSError:
                pass

    # -- notebooks and functions -------------------------------------------

    def _repr_html_(self) -> Optional[str]:
        return self._analysis._repr_html_() if self._analysis is not None else None

    def __call__(self, f: F) -> F:
        """Each call of f is a step; `.profile` of the function has the analysis."""

        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._recorder is None:
                self.__enter__()
            try:
                return f(*args, **kwargs)
            finally:
                self.step()
                self.poll()

        call.profile = self  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]
