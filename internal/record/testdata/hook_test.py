"""Tests of the hook's parts with a clock of their own: hook_test.py HOOK_FOLDER STAND_IN_OF_TORCH."""

import json
import os
import sys
import types
import unittest

sys.path.insert(0, sys.argv.pop(1))
sys.path.insert(0, sys.argv.pop(1))
import gpuprof_hook as hook  # noqa: E402

host, names = hook.host, hook.host.names


class TestModules(unittest.TestCase):
    def test_the_program_sees_none_of_the_parts(self):
        self.assertEqual([m for m in sys.modules if m.startswith("_gpuprof") or m.startswith("gpuprof_") and m != "gpuprof_hook"], [])
        self.assertIs(hook.tools, hook.recording.tools)  # each is loaded once
        self.assertIs(hook.tools, hook.window.tools)


class TestQuiet(unittest.TestCase):
    def due(self, quiet, script, until=400):
        """When the window opens; script gives (modules, touched) at a second."""
        return next((t for t in range(until) if quiet.look(t, *script(t))), None)

    def test_from_the_first_touch(self):
        self.assertEqual(self.due(hook.marks.Quiet(20, 0, 5), lambda t: (5, t >= 33)), 53)

    def test_without_a_touch(self):
        self.assertEqual(self.due(hook.marks.Quiet(20, 0, 5), lambda t: (5, False)), 140)

    def test_not_while_imports_run(self):
        # Touched at once, as modules with constants do, and imports for 90 s.
        self.assertEqual(self.due(hook.marks.Quiet(20, 0, 0), lambda t: (min(t, 90), True)), 110)

    def test_a_mark_starts_afresh(self):
        q = hook.marks.Quiet(20, 0, 5)
        q.look(1, 5, True)
        q.again(10)
        self.assertEqual(self.due(q, lambda t: (5, True)), 30)

    def test_never_gives_up(self):
        q, tries, t = hook.marks.Quiet(20, 0, 5), [], 0
        for t in range(20000):
            if q.look(t, 5, True):
                tries.append(t)
                q.longer(t)
        self.assertEqual(tries[:3], [20, 60, 140])
        self.assertLessEqual(max(b - a for a, b in zip(tries, tries[1:])), hook.marks.MAX_WAIT_S)
        self.assertGreater(len(tries), 20)

    def test_an_import_that_is_the_program(self):
        q = hook.marks.Quiet(20, 0, 5)
        q.look(7, 6, True)
        self.assertFalse(q.may_import(100))
        self.assertTrue(q.may_import(127))


class TestRank(unittest.TestCase):
    def test_launchers(self):
        for text, want in (
            ("", None),
            ("RANK=1", 1),  # set by the program itself
            ("RANK=5 WORLD_SIZE=8 SLURM_PROCID=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2", 5),
            ("RANK=3 GPUPROF_RANK=0 GPUPROF_WORLD=2", 3),
            ("GPUPROF_RANK=1 GPUPROF_WORLD=2 PMI_RANK=0 PMI_SIZE=2", 1),
            ("OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2", 3),
            ("PALS_RANKID=7", 7),
            ("MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2", 1),
            ("PMI_RANK=1 PMI_SIZE=4", 1),
            ("PMI_RANK=4 PMI_SIZE=4", None),
            ("PMI_RANK=0 PMI_SIZE=1 SLURM_PROCID=3 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4", None),
            ("SLURM_PROCID=3 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4", 3),
            ("SLURM_PROCID=0 SLURM_NTASKS=8", None),  # a batch script
            ("SLURM_PROCID=0", None),  # a task of an array
            ("SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_STEP_ID=4294967290 SLURM_STEP_NUM_TASKS=8", None),
            ("SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1", None),
            ("FLUX_TASK_RANK=2 FLUX_JOB_SIZE=4", 2),
            ("JOB_COMPLETION_INDEX=2", 2),
            ("JOB_COMPLETION_INDEX=2 GPUPROF_WORLD=4", 2),
            ("PMI_RANK=x PMI_SIZE=4", None),
        ):
            with self.subTest(text):
                self.assertEqual(hook.tools.told_rank(dict(kv.split("=") for kv in text.split())), want)


class TestThreads(unittest.TestCase):
    def test_one_inside_keeps_no_other_out(self):
        import threading

        inside, leave, calls = threading.Event(), threading.Event(), []

        class Holder:
            phase, here = "wait", hook.tools.thread_local()

            @hook.tools.safe
            def enter(self):
                self.enter()  # a call from within is no mark
                calls.append("entered")
                inside.set()
                leave.wait()

            @hook.tools.safe
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
            got = hook.tools.without_line(b"ERROR: this", lambda: os.write(2, b"one\nERROR: this line\ntwo, unfinished"))
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
        s, made = hook.marks.Optimizers(repeats), {}
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
        touch = hook.marks.Touch(self.torch, 5)
        self.assertFalse(touch.seen(5))
        held = self.torch.Tensor()
        self.assertTrue(touch.seen(5))
        del held

    def test_a_parameter(self):
        touch = hook.marks.Touch(self.torch, 5)
        held = self.torch.nn.Parameter()
        self.assertTrue(touch.seen(5))
        del held

    def test_an_import_of_the_type(self):
        touch = hook.marks.Touch(self.torch, 5)
        held = self.torch.Tensor
        self.assertFalse(touch.seen(6))
        self.assertFalse(touch.seen(6))
        del held


class Program:
    """A program in time of its own: steps of an optimizer, and a data loader with workers."""

    def __init__(self, test, **config):
        import json
        import os
        import tempfile

        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        self.now, self.paused, self.lines = 1000.0, 0, []
        config = dict({"out": folder.name, "status": os.devnull, "steps": 5, "skip": 10, "skip_exact": False, "shapes": False, "stacks": False,
                       "memory": False, "window_s": 2, "window_after_s": 1e6, "longest_s": 60}, **config)
        with open(os.path.join(folder.name, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        real = hook.tools.clock
        hook.tools.clock = lambda: self.now
        test.addCleanup(setattr, hook.tools, "clock", real)
        import torch

        self.hook = hook.Hook(torch, folder.name, None)
        self.hook.leave = lambda: setattr(self.hook, "phase", "done")
        test.addCleanup(self.hook.stop_samples)  # ends before the folder goes
        self.hook.tell = lambda event, **fields: self.lines.append((event, fields))
        call = self.hook.call

        def calls(f, *args):
            out = call(f, *args)
            if getattr(f, "__name__", "") in ("start", "export_chrome_trace"):
                self.advance(1.0)  # as CUPTI takes, and the writing of a trace
            return out

        self.hook.call = calls
        self.opt = torch.optim.SGD([])
        self.stock = self.most = 0
        self.batch_s = 0.0
        self.burst = 1  # batches that are done at once

    def loader(self, workers, batch_s, length=None):
        """Workers that make a batch every batch_s together, two ahead of each."""
        self.most, self.batch_s, self.credit = 2 * workers, batch_s, 0.0
        program = self

        class Queue:
            def qsize(self):
                return program.stock

        class Iterator:
            _dataset, _num_workers, _prefetch_factor, _num_yielded = self, workers, 2, 0
            _worker_result_queue = _data_queue = Queue()

            if length is not None:
                __len__ = lambda self: length  # noqa: E731

        self.iterator = Iterator()

    def advance(self, seconds):
        self.now += seconds
        if self.batch_s:
            self.credit += seconds / self.batch_s
            made = min(int(self.credit + 1e-9) // self.burst * self.burst, self.most - self.stock)
            self.stock, self.credit = self.stock + made, self.credit - made
            if self.stock == self.most:
                self.credit = 0.0

    def step(self, seconds):
        if self.batch_s:
            self.hook.on_loader(self.iterator)
            if self.stock == 0:
                self.advance((self.burst - self.credit) * self.batch_s)
            self.stock -= 1
            self.iterator._num_yielded += 1
        self.advance(seconds)
        self.hook.on_step(self.opt)
        self.hook.on_zero_grad(self.opt)

    def run(self, seconds, n=1000, first=2.0):
        """Make steps until the hook leaves."""
        self.step(first)
        for _ in range(n):
            if self.hook.phase == "done":
                break
            self.step(seconds)
        return self

    def told(self, event):
        return [fields for e, fields in self.lines if e == event]


class TestPace(unittest.TestCase):
    def times(self, p):
        return p.told("times")[-1]

    def test_a_full_stock_is_used_up_first(self):
        """A step of 5 ms waits for batches of 10 ms, when the stock of the standstill is gone."""
        for batch_s in (0.010, 0.008, 0.015):
            p = Program(self)
            p.loader(4, batch_s)
            p.run(0.005)
            times = self.times(p)
            self.assertLess(len(times["before"]), 3)  # too few for a ratio
            # The first step after the recording may end with a batch that was half made.
            for step in times["during"] + times["after"][1:]:
                self.assertAlmostEqual(step, batch_s, delta=0.01 * batch_s, msg=(batch_s, times))
            self.assertEqual(len(times["during"]), 5)
            self.assertLess(p.told("begin")[-1]["after"], 60)

    def test_a_device_that_is_slower_is_not_waited_for(self):
        p = Program(self)
        p.loader(4, 0.003)
        p.run(0.005)
        self.assertEqual([b["after"] for b in p.told("begin")], [10])

    def test_bursts(self):
        """Batches of two workers come in pairs: no step is left out of those that are timed for it."""
        p = Program(self)
        p.loader(2, 0.040)
        p.burst = 2
        p.run(0.005)
        after = self.times(p)["after"]
        self.assertEqual((min(after), max(after)), (0.005, 0.075), after)

    def test_queues_that_cannot_be_counted(self):
        p = Program(self)
        p.loader(4, 0.010)

        def refuses(_queue):
            raise NotImplementedError

        type(p.iterator._data_queue).qsize = refuses
        p.run(0.005)
        self.assertEqual([b["after"] for b in p.told("begin")], [10])
        self.assertEqual(p.told("error"), [])

    def test_no_workers(self):
        p = Program(self).run(0.005)
        self.assertEqual([b["after"] for b in p.told("begin")], [10])

    def test_the_end_of_the_epoch(self):
        """The steps that are left are recorded, whatever their pace."""
        p = Program(self)
        p.loader(8, 0.010, length=30)
        p.run(0.005, 29)
        p.hook.flush()
        self.assertEqual(p.told("trace")[-1]["steps"], 5)


class TestLongSteps(unittest.TestCase):
    def begun(self, seconds, **config):
        p = Program(self, **config).run(seconds, 30)
        return p.told("begin")[-1]["after"], p.told("trace")[-1]["steps"]

    def test_of_minutes(self):
        self.assertEqual(self.begun(180), (4, 1))

    def test_of_seconds(self):
        self.assertEqual(self.begun(12), (4, 5))

    def test_short(self):
        self.assertEqual(self.begun(1), (10, 5))

    def test_the_number_that_was_asked_for(self):
        self.assertEqual(self.begun(180, skip_exact=True), (10, 1))

    def test_a_long_step_among_short_ones(self):
        p = Program(self)
        for seconds in (2, 100, 0.1, 100, 0.1) + (0.1,) * 30:
            p.step(seconds)
        self.assertEqual(p.told("begin")[-1]["after"], 10)


class TestGrowth(unittest.TestCase):
    def watched(self, sizes, warm=0):
        """What becomes of a recording while the process has these sizes."""
        real, left = hook.tools.resident, list(sizes)
        hook.tools.resident = lambda: left.pop(0)
        self.addCleanup(setattr, hook.tools, "resident", real)
        p = Program(self)
        h, cuts = p.hook, []
        h.phase, h.since, h.warm, h.held = "record", p.now, warm, 1 << 30
        h.in_main = lambda _timer, f: cuts.append(f.__name__)
        h.watch_steps(types.SimpleNamespace(acquire=lambda timeout: not left))
        return h.grown, cuts

    def test_memory(self):
        gib = 1 << 30
        self.assertEqual(self.watched([gib, 2 * gib]), (0, []))
        self.assertEqual(self.watched([gib, gib + hook.window.GROWN_BORDER + 1]), (hook.window.GROWN_BORDER + 1, []))
        self.assertEqual(self.watched([gib, gib + hook.window.GROWN_MOST + 1, gib]), (hook.window.GROWN_MOST + 1, ["cut_short"]))

    def test_ends_at_the_next_border(self):
        p = Program(self)
        for _ in range(13):
            p.step(1)
        p.hook.grown = hook.window.GROWN_BORDER + 1
        p.step(1)
        trace = p.told("trace")[-1]
        self.assertEqual((trace["bounded"], trace["steps"], trace["grown"]), (True, 4, hook.window.GROWN_BORDER + 1))


class TestLastBorder(unittest.TestCase):
    def drawn(self, memory):
        """Whether the border that waits at the end is one, a second after steps of a millisecond."""
        drawn = []
        s = types.SimpleNamespace(before=[0.001], last=hook.tools.clock() - 1)
        h = types.SimpleNamespace(pending=1, memory=memory, recorded=1, warm=0, during=[], sources={"optimizer": s}, border=drawn.append)
        hook.Hook.settle_at_exit(h)
        return drawn == [s]

    def test_what_came_after_a_step_is_not_the_steps(self):
        self.assertFalse(self.drawn(None))

    def test_a_history_of_memory_ends_with_the_step(self):
        self.assertTrue(self.drawn(object()))


class TestTold(unittest.TestCase):
    def test_how_far_the_recording_is(self):
        """Seldom, since a step pays for it, and not for the last step, which has its trace."""
        real, now = hook.tools.clock, [100.0]
        hook.tools.clock = lambda: now[0]
        self.addCleanup(setattr, hook.tools, "clock", real)

        class Recorder:
            phase, warm, recorded, steps, told, since, bounded, grown = "record", 1, 0, 9, 100.0, 100.0, False, 0
            config = {"longest_s": 1000}
            profiler = types.SimpleNamespace(step=lambda: None)
            during, lines, finished = [], [], []

            def call(self, f):
                f()

            def warm_up(self, _s):
                self.warm -= 1

            def clock_step(self):
                pass

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


class TestDoing(unittest.TestCase):
    def test_what_a_thread_does(self):
        for held, state, cpu, others, want in (
            (True, "R", 0.9, 0.0, "python"),
            (True, "S", 0.9, 0.0, "python"),  # the sampler has just taken the lock from it
            (True, "S", 0.0, 0.1, "blocked"),  # a third thread kept the lock for a moment
            (True, "S", 0.0, 0.9, "lock"),
            (True, "R", 0.0, 0.9, "python"),  # it waits for a CPU, and may hold the lock
            (False, "R", 0.9, 0.0, "native"),
            (False, "S", 0.9, 0.0, "blocked"),
            (False, "D", 0.0, 0.0, "blocked"),
            (False, "", 0.9, 0.0, "native"),  # the system tells no state
            (False, "", 0.1, 0.0, "blocked"),
        ):
            self.assertEqual(names.doing(held, state, cpu, others), want, (held, state, cpu, others))


class TestThreads(unittest.TestCase):
    def test_switches_of_a_thread(self):
        import threading
        import time

        if not os.path.exists("/proc/self/task"):
            self.skipTest("the system has no /proc/self/task")
        count = names.switches_of(threading.get_native_id())
        before = count()
        for _ in range(20):
            time.sleep(0.001)
        # On a busy machine a sleep can begin with the loss of the CPU and end before it returns: no voluntary switch.
        voluntary, involuntary = (now - then for now, then in zip(count(), before))
        self.assertGreater(voluntary, 0)
        self.assertGreaterEqual(voluntary + involuntary, 20)
        self.assertEqual(names.switches_of(1 << 30)(), (0, 0))

    def test_below_a_compiler(self):
        seen = []
        scope = {"look": lambda: seen.append(names.compiling(sys._getframe()))}
        for path in ("/venv/jax/_src/compiler.py", "/venv/app/compiler.py"):
            exec(compile("look()", path, "exec"), scope)
        self.assertEqual(seen, [True, False])


class TestFrames(unittest.TestCase):
    def callee(self, text, library=False, **scope):
        table = names.Frames()
        table.list.append(["train.py", "step", 1, text, library])
        table.numbers["frame"] = 0
        return table.leaf("frame", scope)

    def test_whose_code_a_call_runs(self):
        import json
        import torch

        self.assertEqual(self.callee("json.loads(x)", json=json), "other")
        self.assertEqual(self.callee("zlib.compress(x)"), "other" if "zlib" in sys.modules else "")
        self.assertEqual(self.callee("torch.add(x, y)", torch=torch), "torch")
        self.assertEqual(self.callee("sorted(x)", __builtins__={"sorted": sorted}), "other")
        self.assertEqual(self.callee("x @ y"), "")
        self.assertEqual(self.callee("[v for v in x]"), "")

    def test_nothing_of_the_program_runs(self):
        class Proxy:
            def __getattribute__(self, name):
                raise AssertionError("looked at " + name)

        self.assertEqual(self.callee("proxy(x)", proxy=Proxy()), "other")

    def test_places(self):
        import json

        table = names.Frames()
        self.assertEqual(table.place(json.__file__), ("json/__init__.py", True))
        self.assertEqual(table.place("<frozen runpy>"), ("<frozen runpy>", True))
        self.assertEqual(table.place("<string>"), ("<string>", False))
        self.assertEqual(table.place(os.path.join(os.getcwd(), "sub", "train.py")), (os.path.join("sub", "train.py"), False))


class TestHost(unittest.TestCase):
    """The sampler at a thread of its own."""

    def sampled(self, work):
        import tempfile
        import threading

        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        told, made, end = [], [], threading.Event()
        ready = threading.Event()
        s = types.SimpleNamespace(anchor=None)
        h = types.SimpleNamespace(out=folder.name, rank=lambda: None, torch=None, loader_facts={}, sources={"optimizer": s},
                                  tell=lambda event, **fields: told.append((event, fields)))

        def thread():
            made.append(host.Host(h, threading.get_ident(), threading.get_native_id()))
            ready.set()
            while not end.is_set():
                work(end)

        t = threading.Thread(target=thread, daemon=True)
        interval = sys.getswitchinterval()
        t.start()
        self.assertTrue(ready.wait(60))
        made[0].start(True)
        self.assertAlmostEqual(sys.getswitchinterval(), host.SWITCH_S)
        while made[0].taken < 8 and not told:
            end.wait(0.01)
        made[0].end()
        end.set()
        t.join()
        self.assertAlmostEqual(sys.getswitchinterval(), interval)
        event, fields = told[-1]
        self.assertEqual(event, "host", told)
        with open(os.path.join(folder.name, fields["file"]), encoding="utf-8") as f:
            head, *stacks = [json.loads(line) for line in f]
        self.assertEqual(sum(x["count"] for x in stacks), fields["samples"])
        best = max(stacks, key=lambda x: x["count"])
        return best["doing"], [head["frames"][i] for i in best["frames"]]

    def test_a_wait(self):
        doing, frames = self.sampled(lambda end: end.wait(0.5))
        self.assertEqual(doing, "blocked")
        self.assertIn("wait", frames[-1][1])

    def test_the_switch_interval_of_the_program_stays(self):
        interval = sys.getswitchinterval()
        h = types.SimpleNamespace(switch=interval)
        self.addCleanup(sys.setswitchinterval, interval)
        sys.setswitchinterval(0.25)  # by the program, while it was sampled
        host.Host.restore_switch(h)
        self.assertAlmostEqual(sys.getswitchinterval(), 0.25)


class TestImporting(unittest.TestCase):
    def test_the_stack(self):
        self.assertFalse(hook.tools.importing(sys._getframe()))
        seen = []
        module = types.ModuleType("asks")

        class Loader:
            def create_module(self, _spec):
                return module

            def exec_module(self, _module):
                seen.append(hook.tools.importing(sys._getframe()))

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
