#!/usr/bin/env python3
"""Statistics, verdicts and the page of seed_claims.py, without PyTorch: the programs are stand-ins with known costs."""

import argparse
import math
import os
import sys
import tempfile
import time
import types
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import seed_claims  # noqa: E402


def program(costs):
    """A module whose steps take CPU time on a clock of its own."""
    clock = [0.0]

    def parse(words):
        flags = argparse.ArgumentParser()
        flags.add_argument("--size", type=int, default=1)
        return flags.parse_args(words)

    def steps(options):
        while True:
            clock[0] += costs[options.size]
            yield

    return types.SimpleNamespace(parse=parse, steps=steps), lambda: clock[0]


class Test(unittest.TestCase):
    def compare(self, costs, **more):
        module, clock = program(costs)
        kept = time.perf_counter, time.process_time
        time.perf_counter = time.process_time = clock
        try:
            return seed_claims.compare(module, [], seed_claims.row("a guide", "faster", "size", "1", "4", **more), 5)
        finally:
            time.perf_counter, time.process_time = kept

    def test_ratio(self):
        found = self.compare({1: 0.03, 4: 0.01})
        self.assertAlmostEqual(found["ratio"], 3, 6)
        self.assertGreaterEqual(found["pairs"], seed_claims.SITTINGS * seed_claims.LEAST_PAIRS)

    def test_work(self):
        """Costs of another batch compare per sample."""
        self.assertAlmostEqual(self.compare({1: 0.01, 4: 0.02}, work="size")["ratio"], 2, 6)

    def test_interval(self):
        ratio, ci = seed_claims.interval([math.log(x) for x in (1.1, 1.2, 1.3, 1.2, 1.2)])
        self.assertTrue(1.1 < ci[0] < ratio < ci[1] < 1.3)

    def test_verdicts(self):
        for ci, least, error, want in (
            ([0.99, 1.01], 0, 0, "none"), ([0.8, 0.9], 0, 0, "opposite"), ([0.9, 1.2], 0, 0, "inconclusive"), ([1.1, 1.2], 0, 0, "confirmed"),
            ([1.1, 1.2], 1.5, 0, "smaller"), ([1.4, 1.6], 1.5, 0, "confirmed"), ([1.05, 1.2], 0, math.log(1.1), "inconclusive"), ([0, 0], 0, 0, "one sitting"),
        ):
            self.assertEqual(seed_claims.verdict(ci, least, error), want, (ci, least, error))

    def test_costs(self):
        """A slower side is a cost where no guide promises a speedup, and equal sides show the error of the method."""
        slower = {"ratio": 0.5, "ci95": [0.4, 0.6]}
        for more, want in (({}, "opposite"), ({"cost": True}, "costs")):
            self.assertEqual(seed_claims.shown_verdict(seed_claims.row("a guide", "", "x", "1", "2", **more), slower, 0), want)
        self.assertEqual(seed_claims.shown_verdict(seed_claims.row("none", "", "x", "1", "1"), slower, math.log(1.1)), "off by 10 %")

    def test_rows_are_flags(self):
        """Each row names a flag that its program has, so that no row is measured against nothing."""
        for command, rows in seed_claims.COMMANDS.items():
            text = (seed_claims.SEED / command.split()[0]).read_text()
            self.assertEqual(rows[0]["a"], rows[0]["b"], command)
            for r in rows:
                self.assertIn('"--%s"' % r["flag"], text, command)

    def test_page(self):
        with tempfile.TemporaryDirectory() as folder:
            options = argparse.Namespace(folder=folder, output=os.path.join(folder, "page.md"))
            kept = {"rows": {"items 8 1": {"ratio": 1.25, "ci95": [1.2, 1.3], "wall": [1.25, [1.1, 1.4]], "pairs": 20, "load": 0.5},
                             "compile off on": {"failed": "no C++ | compiler"}}}
            seed_claims.path(options, "gru_flow.py").write_text(seed_claims.json.dumps(kept))
            seed_claims.table(options)
            with open(options.output, encoding="utf-8") as f:
                page = f.read()
        self.assertIn("| `--items 8` -> `1` | x1.25 | 1.20 to 1.30 | confirmed | 20 pairs, load 0.5 |", page)
        self.assertIn("| failed | no C++ / compiler |", page)
        self.assertIn("not yet measured", page)
        self.assertIn("## Waiting for a GPU", page)


if __name__ == "__main__":
    unittest.main()
