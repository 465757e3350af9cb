"""Findings in the logger that a training program has: TensorBoard, Weights & Biases, MLflow, each by its own calls."""

from __future__ import annotations

import html
import sys
import warnings
from typing import Any, Callable, Dict, List, Optional

from ._documents import Analysis
from ._errors import GpuprofWarning

NAME = "gpuprof"


def scalars(analysis: Analysis) -> Dict[str, float]:
    """The figures of an analysis, seconds: the mean step, and of each finding the largest possible saving, or the time of a cause
    that occurs in some steps only."""
    out = {NAME + "/step_s": analysis.step_s} if analysis.step_s else {}
    for f in analysis.findings:
        if f.claim is not None and f.unit == "s":
            out["%s/claim_s/%s" % (NAME, f.id)] = f.claim
        if f.rare is not None:
            out["%s/rare_s/%s" % (NAME, f.id)] = f.rare
    return out


def markdown(analysis: Analysis) -> str:
    """The findings as text for a logger that shows Markdown."""
    lines: List[str] = ["**%s**" % analysis.answer, ""]
    for f in analysis.findings:
        lines.append("1. %s **%s**: %s" % (f.severity, f.id, f.title))
        lines += ["   - %s: `%s`" % (label, text) for label, text in (("change", f.change), ("measure", f.verify)) if text]
    return "\n".join(lines)


def tensorboard(writer: Any, analysis: Analysis, step: int) -> None:
    """writer is a SummaryWriter."""
    writer.add_text(NAME + "/findings", html.escape(markdown(analysis), quote=False), step)
    for name, value in scalars(analysis).items():
        writer.add_scalar(name, value, step)
    writer.flush()


def wandb(run: Any, analysis: Analysis, step: int) -> None:
    """run is a wandb run. Its summary takes the figures, so that its own count of steps stays as it is."""
    module = sys.modules["wandb"]
    run.summary.update({**scalars(analysis), NAME + "/step": step, NAME + "/answer": analysis.answer})
    run.log({NAME + "/findings": module.Html(analysis._repr_html_())}, commit=False)


def mlflow(client: Any, run_id: str, analysis: Analysis, step: int) -> None:
    """client is an MlflowClient."""
    for name, value in scalars(analysis).items():
        client.log_metric(run_id, name, value, step=step)
    client.log_text(run_id, markdown(analysis), NAME + "/findings.md")
    client.log_dict(run_id, analysis.json, NAME + "/analysis.json")


def guarded(what: str, log: Callable[[], None]) -> bool:
    """Call log. A logger that fails is a warning: the training goes on."""
    try:
        log()
        return True
    except Exception as e:
        warnings.warn("logging findings to %s: %s: %s" % (what, type(e).__name__, e), GpuprofWarning, stacklevel=3)
        return False


def to_known(target: Any, analysis: Analysis, step: int) -> str:
    """Log to an object of a logger, as frameworks hold them; the name of the logger, "" one that is not known here."""
    kind = type(target).__name__
    module = type(target).__module__.split(".")[0]
    if kind == "SummaryWriter":
        return "TensorBoard" if guarded("TensorBoard", lambda: tensorboard(target, analysis, step)) else ""
    if module == "wandb" and hasattr(target, "summary"):
        return "W&B" if guarded("W&B", lambda: wandb(target, analysis, step)) else ""
    return ""


def mlflow_run() -> Optional[str]:
    """The id of MLflow's active run, None without one. Nothing is imported for it."""
    module = sys.modules.get("mlflow")
    active = module.active_run() if module is not None else None
    return active.info.run_id if active is not None else None


def to_active(analysis: Analysis, step: int, skip: List[str], earlier: Optional[str]) -> List[str]:
    """Log to the runs that are active in this process: W&B's and MLflow's own idea of one. earlier is MLflow's run during the
    training: the Trainer ends it before it tells other callbacks that the training is over. Nothing is imported for it."""
    done: List[str] = []
    module = sys.modules.get("wandb")
    run = getattr(module, "run", None)
    if run is not None and "W&B" not in skip and guarded("W&B", lambda: wandb(run, analysis, step)):
        done.append("W&B")
    run_id = mlflow_run() or earlier
    if run_id is not None and "MLflow" not in skip:
        client = sys.modules["mlflow"].MlflowClient
        if guarded("MLflow", lambda: mlflow(client(), run_id, analysis, step)):
            done.append("MLflow")
    return done
