"""Tests of the hook's parts with a clock of their own: hook_test.py HOOK_FOLDER."""

import sys
import types
import unittest

sys.path.insert(0, sys.argv.pop(1))
import gpuprof_hook as hook  # noqa: E402


class TestQuiet(unittest.TestCase):
    def due(self, quiet, script, until=400):
        """When the window opens; script gives (modules, touched) at a second."""
        return next((t for t in range(until) if quiet.look(t, *script(t))), None)

    def test_from_the_first_touch(self):
        self.assertEqual(self.due(hook.Quiet(20, 0, 5), lambda t: (5, t >= 33)), 53)

    def test_without_a_touch(self):
        self.assertEqual(self.due(hook.Quiet(20, 0, 5), lambda t: (5, False)), 140)

    def test_not_while_imports_run(self):
        # Touched at once, as modules with constants do, and imports for 90 s.
        self.assertEqual(self.due(hook.Quiet(20, 0, 0), lambda t: (min(t, 90), True)), 110)

    def test_a_mark_starts_afresh(self):
        q = hook.Quiet(20, 0, 5)
        q.look(1, 5, True)
        q.again(10)
        self.assertEqual(self.due(q, lambda t: (5, True)), 30)

    def test_never_gives_up(self):
        q, tries, t = hook.Quiet(20, 0, 5), [], 0
        for t in range(20000):
            if q.look(t, 5, True):
                tries.append(t)
                q.longer(t)
        self.assertEqual(tries[:3], [20, 60, 140])
        self.assertLessEqual(max(b - a for a, b in zip(tries, tries[1:])), hook.MAX_WAIT_S)
        self.assertGreater(len(tries), 20)

    def test_an_import_that_is_the_program(self):
        q = hook.Quiet(20, 0, 5)
        q.look(7, 6, True)
        self.assertFalse(q.may_import(100))
        self.assertTrue(q.may_import(127))


class TestThreads(unittest.TestCase):
    def test_one_inside_keeps_no_other_out(self):
        import threading

        inside, leave, calls = threading.Event(), threading.Event(), []

        class Holder:
            phase, here = "wait", hook.thread_local()

            @hook.safe
            def enter(self):
                self.enter()  # a call from within is no mark
                calls.append("entered")
                inside.set()
                leave.wait()

            @hook.safe
            def mark(self):
                calls.append("marked")

        h = Holder()
        t = threading.Thread(target=h.enter)
        t.start()
        inside.wait()
        h.mark()
        leave.set()
        t.join()
        self.assertEqual(calls, ["entered", "marked"])


class TestWithoutLine(unittest.TestCase):
    def test_other_lines_follow(self):
        import os

        read, write = os.pipe()
        kept = os.dup(2)
        os.dup2(write, 2)
        try:
            got = hook.without_line(b"ERROR: this", lambda: os.write(2, b"one\nERROR: this line\ntwo, unfinished"))
        finally:
            os.dup2(kept, 2)
            os.close(write)
        with open(read, "rb") as f:
            self.assertEqual(f.read(), b"one\ntwo, unfinished")
        self.assertEqual(got, 36)


class TestOptimizers(unittest.TestCase):
    class Opt:
        pass

    def steps(self, pattern, repeats=2):
        """Feed steps by letter; returns the source, and the letters that counted."""
        s, made = hook.Optimizers(repeats), {}
        self.made = made
        return s, "".join(c for c in pattern if s.hit(made.setdefault(c, self.Opt())))

    def ends(self, s):
        return next(c for c, o in self.made.items() if s.anchor() is o)

    def test_turns(self):
        for pattern, want in (("DG" * 20, "D"), ("DDDDDG" * 20, "G"), ("GDDDDD" * 20, "G"), ("DDG" * 20, "G"), ("ABC" * 20, "A"),
                              ("AAB" * 3 + "B" * 30, "B"), ("AAAAAA" + "B" * 20, "B"), ("A" * 30 + "B", "A")):
            with self.subTest(pattern):
                self.assertEqual(self.ends(self.steps(pattern)[0]), want)

    def test_waits_for_the_second(self):
        s, _ = self.steps("DDDDDGDDD")
        self.assertTrue(s.expects())
        s, _ = self.steps("DDDDDGDDDDDG")
        self.assertFalse(s.expects())
        s, _ = self.steps("DG" + "D" * 8)  # once, and never again
        self.assertFalse(s.expects())

    def test_a_recording_holds_its_anchor(self):
        s, _ = self.steps("DG" * 3)
        for _ in range(20):
            self.assertFalse(s.hit(self.made["G"], False))
        self.assertEqual(self.ends(s), "D")


class TestTouch(unittest.TestCase):
    def setUp(self):
        self.torch = types.SimpleNamespace(Tensor=type("Tensor", (), {}), nn=types.SimpleNamespace(Parameter=type("Parameter", (), {})))

    def test_a_tensor(self):
        touch = hook.Touch(self.torch, 5)
        self.assertFalse(touch.seen(5))
        held = self.torch.Tensor()
        self.assertTrue(touch.seen(5))
        del held

    def test_a_parameter(self):
        touch = hook.Touch(self.torch, 5)
        held = self.torch.nn.Parameter()
        self.assertTrue(touch.seen(5))
        del held

    def test_an_import_of_the_type(self):
        touch = hook.Touch(self.torch, 5)
        held = self.torch.Tensor
        self.assertFalse(touch.seen(6))
        self.assertFalse(touch.seen(6))
        del held


class TestTold(unittest.TestCase):
    def test_how_far_the_recording_is(self):
        """Seldom, since a step pays for it, and not for the last step, which has its trace."""
        real, now = hook.clock, [100.0]
        hook.clock = lambda: now[0]
        self.addCleanup(setattr, hook, "clock", real)

        class Recorder:
            phase, warm, recorded, steps, told, since, bounded = "record", 1, 0, 9, 100.0, 100.0, False
            config = {"longest_s": 1000}
            profiler = types.SimpleNamespace(step=lambda: None)
            during, lines, finished = [], [], []

            def call(self, f):
                f()

            def finish(self, complete):
                self.finished.append(complete)

            def tell(self, event, **fields):
                self.lines.append((event, fields))

        r, s = Recorder(), types.SimpleNamespace(last=None)
        for _ in range(10):  # the first is the profiler's warm-up
            now[0] += 0.2
            hook.Hook.border(r, s)
        self.assertEqual(r.lines, [("step", {"recorded": 3}), ("step", {"recorded": 6})])
        self.assertEqual(r.finished, [True])


class TestImporting(unittest.TestCase):
    def test_the_stack(self):
        self.assertFalse(hook.importing(sys._getframe()))
        seen = []
        module = types.ModuleType("asks")

        class Loader:
            def create_module(self, _spec):
                return module

            def exec_module(self, _module):
                seen.append(hook.importing(sys._getframe()))

        class Finder:
            def find_spec(self, name, path=None, target=None):
                from importlib.machinery import ModuleSpec

                return ModuleSpec(name, Loader()) if name == "asks" else None

        finder = Finder()
        sys.meta_path.insert(0, finder)
        try:
            import asks  # noqa: F401
        finally:
            sys.meta_path.remove(finder)
        self.assertEqual(seen, [True])


if __name__ == "__main__":
    unittest.main()
