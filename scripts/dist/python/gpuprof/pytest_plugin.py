"""A plugin of pytest: tests that are marked `@pytest.mark.gpuprof` become a gate.

    pytest --gpuprof-update            time them, and add the session to the baseline
    pytest --gpuprof-gate              time them, and fail those that became slower than the baseline

Without these options the mark does nothing. Tests are timed in processes of their own, six by default, since the samples of
one process are not independent. `gpuprof gate` judges; no statistics are made here.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from typing import Any, Dict, List, Optional

import pytest

BASELINE = "gpuprof-pytest.json"
RUNS = 6  # processes; a verdict needs as many on either side
THRESHOLD = "5%"


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("gpuprof", "gpuprof: tests that must not become slower")
    group.addoption("--gpuprof-gate", nargs="?", const=BASELINE, metavar="FILE",
                    help="Fail marked tests that became slower than the baseline FILE (%s). Write it with =." % BASELINE)
    group.addoption("--gpuprof-update", nargs="?", const=BASELINE, metavar="FILE", help="Add the times of this session to the baseline FILE.")
    group.addoption("--gpuprof-runs", type=int, default=RUNS, metavar="N", help="Processes that time the marked tests (%d)." % RUNS)
    group.addoption("--gpuprof-inconclusive", choices=("pass", "fail"), default="pass", help="Outcome of a test on which the data cannot tell (pass).")
    group.addoption("--gpuprof-worker", metavar="FILE", help="For the plugin alone: a process that times.")


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "gpuprof(threshold='5%', paired=True, clock='wall'): a test that --gpuprof-gate times; threshold is the "
                            "slowdown that must be found, paired compares with a reference loop beside it, clock is 'wall' or 'cpu'")
    if config.getoption("gpuprof_worker"):
        config.pluginmanager.register(Worker(config.getoption("gpuprof_worker")), "gpuprof-worker")
    elif config.getoption("gpuprof_gate") or config.getoption("gpuprof_update"):
        if hasattr(config, "workerinput"):
            return  # a worker of xdist; its parent has refused
        config.pluginmanager.register(Gate(config), "gpuprof-gate")


class Worker:
    """Times the marked tests of a process."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(os.path.join(os.path.dirname(path), "plan.json"), encoding="utf-8") as f:
            self.plan = json.load(f)
        self.benchmarks: List[Dict[str, Any]] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: Any, items: List[Any]) -> None:
        wanted = {name: i for i, name in enumerate(self.plan["tests"])}
        config.hook.pytest_deselected(items=[i for i in items if i.nodeid not in wanted])
        items[:] = sorted((i for i in items if i.nodeid in wanted), key=lambda i: wanted[i.nodeid])

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: Any) -> Optional[bool]:
        from . import _timing

        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        f = pyfuncitem.obj
        m = mark(pyfuncitem)
        nominal = self.plan["nominal_s"].get(m["clock"])
        self.benchmarks.append(_timing.benchmark(pyfuncitem.nodeid, lambda: f(**arguments), nominal, m["paired"], m["clock"]))
        return True

    def pytest_sessionfinish(self) -> None:
        from . import _gate, _timing

        document = {"version": "gpuprof", "machine_info": _timing.machine(), "benchmarks": self.benchmarks,
                    _gate.FORMAT: {"session": self.plan["session"], "nominal_s": {**self.nominal(), **self.plan["nominal_s"]}}}
        with open(self.path, "w", encoding="utf-8") as f:
            json.dump(document, f)

    def nominal(self) -> Dict[str, float]:
        """The reference loop's time by each clock, seconds: to it the times of later processes are scaled."""
        middles: Dict[str, List[float]] = {}
        for b in self.benchmarks:
            middles.setdefault(b["extra_info"]["clock"], []).append(b["extra_info"]["reference_median_s"])
        return {clock: statistics.median(each) for clock, each in middles.items()}


def mark(item: Any) -> Dict[str, Any]:
    """The arguments of a test's mark."""
    marker = item.get_closest_marker("gpuprof")
    known = {"threshold": THRESHOLD, "paired": True, "clock": "wall"}
    wrong = set(marker.kwargs) - set(known)
    if marker.args or wrong or marker.kwargs.get("clock", "wall") not in ("wall", "cpu"):
        raise pytest.UsageError("reading @pytest.mark.gpuprof of %s: it takes threshold='5%%', paired=True and clock='wall' or 'cpu'" % item.nodeid)
    out = dict(known, **marker.kwargs)
    if isinstance(out["threshold"], float):
        out["threshold"] = "%g%%" % (100 * out["threshold"])
    return out


class Gate:
    """Has the marked tests timed in processes of their own before they run, and fails those that became slower."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.runs = config.getoption("gpuprof_runs")
        self.against, self.update = (self.file(config.getoption(o)) for o in ("gpuprof_gate", "gpuprof_update"))
        if getattr(config.option, "numprocesses", None):
            raise pytest.UsageError("timing tests under pytest-xdist: tests that run at the same time slow each other down; leave out -n")
        if self.runs < 1:
            raise pytest.UsageError("--gpuprof-runs %d: give at least 1" % self.runs)
        self.old = self.baseline()
        self.new: List[Dict[str, Any]] = []
        self.verdicts: Dict[str, Any] = {}
        self.failed: List[str] = []
        self.lines: List[str] = []
        self.tests: List[str] = []

    def file(self, name: Optional[str]) -> Optional[str]:
        if name is None:
            return None
        if os.path.isdir(name) or name.endswith(".py") or "::" in name:
            raise pytest.UsageError("%s is no baseline but tests: write --gpuprof-gate=FILE, or put the option behind the tests" % name)
        return os.path.join(str(self.config.rootpath), name)

    def baseline(self) -> List[Dict[str, Any]]:
        from . import _binary, _gate
        from ._errors import GpuprofError

        try:
            _binary.find()
            path = self.against or self.update
            assert path is not None
            return _gate.read(path) if self.against or os.path.exists(path) else []
        except GpuprofError as e:
            raise pytest.UsageError(str(e)) from e

    # -- timing --------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> None:
        items = [i for i in session.items if i.get_closest_marker("gpuprof") is not None]
        if session.testsfailed or self.config.option.collectonly:
            return
        if not items:
            self.lines.append("no selected test is marked @pytest.mark.gpuprof")
            return
        from . import _gate
        from ._errors import GpuprofError

        thresholds = {i.nodeid: str(mark(i)["threshold"]) for i in items}
        self.tests = list(thresholds)
        try:
            self.time(items)
            if self.against:
                self.verdicts = _gate.judge(self.old, self.new, thresholds)
        except GpuprofError as e:
            raise pytest.UsageError(str(e)) from e

    def time(self, items: List[Any]) -> None:
        nominal: Dict[str, float] = {}
        for d in reversed(self.old):  # the first session decides
            nominal.update(d["gpuprof-pytest"]["nominal_s"])
        names = [i.nodeid for i in items]
        session = "%s-%s" % (time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), uuid.uuid4().hex[:8])
        with tempfile.TemporaryDirectory(prefix="gpuprof-") as folder:
            for n in range(self.runs):
                order = names if n % 2 == 0 else names[::-1]  # a drift within a process slows no test alone
                with open(os.path.join(folder, "plan.json"), "w", encoding="utf-8") as f:
                    json.dump({"tests": order, "nominal_s": nominal, "session": session}, f)
                document = self.process(items, os.path.join(folder, "%d.json" % n))
                if document is None:
                    return
                self.new.append(document)
                nominal = document["gpuprof-pytest"]["nominal_s"]

    def process(self, items: List[Any], path: str) -> Optional[Dict[str, Any]]:
        """Time the tests in one process; None where it did not end well, which a line tells then."""
        done = subprocess.run([*self.command(items), "--gpuprof-worker", path], cwd=str(self.config.invocation_params.dir),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        try:
            with open(path, encoding="utf-8") as f:
                document: Dict[str, Any] = json.load(f)
        except (OSError, ValueError):
            document = {"benchmarks": []}
        missing = set(i.nodeid for i in items) - {b["fullname"] for b in document["benchmarks"]}
        if not missing:
            return document
        self.failed = sorted(missing)
        last = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if line.strip()][-12:]
        self.lines.append("a process that times ended with exit code %d, and %d tests have no times:" % (done.returncode, len(missing)))
        self.lines += ["  | " + line for line in last]
        return None

    def command(self, items: List[Any]) -> List[str]:
        option = self.config.option
        out = [sys.executable, "-m", "pytest", *sorted({str(i.path) for i in items}), "-q", "-p", "no:cacheprovider",
               "--rootdir", str(self.config.rootpath), "--import-mode", option.importmode]
        if self.config.inipath is not None:
            out += ["-c", str(self.config.inipath)]
        for flag, values in (("-p", option.plugins), ("-o", option.override_ini), ("-W", option.pythonwarnings)):
            for value in values or ():
                if value != "no:cacheprovider":
                    out += [flag, value]
        if self.config.pluginmanager.hasplugin("pytest_cov"):
            out.append("--no-cov")  # it would be timed too
        return out

    # -- outcome -------------------------------------------------------------

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
        outcome = yield
        report = outcome.get_result()
        if report.when == "call" and report.passed:
            why = self.why_failed(item.nodeid)
            if why:
                report.outcome, report.longrepr = "failed", why

    def why_failed(self, name: str) -> str:
        from . import _gate

        if name in self.failed:
            return "gpuprof: the test passes and could not be timed; the summary has the reason"
        m = self.verdicts.get(name)
        if m is None:
            return ""
        if m.verdict == "regressed":
            return "gpuprof: slower than the baseline %s: %s" % (self.against, _gate.sentence(m))
        if m.verdict in ("inconclusive", "not comparable") and self.config.getoption("gpuprof_inconclusive") == "fail":
            return "gpuprof: the data cannot tell whether the test became slower than %s: %s" % (self.against, _gate.sentence(m))
        return ""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: Any) -> None:
        from . import _gate
        from ._errors import GpuprofError

        if self.against:
            self.lines += ["%s: %s" % (n, _gate.sentence(self.verdicts[n]) if n in self.verdicts else "new, and compared with nothing")
                           for n in self.tests if n not in self.failed]
        if not self.update or not self.tests:
            return
        if self.failed or len(self.new) < self.runs or session.testsfailed:
            self.lines.append("%s is unchanged: a test failed" % self.update)
            return
        try:
            old = self.old if self.update == (self.against or self.update) else _gate.read(self.update) if os.path.exists(self.update) else []
            docs = _gate.kept(old + self.new)
            _gate.write(self.update, docs)
            self.lines.append("%s has %d processes of %d sessions" % (self.update, len(docs), len({d[_gate.FORMAT]["session"] for d in docs})))
        except GpuprofError as e:
            self.lines.append(str(e))
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.lines:
            terminalreporter.section("gpuprof")
            for line in self.lines:
                terminalreporter.write_line(line)
