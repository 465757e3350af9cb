"""Tests of gpu-record's own scripts on made-up results and a made-up gpuprof."""
import argparse
import gzip
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import gates  # noqa: E402
import parts  # noqa: E402
import record  # noqa: E402

HEADER = {"started": "2026-01-02T03:04:05+00:00", "seconds": 400.0, "budget_s": 420, "dry": False, "ended": True, "made_by": {"version": "v1", "commit": "abc"}, "left_out": []}


def series(*values):
    return {"unit": "s", "runs": [list(values)], "median": values[0]}


def a_run(started="2026-01-02T03:04:05.5Z", step=2e-3, status="complete"):
    return {"schema_version": "1.0.0", "status": status, "reason": "", "started": started, "workload": "e3nn", "preset": "deepaw", "mode": "steady",
            "device": {"kind": "cuda", "name": "NVIDIA H100"}, "checks": [{"stage": "tp", "pass": True}], "step": series(step, step), "throughput": {"unit": "atoms/s", "series": series(1 / step)},
            "stages": [{"name": "tensor_product", "parent": "step", "device": series(step / 2, step / 2), "host": None, "exposed": series(step / 2, step / 2), "floor_s": step / 4},
                       {"name": "collate", "parent": "step", "device": None, "host": series(step), "exposed": series(0.0, 0.0), "floor_s": 0}],
            "order": [[0, 1, 0.25], [0, 0, 0.5], [1, 1, 0.75]], "flags": [[], [], ["clock"]]}


# A gpuprof whose step is as long as its work; it notes what it was asked.
FAKE = """
import gzip, json, sys
sys.path.insert(0, {here!r})
import test_record
a = sys.argv[1:]
with open({asked!r}, "a") as f:
    f.write(" ".join(a) + "\\n")
if a[0] == "compare":
    old, new = (json.load(gzip.open(p)) for p in a[1:3])
    ratio = new["step"]["runs"][0][0] / old["step"]["runs"][0][0]
    metrics = [{{"name": n, "verdict": "regressed" if ratio > 1.02 else "same", "ratio": ratio, "ci95": [ratio, ratio]}} for n in ("step", "step/tensor_product")]
    print(json.dumps({{"metrics": metrics, "causes": [{{"stage": "tensor_product"}}]}}))
    sys.exit(0)
{more}
work = int(next(s for s in a if s.startswith("batch=")).partition("=")[2])
with gzip.open(a[a.index("-o") + 1], "wt") as f:
    json.dump(test_record.a_run(step=work * 1e-5), f)
"""


class Folder(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.dir = pathlib.Path(held.name)

    def fake(self, more=""):
        program = self.dir / "gpuprof"
        program.write_text(f"#!{sys.executable}\n" + FAKE.format(here=str(HERE), asked=str(self.dir / "asked"), more=more))
        program.chmod(0o755)
        return str(program)


class Gates(Folder):
    def gates(self, same=2, more=1, program="gpuprof"):
        out = self.dir / "gates"
        out.mkdir(exist_ok=True)
        return gates.Gates(argparse.Namespace(gpuprof=program, device="cuda", out=out), gates.WORK, same, more)

    def run_script(self, *argv):
        return [sys.executable, "-B", str(HERE / "gates.py"), "--gpuprof", self.fake(*argv), "--device", "host", "--out", str(self.dir / "gates"), "--seed", "3", "--dry", "--seconds", "60"]

    def test_verdicts_are_counted(self):
        out = subprocess.run(self.run_script(), capture_output=True, text=True)
        self.assertEqual(out.returncode, 0, out.stderr)
        doc = json.loads((self.dir / "gates/gates.json").read_text())
        self.assertEqual(doc["counts"], {"same": {"comparisons": 1, "step": {"same": 1}, "step/tensor_product": {"same": 1}},
                                         "more": {"comparisons": 2, "step": {"regressed": 2}, "step/tensor_product": {"regressed": 2}}})
        self.assertEqual({k: len(v) for k, v in doc["processes"].items()}, {"A1": 6, "A2": 6, "B1": 6})
        self.assertAlmostEqual(doc["processes"]["B1"][0]["tensor_product_s"], 4e-5)
        self.assertTrue(doc["ended"])
        with gzip.open(self.dir / "gates/A2.json.gz") as f:
            self.assertEqual(len(json.load(f)["step"]["runs"]), 6)

    def test_every_second_round_is_the_mirror_of_the_one_before(self):
        g, taken = self.gates(same=4, more=2), []
        g.process = lambda side, keep=True: taken.append(side) if keep else None
        g.measure(random.Random(1), time.monotonic() + 1e6)
        rounds = [taken[i:i + 6] for i in range(0, 36, 6)]
        self.assertEqual(rounds[1::2], [list(reversed(r)) for r in rounds[::2]])
        self.assertTrue(all(sorted(r) == sorted(g.sides) for r in rounds))
        self.assertNotEqual(rounds[0], rounds[2])

    def test_a_process_that_fails(self):
        # The third of all: two are not kept.
        fails = f"if a[0] == 'run' and len(open({str(self.dir / 'asked')!r}).readlines()) == 3:\n    sys.exit('the device is lost')"
        out = subprocess.run(self.run_script(fails), capture_output=True, text=True)
        self.assertEqual(out.returncode, 1)
        doc = json.loads((self.dir / "gates/gates.json").read_text())
        self.assertIn("the device is lost", doc["failed"][0])
        self.assertEqual(sum(c["comparisons"] for c in doc["counts"].values()), 1)  # of the two whole sides

    def test_what_was_measured_stays_when_it_is_stopped(self):
        waits = f"import time\nif len(open({str(self.dir / 'asked')!r}).readlines()) == 4:\n    open({str(self.dir / 'waits')!r}, 'w')\n    time.sleep(60)"
        p = subprocess.Popen(self.run_script(waits), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        for _ in range(300):
            if (self.dir / "waits").exists() or p.poll() is not None:
                break
            time.sleep(0.1)
        os.killpg(p.pid, signal.SIGTERM)
        p.wait(timeout=30)
        doc = json.loads((self.dir / "gates/gates.json").read_text())
        self.assertEqual((sum(map(len, doc["processes"].values())), doc["ended"]), (1, False))

    def test_sides_are_given_up_where_time_is_short(self):
        for left, same, more in ((1e6, 7, 3), (5 * 6 * 2.0 + 12, 4, 2), (1, 2, 1)):
            g = self.gates(same=7, more=3)
            g.shed(5, 2.0, time.monotonic() + left)
            self.assertEqual((sum(s[0] == "A" for s in g.sides), sum(s[0] == "B" for s in g.sides)), (same, more))

    def test_merging(self):
        runs = [a_run(), a_run("2026-01-02T03:04:07.25Z", step=3e-3), a_run("2026-01-02T03:04:09Z")]
        whole = gates.merge(runs)
        self.assertEqual(whole["step"]["runs"], [[2e-3] * 2, [3e-3] * 2, [2e-3] * 2])
        self.assertEqual(whole["stages"][0]["exposed"]["runs"][1], [1.5e-3] * 2)
        self.assertEqual(whole["stages"][1]["device"], None)
        self.assertEqual([o[0] for o in whole["order"]], [0, 0, 1, 2, 2, 3, 4, 4, 5])
        self.assertAlmostEqual(whole["order"][3][2], 0.25 + 1.75, places=5)
        self.assertAlmostEqual(whole["order"][6][2], 0.25 + 3.5, places=5)
        self.assertEqual(whole["flags"][5], ["clock"])
        self.assertEqual(len(runs[0]["step"]["runs"]), 1)
        self.assertEqual(gates.merge([a_run(), a_run(status="partial")])["status"], "partial")


class Record(Folder):
    def table(self, left=400.0, dry=False):
        program = self.dir / "gpuprof"
        program.write_text('#!/bin/sh\necho \'{"knobs": [{"name": "precision", "accepts": "fp32, bf16"}]}\'\n')
        program.chmod(0o755)
        args = argparse.Namespace(out=self.dir, dry_run=dry, gpuprof=program, gpuprof_device="cuda", source=None, bundle=self.dir, python=sys.executable)
        return parts.Table(args, self.dir, lambda: left)

    def test_what_is_run(self):
        part = record.baselines(self.table())
        self.assertEqual([c.name for c in part.commands], [f"{w}-{p}" for w, p in record.BASELINES])
        for c in part.commands:
            self.assertIn("--runs 3", " ".join(c.argv))
        for make in (record.baselines, record.gates, record.tune, record.claims, record.sweeps):
            for c in make(self.table()).commands:
                self.assertTrue("--quiet" in c.argv or c.name == "gates", c.argv)

    def test_claims_take_what_time_is_left(self):
        for left, want in ((400, "170s"), (100, "75s")):
            argv = record.claims(self.table(left)).commands[0].argv
            self.assertEqual(argv[argv.index("--budget") + 1], want)
        argv = record.gates(self.table(100)).commands[0].argv
        self.assertEqual(argv[argv.index("--seconds") + 1], "96")

    def fill(self, same, more, status="complete"):
        for folder in ("baselines", "gates", "claims", "tune"):
            (self.dir / folder).mkdir(exist_ok=True)
        with gzip.open(self.dir / "baselines/e3nn-deepaw.json.gz", "wt") as f:
            json.dump(a_run(status=status), f)
        counts = {"same": {"comparisons": sum(same.values()), "step": same, "step/tensor_product": {"same": 21}},
                  "more": {"comparisons": sum(more.values()), "step": more, "step/tensor_product": {"regressed": 21}}}
        (self.dir / "gates/gates.json").write_text(json.dumps({"planted": 0.0504, "counts": counts if same else {}}))
        (self.dir / "tune/tune-e3nn-deepaw.json").write_text(json.dumps({"status": "complete", "recommended": {"text": "graph=on: time x0.9"}}))
        (self.dir / "claims/claims.json").write_text(json.dumps({"status": "partial", "claims": [{"verdict": "confirmed"}, {"verdict": "none"}, {"verdict": "none"}]}))

    def build(self, **more):
        return record.build(self.dir, {**HEADER, **more}, [{"name": "gates", "status": "pass", "seconds": 1.0, "limit_s": 5, "detail": "", "commands": []}])

    def test_what_has_to_hold(self):
        for same, more, want in (({"same": 21}, {"regressed": 20, "inconclusive": 1}, ("pass", "pass")), ({"same": 20, "inconclusive": 1}, {"regressed": 19, "inconclusive": 2}, ("pass", "fail")),
                                 ({"same": 20, "improved": 1}, {"regressed": 21}, ("fail", "pass")), ({}, {}, ("not-measured", "not-measured"))):
            self.fill(same, more)
            result = self.build()
            states = {c["name"]: c["status"] for c in result["checks"]}
            self.assertEqual((states["gates/unchanged/step"], states["gates/slowed/step"]), want)
            product = "pass" if same else "not-measured"  # judged by itself
            self.assertEqual((states["gates/unchanged/tensor_product"], states["gates/slowed/tensor_product"]), (product, product))
            self.assertEqual(result["verdict"], "fail" if "fail" in want else "pass")

    def test_the_summary(self):
        self.fill({"same": 21}, {"regressed": 21})
        text = record.TOOL.render(self.build())
        for word in ("gpu-record 2026", "+5.0% of work: 21 comparisons, 21 regressed", "x0.9", "partial: 1 confirmed, 2 none", "run/e3nn-deepaw/step"):
            self.assertIn(word, text)
        dry = self.build(dry=True)
        self.assertTrue(all(c["value"] is None for c in dry["checks"]) and all(r["measured"] is None for r in dry["table"]))
        self.fill({"same": 21}, {"regressed": 21}, status="partial")
        self.assertEqual(self.build()["verdict"], "fail")

    def test_stopped_from_outside(self):
        bundle = self.dir / "bundle"
        (bundle / "bin").mkdir(parents=True)
        (bundle / "manifest.json").write_text(json.dumps({"programs": {"gpuprof": {}}}))
        with gzip.open(bundle / "bin/gpuprof.gz", "wt") as f:
            f.write("#!/bin/sh\ncase \"$*\" in *' run '*) sleep 30 ;; *) echo '{}' ;; esac\n")
        p = subprocess.Popen([sys.executable, str(HERE / "record.py"), "--bundle", str(bundle), "--dry-run", "--source", str(self.dir), "--only", "baselines"],
                             cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(200):
            if (self.dir / "gpu-record-results/logs/baselines-e3nn-deepaw.txt").exists() or p.poll() is not None:
                break
            time.sleep(0.1)
        p.send_signal(signal.SIGTERM)
        _, err = p.communicate(timeout=30)
        self.assertEqual(p.returncode, 1, err)
        got = json.loads((self.dir / "gpu-record-results/summary.json").read_text())
        self.assertEqual((got["ended"], got["parts"][0]["status"]), (False, "timeout"))
        self.assertTrue((self.dir / "record-dry.tar.gz").exists())


if __name__ == "__main__":
    unittest.main()
