"""gpuprof in Python: record, analyse and compare programs that use a GPU.

    with gpuprof.profile() as p:
        for batch in loader:
            train_step(batch)
            p.step()
    p.analysis                                 # shown as a table in a notebook

    gpuprof.analyze("trace.json.gz").findings
    gpuprof.compare("before.json", "after.json").verdict
    gpuprof.snapshot("snapshot.pickle")

The package is Python over the JSON of the gpuprof program, which its wheel brings, and needs no other package.
"""

from ._api import analyze, compare, snapshot
from ._documents import Analysis, Comparison, Finding, MemoryAnalysis, Metric
from ._errors import BinaryNotFound, GpuprofError, GpuprofWarning
from ._profile import profile

__all__ = [
    "Analysis", "BinaryNotFound", "Comparison", "Finding", "GpuprofError", "GpuprofWarning", "MemoryAnalysis", "Metric",
    "analyze", "compare", "profile", "snapshot",
]
