"""Tests of the pytest plugin with a stand-in for the program, which decides the verdicts.

    PYTHONPATH=PACKAGE python3 -m unittest test_pytest_plugin     (scripts/dist/package.py writes PACKAGE; needs pytest)
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = """
import os, pytest

calls = []

@pytest.fixture(params=["a=1", "b"])
def number(request):
    return request.param

@pytest.mark.gpuprof
def test_one():
    calls.append(1)

@pytest.mark.gpuprof(threshold="7%", clock="cpu", paired=False)
def test_each(number):
    assert number

def test_plain():
    assert len(calls) <= 1  # the marked test ran once here, since it is timed elsewhere
"""


class TestPlugin(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.write("test_project.py", PROJECT)
        self.write("pytest.ini", "[pytest]\n")
        self.fake = os.path.join(self.folder, "gpuprof")
        self.write("gpuprof", '#!/bin/sh\nexec "%s" "%s" "$@"\n' % (sys.executable, os.path.join(HERE, "fake_gpuprof.py")))
        os.chmod(self.fake, 0o755)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as f:
            f.write(text)

    def pytest(self, *arguments, code=0, **environment):
        """The output of pytest in the project; the package is on the path, or installed with its entry point."""
        from importlib import metadata

        points = metadata.entry_points()
        group = points.select(group="pytest11") if hasattr(points, "select") else points.get("pytest11", ())
        plugin = [] if any(p.name == "gpuprof" for p in group) else ["-p", "gpuprof.pytest_plugin"]
        env = dict(os.environ, GPUPROF_BINARY=self.fake, FAKE_LOG=os.path.join(self.folder, "log"), PYTHONDONTWRITEBYTECODE="1", **environment)
        done = subprocess.run([sys.executable, "-m", "pytest", *plugin, *arguments], cwd=self.folder, env=env, capture_output=True, text=True)
        out = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, out)
        return out

    def asked(self):
        path = os.path.join(self.folder, "log")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as f:
            return [json.loads(line)[0] for line in f]

    def update(self, *arguments):
        return self.pytest("--gpuprof-update", "--gpuprof-runs=2", *arguments)

    def test_without_an_option_the_mark_does_nothing(self):
        out = self.pytest("--strict-markers")
        self.assertIn("4 passed", out)
        self.assertEqual(self.asked(), [])

    def test_a_baseline_and_a_gate(self):
        out = self.update()
        self.assertIn("gpuprof-pytest.json has 2 processes of 1 sessions", out)
        with open(os.path.join(self.folder, "gpuprof-pytest.json"), encoding="utf-8") as f:
            docs = json.load(f)
        names = ["test_project.py::test_one", "test_project.py::test_each[a=1]", "test_project.py::test_each[b]"]
        self.assertEqual([[b["fullname"] for b in d["benchmarks"]] for d in docs], [names, names[::-1]])
        self.assertEqual(docs[0]["gpuprof-pytest"]["nominal_s"], docs[1]["gpuprof-pytest"]["nominal_s"])
        self.assertEqual(sorted(docs[0]["gpuprof-pytest"]["nominal_s"]), ["cpu", "wall"])
        out = self.pytest("--gpuprof-gate", "--gpuprof-runs=2", "-v")
        self.assertEqual(len(re.findall(r"x1\.100 \[1\.080, 1\.120\] same, MDE 4\.0 %", out)), 3)
        self.assertEqual([a for a in self.asked() if a != "version"], ["gate", "gate"])  # a call for each threshold

    def test_verdicts(self):
        self.update()
        out = self.pytest("--gpuprof-gate", "--gpuprof-runs=1", code=1, FAKE_VERDICT="regressed")
        self.assertRegex(out, r"slower than the baseline .*gpuprof-pytest\.json: x1\.100 .* regressed")
        self.assertIn("3 failed, 1 passed", out)
        gate = ("--gpuprof-gate=gpuprof-pytest.json", "--gpuprof-runs=1")
        self.assertIn("4 passed", self.pytest(*gate, FAKE_VERDICT="inconclusive"))
        self.assertIn("the data cannot tell", self.pytest(*gate, "--gpuprof-inconclusive=fail", code=1, FAKE_VERDICT="inconclusive"))

    def test_a_regression_does_not_become_the_baseline(self):
        self.update()
        out = self.pytest("--gpuprof-gate", "--gpuprof-update", "--gpuprof-runs=1", code=1, FAKE_VERDICT="regressed")
        self.assertIn("is unchanged: a test failed", out)
        self.assertIn("has 3 processes of 2 sessions", self.pytest("--gpuprof-gate", "--gpuprof-update", "--gpuprof-runs=1"))

    def test_a_new_test_is_compared_with_nothing(self):
        self.update("-k", "test_one")
        out = self.pytest("--gpuprof-gate", "--gpuprof-runs=1", code=1, FAKE_VERDICT="regressed")
        self.assertIn("1 failed, 3 passed", out)
        self.assertEqual(out.count("new, and compared with nothing"), 2)

    def test_sentences_of_wrong_uses(self):
        for arguments, sentence in (
            (["--gpuprof-gate"], r"reading the baseline .*gpuprof-pytest\.json: No such file or directory; make one with --gpuprof-update"),
            (["--gpuprof-gate", "test_project.py"], "is no baseline but tests: write --gpuprof-gate=FILE"),
            (["--gpuprof-update", "--gpuprof-runs=0"], "--gpuprof-runs 0: give at least 1"),
            (["--gpuprof-gate=log.txt"], "is not a file that --gpuprof-update wrote"),
        ):
            self.write("log.txt", "nothing")
            self.assertRegex(self.pytest(*arguments, code=4), sentence)
        os.environ["GPUPROF_BINARY"] = "/nowhere/gpuprof"
        self.fake = "/nowhere/gpuprof"
        self.assertRegex(self.pytest("--gpuprof-update", code=4), "GPUPROF_BINARY names /nowhere/gpuprof, and it cannot be started")

    def test_a_wrong_mark(self):
        self.write("test_project.py", "import pytest\n@pytest.mark.gpuprof(treshold='5%')\ndef test_one(): pass\n")
        self.assertIn("it takes threshold='5%', paired=True and clock='wall' or 'cpu'", self.pytest("--gpuprof-update", code=4))

    def test_a_test_that_fails_has_no_time(self):
        self.write("test_project.py", PROJECT + "\n@pytest.mark.gpuprof\ndef test_broken():\n    assert 0, 'broken'\n")
        out = self.pytest("--gpuprof-update", "--gpuprof-runs=2", code=1)
        self.assertIn("1 tests have no times", out)
        self.assertIn("gpuprof-pytest.json is unchanged", out)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "gpuprof-pytest.json")))

    def test_a_test_that_fails_only_where_it_is_timed(self):
        self.write("test_project.py", "import pytest\nn = []\n@pytest.mark.gpuprof\ndef test_once():\n    n.append(1)\n    assert len(n) == 1\n")
        out = self.pytest("--gpuprof-update", "--gpuprof-runs=1", code=1)
        self.assertIn("the test passes and could not be timed", out)

    def test_no_marked_test(self):
        self.assertIn("no selected test is marked", self.pytest("--gpuprof-update", "-k", "plain"))


if __name__ == "__main__":
    unittest.main()
