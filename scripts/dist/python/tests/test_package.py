"""Tests of the package with a stand-in for the program and one for PyTorch.

    PYTHONPATH=PACKAGE python3 test_package.py STAND_IN_OF_TORCH     (scripts/dist/package.py writes PACKAGE)
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
STUB = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and os.path.isdir(sys.argv[1]) else ""

import gpuprof  # noqa: E402
from gpuprof import _binary, _gate, _loggers, _timing  # noqa: E402


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.before = dict(os.environ)
        self.addCleanup(self.restore)
        self.fake = self.install("fake", "gpuprof")
        self.log = os.path.join(self.folder, "log")
        os.environ.update(GPUPROF_BINARY=self.fake, FAKE_LOG=self.log)
        _binary.refused.cache_clear()

    def restore(self):
        os.environ.clear()
        os.environ.update(self.before)
        _binary.refused.cache_clear()

    def install(self, folder, name, foreign=False):
        """The stand-in under a name in a folder of its own."""
        path = os.path.join(self.folder, folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write('#!/bin/sh\n%s exec "%s" "%s" "$@"\n' % ("FAKE_FOREIGN=1" if foreign else "", sys.executable, os.path.join(HERE, "fake_gpuprof.py")))
        os.chmod(path, 0o755)
        return path

    def asked(self):
        """The command lines that the program got, without the question for its version."""
        with open(self.log, encoding="utf-8") as f:
            return [a for a in map(json.loads, f) if a[0] != "version"]


class TestFind(Case):
    def path(self, *folders):
        del os.environ["GPUPROF_BINARY"]
        os.environ["PATH"] = os.pathsep.join(os.path.join(self.folder, f) for f in folders)

    def setUp(self):
        super().setUp()
        original = _binary.of_the_wheel
        self.addCleanup(setattr, _binary, "of_the_wheel", original)
        _binary.of_the_wheel = lambda: iter(())

    def test_the_wheel_comes_before_path(self):
        own = self.install("own", "gpuprof-cli")
        _binary.of_the_wheel = lambda: iter([os.path.join(self.folder, "none"), own])
        self.path("fake")
        self.assertEqual(_binary.find(), own)

    def test_the_name_that_is_always_ours_comes_first(self):
        self.install("foreign", "gpuprof", foreign=True)
        always = self.install("always", "gpuprof-cli")
        self.path("foreign", "always")
        self.assertEqual(_binary.find(), always)

    def test_a_foreign_program_is_refused_by_name(self):
        foreign = self.install("foreign", "gpuprof", foreign=True)
        self.path("foreign")
        with self.assertRaisesRegex(gpuprof.BinaryNotFound, re.escape(foreign) + ": it is another project's program") as c:
            gpuprof.analyze("trace.json")
        self.assertIn("pip install gpuprof-cli", str(c.exception))

    def test_nothing(self):
        self.path("none")
        with self.assertRaisesRegex(gpuprof.BinaryNotFound, "neither this package's wheel nor PATH"):
            _binary.find()

    def test_the_environment_names_a_foreign_one(self):
        os.environ["GPUPROF_BINARY"] = self.install("foreign", "gpuprof", foreign=True)
        with self.assertRaisesRegex(gpuprof.BinaryNotFound, "GPUPROF_BINARY names"):
            _binary.find()


class TestDocuments(Case):
    def test_command_lines(self):
        gpuprof.analyze("t.json", steps="1..2", force=True, output=["a.html", "b.md"], plot=None)
        gpuprof.analyze(["-odd.json", "b.json"])
        self.assertEqual(self.asked(), [
            ["analyze", "--steps=1..2", "--force", "--output=a.html", "--output=b.md", "t.json", "--format", "json", "--quiet"],
            ["analyze", "./-odd.json", "b.json", "--format", "json", "--quiet"]])

    def test_analysis(self):
        a = gpuprof.analyze("t.json")
        f = a.findings[0]
        self.assertEqual((f.id, f.claim, f.interval, f.unit, f.share), ("item", 131e-6, (0.0, 131e-6), "s", 0.131))
        self.assertEqual((f.change, f.verify, f.where), ("torch.stack(values).tolist()", "gpuprof run -o NEW -- YOUR COMMAND", ["train.py(3): step"]))
        self.assertEqual((a.answer, a.step_s, a.steps), (f.title, 1e-3, 4))
        self.assertAlmostEqual(sum(a.classes.values()), a.step_s)
        self.assertEqual(str(a), "report of analysis")
        self.assertEqual(a.json["kind"], "analysis")
        self.assertEqual(gpuprof.Analysis({"findings": [], "bound": a.json["bound"]}).answer, "The program is bound by compute.")
        said = {"verdict": "slow: reads", "sentence": "The GPU idles 40 %."}
        self.assertEqual(gpuprof.Analysis({**a.json, "answer": said}).answer, "[slow: reads] The GPU idles 40 %.")

    def test_html(self):
        page = gpuprof.analyze("t.json")._repr_html_()
        self.assertIn("&lt;script&gt;alert(1)&lt;/script&gt; &amp; waits", page)
        for never in ("<script", "http://", "https://", "url(", "@import", "src="):
            self.assertNotIn(never, page)
        self.assertLess(len(page), 8000)
        self.assertIn("prefers-color-scheme:dark", page)
        self.assertIn("<td>gemm</td><td>700 us</td><td>70.0 %</td>", page)
        host = gpuprof.Analysis({"step": {"ns": 1000}, "devices": [], "operators": [{"name": "aten::mm", "step_self_ns": 250}]})
        self.assertIn("<td>aten::mm</td><td>250 ns</td><td>25.0 %</td>", host._repr_html_())  # without a device its times are zeros
        for tag in ("div", "table", "ol", "li", "style"):
            self.assertEqual(page.count("<%s" % tag) - page.count("<%s" % tag + "ead"), page.count("</%s>" % tag), tag)

    def test_errors_are_the_program_s(self):
        with self.assertRaises(gpuprof.GpuprofError) as c:
            gpuprof.analyze("bad.json")
        e = c.exception
        self.assertEqual((str(e), e.cause, e.fix, e.exit_code), ("reading trace bad.json: it ends early; record it again", "EOF", "record it again", 4))

    def test_compare(self):
        self.assertEqual(gpuprof.Comparison({"verdict": "pass", "old": "../tmp/old.json", "new": "b.json"}).answer, "pass: b.json against old.json")
        c = gpuprof.compare(gpuprof.analyze("t.json"), "new.json", threshold="3%")
        self.assertEqual(c.verdict, "inconclusive")
        verb, flag, old, new = self.asked()[-1][:4]
        self.assertEqual((verb, flag, os.path.basename(old), new), ("compare", "--threshold=3%", "old.json", "new.json"))

    def test_memory(self):
        m = gpuprof.snapshot("s.pickle")
        self.assertEqual((m.peak_bytes, m.findings[0].claim, m.findings[0].unit), (2097152, 1048576, "B"))
        self.assertIn("train.py:3 in f", m._repr_html_())
        for wrong, call in (("use gpuprof.snapshot", lambda: gpuprof.analyze("s.pickle")), ("use gpuprof.analyze", lambda: gpuprof.snapshot("t.json")),
                            ("no trace is named", lambda: gpuprof.analyze([]))):
            with self.assertRaisesRegex(gpuprof.GpuprofError, wrong):
                call()


class TestWithoutTorch(Case):
    def test_sentences(self):
        self.assertNotIn("torch", sys.modules)
        for wrong, call in (("torch is not imported", gpuprof.snapshot), ("import torch first", gpuprof.profile().__enter__)):
            with self.assertRaisesRegex(gpuprof.GpuprofError, wrong):
                call()
        for options in ({"steps": 0}, {"skip": -1}, {"steps": range(3, 3)}, {"steps": range(3, 5), "skip": 2}, {"steps": "5"}):
            with self.assertRaises(gpuprof.GpuprofError, msg=options):
                gpuprof.profile(**options)


class TestProfile(Case):
    """In a process of its own each: the stand-in of PyTorch is imported there."""

    def program(self, text, **environment):
        head = "import sys, os, warnings\nsys.path.insert(0, %r)\nimport torch, torch.optim, gpuprof\n" % STUB
        done = subprocess.run([sys.executable, "-c", head + text], cwd=self.folder, capture_output=True, text=True,
                              env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1", TMPDIR=self.folder, **environment))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr

    def steps_of(self, folder):
        name = next(n for n in os.listdir(os.path.join(self.folder, folder)) if n.startswith("trace-"))
        with open(os.path.join(self.folder, folder, name), encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
        return {e["name"] for e in events if e["name"].startswith("ProfilerStep#")}

    def test_steps_as_configured(self):
        for n, (options, want) in enumerate((("", "10 15"), ("steps=range(3, 6)", "3 6"), ("skip=0, steps=4", "0 4"), ("skip=1, steps=3", "1 4"))):
            out, err = self.program("with gpuprof.profile(out='out%d', rank=2, %s) as p:\n for i in range(20): torch.nn.Module(); p.step()\n"
                                    "print(p.recorded.start, p.recorded.stop, p.analysis.steps, os.path.basename(p.trace))" % (n, options))
            self.assertEqual((out, err), (want + " 4 trace-rank2.json\n", ""))
            first, last = map(int, want.split())
            self.assertGreaterEqual(len(self.steps_of("out%d" % n)), last - first)

    def test_a_command_names_no_removed_trace(self):
        for out, want in (("", "gpuprof.compare(BEFORE.analysis, AFTER.analysis), of two gpuprof.profile()"), ("out='kept', ", "gpuprof run -o NEW -- YOUR COMMAND trace-")):
            got, _ = self.program("with gpuprof.profile(%sskip=0, steps=2) as p:\n for i in range(4): p.step()\nprint(p.analysis.findings[0].verify)" % out)
            self.assertTrue(got.startswith(want), got)

    def test_optimizer_steps_without_step(self):
        out, _ = self.program("o = torch.optim.SGD([])\nwith gpuprof.profile(skip=2, steps=3) as p:\n for i in range(9): o.step(); o.zero_grad()\n"
                              "print(p.recorded.start, p.recorded.stop)")
        self.assertEqual(out, "2 5\n")

    def test_what_the_block_raises_is_its_own(self):
        out, err = self.program("p = gpuprof.profile(skip=0, steps=3, out='kept')\ntry:\n with p:\n  p.step(); raise KeyError('mine')\n"
                                "except KeyError as e: print(e)\ntry: p.analysis\nexcept gpuprof.GpuprofError as e: print(e)")
        self.assertRegex(out, r"^'mine'\nanalyzing: the block ended by an exception; its trace is .*trace-\d+\.json\n$")
        self.assertEqual(err, "")

    def test_too_few_steps_are_a_warning(self):
        out, err = self.program("with gpuprof.profile() as p:\n for i in range(4): p.step()\nprint('on')\ntry: p.analysis\nexcept gpuprof.GpuprofError as e: print(e.exit_code, e)")
        self.assertIn("on\n4 recording with gpuprof.profile: the block ended after 4 steps, and 10 are left out", out)
        self.assertIn("GpuprofWarning", err)

    def test_a_program_that_fails_is_a_warning(self):
        out, err = self.program("with gpuprof.profile(skip=0, steps=2) as p:\n os.environ['FAKE_LOG'] = '/nowhere/at/all'\n for i in range(4): p.step()\nprint('on')")
        self.assertEqual(out, "on\n")
        self.assertIn("GpuprofWarning", err)

    def test_decorator(self):
        out, _ = self.program("@gpuprof.profile(skip=2, steps=3)\ndef f(x):\n 'doc'\n return x + 1\nprint(sum(f(i) for i in range(30)), f.__doc__)\n"
                              "print(f.profile.recorded.start, f.profile.analysis.answer[:5])")
        self.assertEqual(out, "465 doc\n2 reads\n")

    def test_nothing_stays_behind(self):
        out, _ = self.program("""
import torch.optim.optimizer as o, signal, tempfile, glob
def state(): return o.Optimizer.zero_grad, o.Optimizer.__init__, torch.profiler.profile.start, signal.getsignal(signal.SIGTERM), list(sys.meta_path)
before, folders = state(), set(glob.glob(os.path.join(tempfile.gettempdir(), 'gpuprof-*')))
for n in (2, 9):
    with gpuprof.profile(skip=1, steps=4) as p:
        for i in range(n): p.step()
    print(state() == before, len(o._global_optimizer_post_hooks), set(glob.glob(os.path.join(tempfile.gettempdir(), 'gpuprof-*'))) == folders)
""")
        self.assertEqual(out, "True 0 True\nTrue 0 True\n")

    def test_the_program_profiles_itself(self):
        out, err = self.program("with gpuprof.profile(skip=5) as p:\n with torch.profiler.profile(): pass\n for i in range(20): p.step()\n"
                                "try: p.analysis\nexcept gpuprof.GpuprofError as e: print(e)")
        self.assertEqual(out, "recording with gpuprof.profile: the program uses PyTorch's profiler itself\n")

    def test_a_fork_is_not_recorded(self):
        out, _ = self.program("""
with gpuprof.profile(skip=0, steps=3, out='forked') as p:
    p.step()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        p.step(); p.step(); p.step()
        os._exit(0)
    os.waitpid(pid, 0)
    p.step(); p.step(); p.step()
print(p.recorded.stop, len([n for n in os.listdir('forked') if n.startswith('trace-')]))
""")
        self.assertEqual(out, "3 1\n")

    def test_no_cuda(self):
        out, _ = self.program("torch.cuda.is_available = lambda: False\ntry: gpuprof.snapshot()\nexcept gpuprof.GpuprofError as e: print(e)")
        self.assertIn("PyTorch has no CUDA device here", out)


class TestGate(Case):
    def docs(self, names, session="a", n=2):
        return [{"benchmarks": [{"fullname": x, "stats": {"data": [1.0]}} for x in names], "machine_info": {},
                 _gate.FORMAT: {"session": session, "nominal_s": {}}} for _ in range(n)]

    def test_a_call_for_each_threshold(self):
        os.environ["FAKE_VERDICT"] = "regressed"
        got = _gate.judge(self.docs(["a", "b[x=1]"]), self.docs(["a", "b[x=1]", "new"]), {"a": "5%", "b[x=1]": "7%", "new": "9%"})
        self.assertEqual({n: m.verdict for n, m in got.items()}, {"a": "regressed", "b[x=1]": "regressed"})
        self.assertEqual([a[a.index("--threshold") + 1] for a in self.asked()], ["5%", "7%"])
        self.assertEqual(_gate.sentence(got["a"]), "x1.100 [1.080, 1.120] regressed, MDE 4.0 %")

    def test_a_baseline_keeps_the_latest_sessions(self):
        docs = [d for i in range(_gate.SESSIONS + 3) for d in self.docs(["a"], "s%02d" % i)]
        kept = _gate.kept(docs)
        self.assertEqual((len(kept), kept[0][_gate.FORMAT]["session"]), (2 * _gate.SESSIONS, "s03"))

    def test_files(self):
        path = os.path.join(self.folder, "base.json")
        _gate.write(path, self.docs(["a"]))
        self.assertEqual(len(_gate.read(path)), 2)
        self.assertEqual(os.listdir(self.folder).count("base.json"), 1)
        for text in ("", "{}", "[{}]", '[{"benchmarks": 3, "gpuprof-pytest": {"session": "s"}}]', "[1]"):
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            with self.assertRaisesRegex(gpuprof.GpuprofError, "not a file that --gpuprof-update wrote", msg=text):
                _gate.read(path)
        with self.assertRaisesRegex(gpuprof.GpuprofError, "make one with --gpuprof-update"):
            _gate.read(os.path.join(self.folder, "none.json"))
        with self.assertRaisesRegex(gpuprof.GpuprofError, "writing the baseline"):
            _gate.write(os.path.join(self.folder, "none", "base.json"), [])

    def test_a_slow_machine_is_no_slow_test(self):
        """Rounds between reference rounds that are slower by the same factor scale to the same time."""
        beside, data = [2e-3, 2e-3, 4e-3, 4e-3], [1e-2, 1.5e-2, 2e-2]
        for got in _timing.scaled(data, beside, 2e-3):
            self.assertAlmostEqual(got, 1e-2)


class TestLoggers(Case):
    def test_tensorboard(self):
        class SummaryWriter:
            def __init__(self):
                self.got = []

            def add_text(self, *a):
                self.got.append(a)

            add_scalar = add_text

            def flush(self):
                pass

        w = SummaryWriter()
        self.assertEqual(_loggers.to_known(w, gpuprof.analyze("t.json"), 7), "TensorBoard")
        self.assertEqual(w.got[1:], [("gpuprof/step_s", 1e-3, 7), ("gpuprof/claim_s/item", 131e-6, 7)])
        self.assertIn("&lt;script&gt;", w.got[0][1])

    def test_a_cause_in_some_steps_only(self):
        f = gpuprof._documents.Finding({"rule": "checkpoint-write", "title": "saves", "rare_step_ns": 4_000_000, "rare_share": 0.4})
        self.assertEqual((f.claim, f.rare), (None, 0.004))
        self.assertIn("in some steps only:</span> 4 ms of the mean step", gpuprof._html.finding(f))

        class Saving:
            step_s, findings = 0.01, [f]

        self.assertEqual(_loggers.scalars(Saving()), {"gpuprof/step_s": 0.01, "gpuprof/rare_s/checkpoint-write": 0.004})

    def test_a_logger_that_fails_is_a_warning(self):
        class SummaryWriter:
            def add_text(self, *_):
                raise OSError("disk full")

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assertEqual(_loggers.to_known(SummaryWriter(), gpuprof.analyze("t.json"), 7), "")
        self.assertEqual([str(w.message) for w in caught], ["logging findings to TensorBoard: OSError: disk full"])
        self.assertEqual(_loggers.to_known(object(), gpuprof.analyze("t.json"), 7), "")

    def test_mlflow_takes_findings_of_a_run_that_has_ended(self):
        logged = []

        class Client:
            def log_metric(self, run_id, *_, **__):
                logged.append(run_id)

            log_text = log_dict = log_metric

        active = types.SimpleNamespace(info=types.SimpleNamespace(run_id="during"))
        module = types.SimpleNamespace(MlflowClient=Client, active_run=lambda: active)
        sys.modules["mlflow"] = module
        self.addCleanup(sys.modules.pop, "mlflow")
        earlier = _loggers.mlflow_run()
        module.active_run = lambda: None  # the Trainer has ended it
        self.assertEqual(_loggers.to_active(gpuprof.analyze("t.json"), 7, [], earlier), ["MLflow"])
        self.assertEqual(set(logged), {"during"})
        self.assertEqual(_loggers.to_active(gpuprof.analyze("t.json"), 7, [], None), [])


class TestFrameworksMissing(Case):
    def test_sentences(self):
        for module, name in (("lightning", "Lightning"), ("transformers", "transformers")):
            text = "import sys\nfor n in ('lightning', 'lightning.pytorch', 'pytorch_lightning', 'transformers'): sys.modules[n] = None\n" \
                   "try: import gpuprof.%s\nexcept Exception as e: print(e)" % module
            out = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True).stdout
            self.assertRegex(out, "importing gpuprof.%s: %s is not installed; pip install" % (module, name))


if __name__ == "__main__":
    unittest.main()
