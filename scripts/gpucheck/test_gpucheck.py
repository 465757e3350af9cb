"""Tests of gpu-check's own scripts on made-up results: python3 -m unittest discover -s scripts/gpucheck -p 'test_*.py'

With UPDATE=1 the recorded summaries are written anew.
"""
import argparse
import gzip
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import check  # noqa: E402
import parts  # noqa: E402
import record  # noqa: E402
import runner  # noqa: E402
import summary  # noqa: E402
import unpack  # noqa: E402

HEADER = {"started": "2026-01-02T03:04:05+00:00", "seconds": 400.0, "budget_s": 465, "dry": False, "ended": True, "made_by": {"version": "v1", "commit": "abc"}, "left_out": []}


def a_run(workload="e3nn", preset="deepaw", low=0.999, high=1.004, step=2e-3, status="complete", kind="cuda", simulated=False, product=8e-4):
    return {"schema_version": "1.0.0", "status": status, "reason": "" if status == "complete" else "interrupted", "workload": workload, "preset": preset, "mode": "steady",
            "device": {"kind": kind, "name": "NVIDIA H200", "arch": "sm_90", "cores": 132, "cpu": "made up", "kernel": "6", "facts": {"driver": "580", "cuda": "13.0", **({"simulated": "true"} if simulated else {})}},
            "knobs": {"precision": "fp32"}, "energy": {"valid": True, "gross_step_j": 2.5, "net_step_j": 2.0, "idle_w": 120.0},
            "telemetry": {"gpu_sm_clock": {"unit": "Hz", "value": [1.98e9, 1.965e9, 1.98e9]}},
            "checks": [{"stage": "tp", "pass": True}], "overhead": {"ratio": 1.001, "ci95": [low, high]}, "step": {"median": step},
            "stages": [{"name": "gru", "parent": "step", "device": {"median": 1e-3}, "floor_s": step / 4},
                       {"name": "tensor_product", "parent": "step", "device": {"median": product}, "floor_s": step / 4},
                       {"name": "tp_csr", "parent": "tensor_product", "device": {"median": 7.0}, "floor_s": 0},
                       {"name": "collate", "parent": "step", "device": None, "floor_s": 0}]}


def fill(folder, nulls=(1.0, 1.001, 0.999, 1.0, 1.002, 1.0), products=(1.0,) * 8, csr=1e-3, dry=False):
    """Made-up results of a GPU, or of a dry run."""
    figures = [{"name": "tensor_product/deepaw/csr", "unit": "s", "value": csr, "floor": 6e-4, "limit": "fast", "pass": True, "extra": {"edges": 1}},
               {"name": "gemm/8x8x8/fp32", "unit": "s", "value": 1e-3, "note": "the product is cuBLAS's"},
               {"name": "gemm/8x8x8/fp32-own", "unit": "s", "value": 2e-3, "note": "the product is our own kernel's"},
               {"name": "gemm/8x8x8/tf32", "unit": "s", "value": 4e-4, "note": "the product is cuBLAS's"},
               {"name": "ceiling/copy", "unit": "B/s", "value": 4.3e12},
               {"name": "tensor_product/deepaw/unfused", "unit": "s", "value": None, "note": "not measured: memory"}]
    peers = [{"name": "tensor_product/deepaw", "peer": "e3nn", "unit": "s", "value": 20e-3, "extra": {}, "note": ""},
             {"name": "tensor_product/deepaw", "peer": "OpenEquivariance", "unit": "s", "value": 5e-3, "extra": {}, "note": ""},
             {"name": "gemm/8x8x8/fp32", "peer": "torch.mm", "unit": "s", "value": 9e-4, "extra": {}, "note": ""},
             {"name": "gemm/8x8x8/tf32", "peer": "torch.mm", "unit": "s", "value": 3e-4, "extra": {}, "note": ""},
             {"name": "gruflow/energyflow", "peer": "torch.nn.GRU", "unit": "s", "value": 3e-3, "extra": {}, "note": ""},
             {"name": "gruflow/energyflow/tf32", "peer": "torch.nn.GRU", "unit": "s", "value": 7e-4, "extra": {}, "note": ""},
             {"name": "tensor_product/deepaw", "peer": "cuEquivariance", "unit": "s", "value": None, "extra": {}, "note": "not yet measured"}]
    if dry:
        figures = [{"name": f["name"], "unit": f["unit"], "value": None, "limit": f.get("limit", ""), "dry": True} for f in figures]
        peers = [dict(p, value=None, note="dry") for p in peers]
    for name, lines in (("figures.jsonl", figures), ("peers.jsonl", peers)):
        (folder / name).write_text("".join(json.dumps(x) + "\n" for x in lines) + '{"cut')
    for sub in ("runs", "null", "traces", "logs", "sweeps"):
        (folder / sub).mkdir(exist_ok=True)
    with gzip.open(folder / "sweeps/gruflow-energyflow-precision.json.gz", "wt") as f:
        json.dump({"runs": [a_run("gruflow", "energyflow"), dict(a_run("gruflow", "energyflow", step=1e-3), knobs={"precision": "tf32"})]}, f)
    for name, r in (("runs/e3nn-deepaw", a_run()), ("runs/gruflow-energyflow", a_run("gruflow", "energyflow")), ("runs/gruflow-energyflow-own", a_run("gruflow", "energyflow")), *((f"null/{i:02d}", a_run(step=2e-3 * x, product=8e-4 * products[i])) for i, x in enumerate(nulls))):
        with gzip.open(folder / (name + ".json.gz"), "wt") as f:
            json.dump(r, f)
    (folder / "traces" / "analysis.json").write_text(json.dumps([{"name": "item", "expected": ["item"], "first": "item", "planted": ["item"], "clean": [], "claim_ns": 1.2e6, "saved_ns": 1e6}]))
    (folder / "logs" / "a.txt").write_text("words")


def a_part(status="pass"):
    return {"name": "kernels", "status": status, "seconds": 1.0, "limit_s": 5, "detail": "", "commands": [{"name": "op", "rc": 0, "status": status, "seconds": 1.0, "tail": "the end"}]}


class Folder(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.dir = pathlib.Path(held.name)


class Summary(Folder):
    def build(self, **more):
        return summary.build(self.dir, {**HEADER, **more}, [a_part()])

    def states(self, result):
        return {c["name"]: c["status"] for c in result["checks"]}

    def test_a_good_gpu(self):
        fill(self.dir)
        result = self.build()
        states = self.states(result)
        self.assertEqual(result["verdict"], "pass", [c for c in result["checks"] if c["status"] == "fail"])
        for name in ("null/e3nn/step", "null/e3nn/tensor_product", "null/e3nn/device", "run/e3nn-deepaw/overhead", "run/e3nn-deepaw/reference", "peer/e3nn/deepaw", "trace/item", "trace/item/claim", "tensor_product/deepaw/csr"):
            self.assertEqual(states[name], "pass", name)
        self.assertEqual(states["peer/e3nn/mace-large"], "not-measured")
        row = next(r for r in result["table"] if r["name"] == "tensor_product/deepaw/csr")
        self.assertEqual([p["name"] for p in row["peers"]], ["OpenEquivariance", "e3nn"])
        faster = next(r for r in result["table"] if r["name"] == "run/gruflow-energyflow/tf32/gru")
        self.assertEqual([p["value"] for p in faster["peers"]], [7e-4])
        step = next(r for r in result["table"] if r["name"] == "run/e3nn-deepaw/step")
        self.assertEqual((step["extra"]["energy_gross_j"], step["extra"]["energy_net_j"], step["extra"]["sm_clock_hz"]), (2.5, 2.0, 1.98e9))
        gru = next(r for r in result["table"] if r["name"] == "run/gruflow-energyflow/gru")
        self.assertEqual(gru["peers"][0]["name"], "torch.nn.GRU")
        # Our own kernels beside the vendor's library, each against the same peer.
        for name, want in (("run/gruflow-energyflow-own/gru", 3e-3), ("gemm/8x8x8/fp32", 9e-4), ("gemm/8x8x8/fp32-own", 9e-4), ("gemm/8x8x8/tf32", 3e-4)):
            self.assertEqual([p["value"] for p in next(r for r in result["table"] if r["name"] == name)["peers"]], [want], name)
        self.assertEqual(len(result["not_measured"]), 2)
        text = summary.render(result)
        self.assertIn("20.00", text)  # e3nn's 20 ms over 1 ms
        self.assertIn("4.3 TB/s", text)
        self.assertIn("OpenEquivariance 5 ms", text)  # every peer, not the best alone
        self.assertIn("its products are our own", text)
        self.assertIn("NVIDIA H200, driver 580, CUDA 13.0, gpuprof", text)
        self.assertIn("1.98 GHz", text)

    def test_kernels_of_the_gradients(self):
        fill(self.dir)
        r = a_run("e3nn", "mace-large")
        r["input"] = {"tensor_product_grad_kernels": ["tp_grad_mace_large"]}
        r["stages"].append({"name": "tensor_product_bwd", "parent": "step", "device": {"median": 2e-3}, "floor_s": 1e-3})
        with gzip.open(self.dir / "runs/e3nn-mace-large-forces.json.gz", "wt") as f:
            json.dump(r, f)
        row = next(r for r in self.build()["table"] if r["name"] == "run/e3nn-mace-large-forces/tensor_product_bwd")
        self.assertEqual(row["note"], "device time of the stage; kernel tp_grad_mace_large")

    def test_what_has_to_fail(self):
        for change, name in ((dict(nulls=(1.0, 1.03) * 3), "null/e3nn/step"), (dict(nulls=(1.0, 1.0, 1.0, 1.0, 1.0, 1.06)), "null/e3nn/step"),
                             (dict(products=(1.0, 1.03, 1.03, 1.0, 1.0, 1.03)), "null/e3nn/tensor_product"),
                             (dict(products=(1.0, 1.13, 1.0, 1.0, 1.0, 1.0)), "null/e3nn/device"), (dict(csr=5e-3), "peer/e3nn/deepaw")):
            with self.subTest(change):
                fill(self.dir, **change)
                self.assertEqual(self.states(self.build())[name], "fail")
        fill(self.dir)
        for bad, name in ((a_run(low=1.012, high=1.02), "overhead"), (a_run(status="partial"), "reference")):
            with gzip.open(self.dir / "runs/e3nn-deepaw.json.gz", "wt") as f:
                json.dump(bad, f)
            self.assertEqual(self.states(self.build())[f"run/e3nn-deepaw/{name}"], "fail")

    def test_a_run_that_ended_at_once(self):
        fill(self.dir)
        bare = dict(a_run(status="partial"), checks=None, stages=None, step=None, overhead=None)
        with gzip.open(self.dir / "runs/e3nn-deepaw.json.gz", "wt") as f:
            json.dump(bare, f)
        result = self.build()
        self.assertEqual(self.states(result)["run/e3nn-deepaw/reference"], "fail")
        self.assertIn("0 stages compared", summary.render(result))

    def test_a_drift_is_no_difference(self):
        fill(self.dir, nulls=[1 + 0.002 * i for i in range(8)])
        self.assertEqual(self.states(self.build())["null/e3nn/step"], "pass")

    def test_a_noisy_host_does_not_hide_what_the_gpu_does(self):
        fill(self.dir, nulls=(1.0, 1.3, 0.8, 1.0, 1.2, 1.0))
        states = self.states(self.build())
        self.assertEqual([states[f"null/e3nn/{n}"] for n in ("step", "tensor_product", "device")], ["fail", "pass", "pass"])

    def test_a_claim_that_is_too_large(self):
        fill(self.dir)
        path = self.dir / "traces/analysis.json"
        for claim, want in ((1.34e6, "pass"), (1.36e6, "fail"), (0.99e6, "fail")):
            path.write_text(json.dumps([dict(json.loads(path.read_text())[0], claim_ns=claim)]))
            self.assertEqual(self.states(self.build())["trace/item/claim"], want)

    def test_a_dry_run_has_no_figures(self):
        fill(self.dir, dry=True)
        result = self.build(dry=True)
        self.assertTrue(all(r["measured"] is None and r["floor"] is None and not r["peers"] for r in result["table"]))
        self.assertTrue(all(c["value"] is None for c in result["checks"]))
        self.assertIn("DRY RUN", summary.render(result))

    def test_recorded(self):
        """workloads/gpucheck holds these against the schema."""
        for name, dry in (("gpu", False), ("dry", True)):
            fill(self.dir, dry=dry)
            result = summary.build(self.dir, {**HEADER, "dry": dry}, [a_part(), a_part("absent")])
            path = HERE.parent.parent / f"workloads/gpucheck/testdata/summary-{name}.json"
            if os.environ.get("UPDATE") == "1":
                path.write_text(json.dumps(result, indent=1) + "\n")
            self.assertEqual(json.loads(path.read_text()), json.loads(json.dumps(result)))

    def test_verdicts(self):
        for status, want in (("pass", "pass"), ("absent", "pass"), ("fail", "fail"), ("timeout", "incomplete"), ("not-run", "incomplete")):
            self.assertEqual(summary.verdict([a_part(status)], []), want)
        self.assertEqual(summary.verdict([], []), "incomplete")


class Running(Folder):
    def runner(self, budget=60.0):
        out = self.dir / "out"
        out.mkdir()
        args = argparse.Namespace(out=out, archive=self.dir / "r.tar.gz", budget=budget + runner.RESERVE_S, dry_run=True)
        return runner.Runner(check.TOOL, args, {"made_by": {}})

    def sh(self, name, text, **more):
        return parts.Command(name, ["bash", "-c", text], **more)

    def test_a_part_ends_with_its_time_and_its_children(self):
        r = self.runner()
        begin = time.monotonic()
        mark = self.dir / "late"
        r.run_part(parts.Part("slow", 2, [self.sh("first", "echo kept", stdout="kept.txt"), self.sh("second", f"(sleep 5; touch {mark}) & wait"), self.sh("third", "true")], least=1))
        self.assertLess(time.monotonic() - begin, 4.5)
        record = r.records[0]
        self.assertEqual([c["status"] for c in record["commands"]], ["pass", "timeout", "not-run"])
        self.assertEqual(record["status"], "timeout")
        self.assertEqual((r.args.out / "kept.txt").read_text(), "kept\n")
        time.sleep(4)
        self.assertFalse(mark.exists(), "a child outlived its part")

    def test_results_of_commands(self):
        r = self.runner()
        r.run_part(parts.Part("x", 20, [self.sh("bad", "echo '--- FAIL: TestX'; exit 3"), self.sh("good", "echo '    --- PASS: TestY'")], least=1))
        self.assertEqual((r.records[0]["status"], r.records[0]["commands"][0]["rc"]), ("fail", 3))
        self.assertIn("TestX", r.records[0]["commands"][0]["tail"])
        empty = "echo 'testing: warning: no tests to run'"
        r.run_part(parts.Part("y", 20, [self.sh("none", empty)], least=1))
        r.run_part(parts.Part("w", 20, [parts.Command("gone", ["/no/such/program"])], least=1))
        self.assertEqual([x["status"] for x in r.records[1:]], ["fail", "fail"])
        self.assertEqual(r.write()["verdict"], "fail")

    def test_no_time_left(self):
        r = self.runner(budget=3)
        r.run_part(parts.Part("late", 20, [self.sh("a", "true")], least=5))
        self.assertEqual(r.records[0]["status"], "not-run")
        self.assertEqual(r.write()["verdict"], "incomplete")

    def test_the_archive_keeps_what_matters_within_its_limit(self):
        fill(self.dir)
        (self.dir / "summary.json").write_text("{}")
        (self.dir / "bin").mkdir()
        (self.dir / "bin" / "gpuprof").write_bytes(b"x")
        (self.dir / "logs" / "huge.txt").write_bytes(os.urandom(20_000_000))
        (self.dir / "runs" / "large.json.gz").write_bytes(os.urandom(9_000_000))
        with tempfile.TemporaryDirectory() as other:
            archive = pathlib.Path(other) / "r.tar.gz"
            self.assertEqual(runner.pack(self.dir, archive, check.TOOL.order), ["logs/huge.txt"])
            self.assertLess(archive.stat().st_size, runner.ARCHIVE_LIMIT)
            with tarfile.open(archive) as tar:
                names = tar.getnames()
            self.assertEqual(names[0], "results/summary.json")
            self.assertIn("results/runs/large.json.gz", names)
            self.assertFalse([n for n in names if "/bin/" in n])
            runner.pack(self.dir, archive, check.TOOL.order, check.TOOL.dry_order)
            with tarfile.open(archive) as tar:
                self.assertFalse([n for n in tar.getnames() if n.startswith(("results/runs", "results/null", "results/logs"))])

    def test_the_whole_ends_within_its_budget(self):
        """What its parts took on an H200 or are thought to take. Each may take longer, and is cut then."""
        self.assertLess(sum(check.TOOL.parts.values()) + runner.RESERVE_S, check.TOOL.budget)
        self.assertEqual(check.TOOL.budget, 765)
        table = self.table(sys.executable)
        table.gpuprof = "/bin/true"
        made = {p.name: p for p in parts.table(table.args, self.dir, [], table.left)}
        self.assertEqual(list(made), list(check.TOOL.parts))
        for name, seconds in check.TOOL.parts.items():
            self.assertEqual((made[name].broken, made[name].limit > seconds), ("", True), name)
        # One that hangs leaves time for the others.
        for name in ("peers", "recorder", "runs"):
            self.assertTrue(all(0 < c.limit < made[name].limit for c in made[name].commands), name)
        page = (HERE.parent.parent / "docs/gpu-check.md").read_text()
        rows = re.findall(r"^\| `(\w[\w-]*)` \|.*\| (\d+) \|", page, re.M)
        self.assertEqual({n: int(s) for n, s in rows}, {**check.TOOL.parts, **record.TOOL.parts, "sweeps": rows and record.TOOL.parts["sweeps"]})
        self.assertEqual([n for n, _ in rows], list(check.TOOL.parts) + list(record.TOOL.parts))
        # The two calls of a quarter of an hour leave two minutes for the machine's start.
        budget, last, seconds = re.search(r"gpu-check --budget (\d+) +# the parts down to ([\w-]+), (\d+) s", page).groups()
        names = list(check.TOOL.parts)
        self.assertEqual(int(seconds), sum(check.TOOL.parts[n] for n in names[: names.index(last) + 1]))
        self.assertGreater(int(budget), int(seconds) + runner.RESERVE_S)
        self.assertLessEqual(int(budget) + int(re.search(r"gpu-record --budget (\d+) --only", page)[1]), 900 - 120)

    def test_runs_are_every_preset(self):
        """All presets that the program lists, small ones last; a dry run takes those alone."""
        program = self.dir / "gpuprof"
        presets = {"e3nn": ["small", "deepaw", "mace-medium", "mace-large", "nequip-lips"], "gruflow": ["small", "energyflow", "deepbench"], "collate": ["small", "deepaw", "naive"],
                   "gridsim": ["small", "large"], "serving": ["small", "rxvision"]}
        listed = json.dumps({"workloads": [{"name": w, "presets": p} for w, p in presets.items()]})
        program.write_text(f"#!/bin/sh\necho '{listed}'\n")
        program.chmod(0o755)
        for dry in (False, True):
            args = argparse.Namespace(out=self.dir, dry_run=dry, gpuprof=program, gpuprof_device="cuda", source=None, bundle=self.dir, python=sys.executable)
            table = parts.Table(args, self.dir, lambda: 60)
            names = [c.name for make in (parts.runs, parts.presets) for c in make(table).commands]
            expected = [f"{w}-{p}" for w, of in presets.items() for p in of if p == "small" or not dry] + list(parts.TRAINED) + list(parts.COMPILED)
            # A dry run has no service: its verdict would be the machine's.
            self.assertEqual(sorted(names), sorted(n for n in expected if n != "serving-small" or not dry))
            self.assertEqual(names[-4:], ["e3nn-small", "gruflow-small", "collate-small", "gridsim-small"] if dry else ["gruflow-small", "collate-small", "gridsim-small", "serving-small"])
            # The energy pass is dear: two of the main presets alone have it.
            energy = [c.name for c in parts.runs(table).commands if "--no-energy" not in c.argv]
            self.assertEqual(energy, [] if dry else parts.ENERGY)
            if not dry:  # what has no figure yet comes before what has
                self.assertEqual(names[:5], [parts.MAIN[0], *parts.TRAINED, "serving-rxvision"])

    def test_what_is_predicted_is_measured(self):
        """docs/performance.md predicts the step of mace-large for streams=3."""
        program = self.dir / "gpuprof"
        knobs = {"precision": "fp32, tf32, tf32x3", "streams": "2, 1, 3"}
        listed = json.dumps({"knobs": [{"name": n, "accepts": a} for n, a in knobs.items()]})
        program.write_text(f"#!/bin/sh\necho '{listed}'\n")
        program.chmod(0o755)
        table = self.table(sys.executable)
        table.gpuprof = str(program)
        found = {c.name: " ".join(c.argv) for c in parts.sweeps(table).commands}["e3nn-mace-large-streams"]
        for words in ("--set precision=fp32,tf32x3", "--set streams=2,3"):
            self.assertIn(words, found)

    def test_overhead_of_small_is_not_judged(self):
        fill(self.dir)
        with gzip.open(self.dir / "runs/e3nn-small.json.gz", "wt") as f:
            json.dump(a_run(preset="small", high=1.3), f)
        checks = {c["name"]: c["status"] for c in summary.build(self.dir, HEADER, [a_part()])["checks"]}
        self.assertEqual((checks["run/e3nn-small/overhead"], checks["run/e3nn-small/reference"]), ("not-measured", "pass"))

    def test_a_part_that_cannot_be_made(self):
        r = self.runner()
        args = argparse.Namespace(out=r.args.out, dry_run=True, gpuprof=None, gpuprof_device="host", source=self.dir, bundle=self.dir, python="/no/such/python")
        made = parts.null
        self.addCleanup(setattr, parts, "null", made)
        parts.null = lambda t: [][0]
        for part in parts.table(args, self.dir, ["peers", "null", "traces", "bit-identity"], r.left):
            if part.name == "bit-identity":
                part.commands = [self.sh("stand-in", "true")]
            r.run_part(part)
        got = {x["name"]: (x["status"], x["detail"]) for x in r.records}
        self.assertEqual({n: s for n, (s, _) in got.items()}, {"bit-identity": "pass", "peers": "absent", "null": "fail", "traces": "absent"})
        self.assertIn("IndexError", got["null"][1])
        self.assertIn("/no/such/python cannot be started", got["peers"][1])
        self.assertEqual(r.write()["verdict"], "fail")

    def table(self, python, left=60, dry=False):
        args = argparse.Namespace(out=self.dir, dry_run=dry, gpuprof=None, gpuprof_device="cuda", source=None, bundle=self.dir, python=str(python))
        return parts.Table(args, self.dir, lambda: left)

    def python(self, script):
        python = self.dir / "python"
        python.write_text("#!/bin/sh\n" + script + "\n")
        python.chmod(0o755)
        return python

    def test_sizes_of_a_dry_run(self):
        """They replace what a row asks for, but not the values of a sweep."""
        for sets, real, dry in ((["pass=train", "batch=128"], "pass=train batch=128", "pass=train batch=4 edges=40"),
                                (["batch=2,4"], "batch=2,4", "batch=2,4 edges=40"), ([], "", "batch=4 edges=40")):
            for want, t in ((real, self.table("python")), (dry, self.table("python", dry=True))):
                words = t.settings("e3nn", *sets)
                self.assertEqual((" ".join(words[1::2]), set(words[::2])), (want, {"--set"} if want else set()))

    def test_the_bundle_has_what_its_scripts_import(self):
        copied = re.findall(r"[{,/](\w+)(?=[\w,]*}?\.py)", (HERE.parent / "build" / "gpu_bundle.sh").read_text())
        for script in copied:
            for folder in (HERE, HERE.parent / "peer"):
                text = (folder / f"{script}.py").read_text() if (folder / f"{script}.py").exists() else ""
                for name in re.findall(r'^(?:import|from) (\w+)|import_module\("(\w+)"', text, re.M):
                    name = "".join(name)
                    if (HERE / f"{name}.py").exists() or (HERE.parent / "peer" / f"{name}.py").exists():
                        self.assertIn(name, copied, f"{script}.py imports it")

    def test_pythons(self):
        for script, want, left in (("exit 0", ("", ""), 60), ("echo noise >&2; echo 'has no torch' >&2; exit 1", ("absent", "has no torch; the peers"), 60), ("exit 3", ("absent", "ended with 3"), 60),
                                   ("exec sleep 60", ("not-run", "no more were left"), 0)):
            python = self.python(script)
            t = self.table(python, left)
            status, why = parts.python_lacks(t, "torch")
            self.assertEqual((status, want[1] in why and bool(want[1]) == bool(why)), (want[0], True), why)
            python.unlink()
            self.assertEqual(parts.python_lacks(t, "torch"), (status, why))  # asked once
        self.assertEqual(parts.python_lacks(self.table(sys.executable, dry=True), "json"), ("", ""))
        self.assertIn("has no nosuch and no such2", parts.python_lacks(self.table(sys.executable, dry=True), "nosuch", "json", "such2")[1])

    def test_torch_is_imported_once(self):
        asked = self.dir / "asked"
        t = self.table(self.python(f'echo "$2" >>{asked}'))
        for modules in (("torch",), ("torch", "e3nn"), ("torch",)):
            self.assertEqual(parts.python_lacks(t, *modules), ("", ""))
        lines = [l for l in asked.read_text().splitlines() if l]
        self.assertEqual(len(lines), 3)
        self.assertEqual(sum("import sys, torch" in l for l in lines), 1)

    def test_the_recorder_without_a_libcupti(self):
        """The part is absent and says why, in doctor's words; a doctor that says nothing is named as well."""
        program = self.dir / "gpuprof"
        for line, want in (({"name": "cupti", "state": "ok", "found": "/x/libcupti.so.12"}, ("", "")), (None, ("absent", "did not say which libcupti")),
                           ({"name": "cupti", "state": "missing", "found": "no libcupti", "reason": "in none of 9 folders", "fix": "install it"}, ("absent", "no libcupti: in none of 9 folders; install it; the recorder"))):
            program.write_text("#!/bin/sh\necho '" + json.dumps({"checks": [line] if line else []}) + "'\n")
            program.chmod(0o755)
            t = self.table(sys.executable)
            t.gpuprof, t.bin = str(program), self.dir
            status, why = parts.cupti_lacks(t)
            self.assertEqual((status, want[1] in why and bool(want[1]) == bool(why)), (want[0], True), why)
        r = self.runner()
        r.run_part(parts.recorder(t))
        self.assertEqual((r.records[0]["status"], r.records[0]["commands"]), ("absent", []))

    def test_an_answer_that_never_comes(self):
        self.addCleanup(setattr, parts, "ASK_S", parts.ASK_S)
        parts.ASK_S = 1
        self.assertEqual(parts.python_lacks(self.table(self.python("exec sleep 60")), "torch")[0], "absent")

    def test_python_is_asked_only_where_there_is_time(self):
        asked = self.dir / "asked"
        t = self.table(self.python(f"touch {asked}; exit 3"))
        for make in (parts.peers, parts.traces, parts.peers_compiled):
            r = self.runner(budget=10)
            r.run_part(make(t))
            self.assertEqual(r.records[0]["status"], "not-run", make.__name__)
            r.args.out.rmdir()
        self.assertFalse(asked.exists())
        r = self.runner()
        r.run_part(parts.peers(t))
        self.assertEqual((r.records[0]["status"], asked.exists()), ("absent", True))

    def test_time_spent_asking_counts(self):
        r = self.runner(budget=60)
        left = [60.0, 60.0, 3.0]
        r.left = lambda: left.pop(0)
        r.run_part(parts.Part("x", 20, [self.sh("a", "true")], least=5, ask=lambda: (left.pop(0), ("", ""))[1]))
        self.assertEqual((r.records[0]["status"], r.records[0]["commands"]), ("not-run", []))

    def test_stopped_from_outside(self):
        bundle = self.dir / "bundle"
        (bundle / "bin").mkdir(parents=True)
        (bundle / "manifest.json").write_text(json.dumps({"programs": {"gpuprof": {}}}))
        with gzip.open(bundle / "bin/gpuprof.gz", "wt") as f:
            f.write("#!/bin/sh\ncase \"$*\" in *'doctor --format'*) sleep 30 ;; *) echo '{}' ;; esac\n")
        p = subprocess.Popen([sys.executable, str(HERE / "check.py"), "--bundle", str(bundle), "--dry-run", "--source", str(self.dir), "--only", "doctor"],
                             cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(200):
            if (self.dir / "gpu-check-results/logs/doctor-doctor.txt").exists():
                break
            if p.poll() is not None:
                break
            time.sleep(0.1)
        p.send_signal(signal.SIGTERM)
        _, err = p.communicate(timeout=30)
        self.assertEqual(p.returncode, 1, err)
        got = json.loads((self.dir / "gpu-check-results/summary.json").read_text())
        self.assertEqual((got["ended"], got["parts"][0]["status"]), (False, "timeout"))
        self.assertTrue((self.dir / "results-dry.tar.gz").exists())


class Unpacking(Folder):
    def archive(self, result=None, extra=()):
        results = self.dir / "results"
        results.mkdir(exist_ok=True)
        fill(results)
        built = summary.build(results, HEADER, [a_part()])
        whole = {**built, **(result or {})}
        runner.write_summary(results, whole, summary.render(whole))
        path = self.dir / "r.tar.gz"
        runner.pack(results, path, check.TOOL.order)
        if extra:
            with gzip.open(path) as f, tarfile.open(path.with_name("x.tar.gz"), "w:gz") as out, tarfile.open(fileobj=f) as old:
                for m in old:
                    out.addfile(m, old.extractfile(m))
                for name in extra:
                    info = tarfile.TarInfo(name)
                    info.size = 1
                    out.addfile(info, io.BytesIO(b"x"))
            return path.with_name("x.tar.gz")
        return path

    def unpack(self, path):
        fake = self.dir / "gpuprof"
        fake.write_text(f'#!/bin/sh\necho "$@" >>{self.dir}/asked\n')
        fake.chmod(0o755)
        return subprocess.run([sys.executable, str(HERE / "unpack.py"), str(path), "--root", str(self.dir / "root"), "--gpuprof", str(fake)], capture_output=True, text=True)

    def test_files_and_provenance(self):
        for _ in range(2):  # again over itself
            out = self.unpack(self.archive())
            self.assertEqual(out.returncode, 0, out.stderr)
        base = self.dir / "root/baselines/nvidia-h200/gpu-check"
        with gzip.open(base / "runs/e3nn-deepaw.json.gz") as f:
            self.assertEqual(json.load(f)["workload"], "e3nn")
        self.assertTrue((base / "summary.json").exists())
        asked = (self.dir / "asked").read_text().splitlines()
        self.assertEqual(len(asked), 2)
        self.assertRegex(asked[0], r"^history baseline add --dir \S+/root/baselines --machine NVIDIA H200 .*e3nn-deepaw.json.gz .*gruflow-energyflow.json.gz$")
        readme = (base / "README.md").read_text()
        self.assertEqual(readme.count("`runs/e3nn-deepaw.json.gz`"), 1)
        for word in ("NVIDIA H200", "580 / 13.0", "v1 (abc)", "2026-01-02"):
            self.assertIn(word, readme)
        self.assertIn("analysis.json", (self.dir / "root/testdata/traces/h200/README.md").read_text())

    def test_refusals(self):
        for change, word in (({"dry": True}, "dry run"), ({"verdict": "fail"}, "failed")):
            out = self.unpack(self.archive(change))
            self.assertNotEqual(out.returncode, 0)
            self.assertIn(word, out.stderr)
        out = self.unpack(self.archive(extra=["results/../../evil"]))
        self.assertIn("nothing was unpacked", out.stderr)
        self.archive()
        for bad, word in ((a_run(simulated=True), "no GPU"), (a_run(kind="host"), "no GPU")):
            with gzip.open(self.dir / "results/runs/e3nn-deepaw.json.gz", "wt") as f:
                json.dump(bad, f)
            runner.pack(self.dir / "results", self.dir / "r.tar.gz", check.TOOL.order)
            self.assertIn(word, self.unpack(self.dir / "r.tar.gz").stderr)
        self.assertFalse((self.dir / "root").exists())

    def test_partial_runs_stay_out(self):
        self.archive()
        with gzip.open(self.dir / "results/runs/e3nn-deepaw.json.gz", "wt") as f:
            json.dump(a_run(status="partial"), f)
        runner.pack(self.dir / "results", self.dir / "r.tar.gz", check.TOOL.order)
        out = self.unpack(self.dir / "r.tar.gz")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn("not kept: runs/e3nn-deepaw.json.gz", out.stderr)
        self.assertFalse((self.dir / "root/baselines/nvidia-h200/gpu-check/runs/e3nn-deepaw.json.gz").exists())
        self.assertNotIn("e3nn-deepaw", (self.dir / "asked").read_text())


if __name__ == "__main__":
    unittest.main()
