"""How peers.py calls packages that cannot be carried here: with stand-ins that note what they are given."""
import json
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]


class Loose:
    """A value of which only the length counts: whatever is done with it gives another one."""

    def __init__(self, rows=0):
        self.rows, self.shape = rows, (rows, 7)

    def __len__(self):
        return self.rows

    def __iter__(self):
        return iter(())

    def __getattr__(self, name):
        return Loose()

    def __call__(self, *args, **more):
        return Loose()

    def new_zeros(self, rows, width):
        return Loose(rows)

    __mul__ = __add__ = __lt__ = __getitem__ = lambda self, other: Loose()


class Torch(Loose):
    def cat(self, parts):
        return Loose(sum(map(len, parts)))

    def empty(self, *shape, **more):
        return Loose(shape[0])


class Noted:
    """A function or a class that keeps what it was called with."""

    def __init__(self, result):
        self.result, self.calls = result, []

    def __call__(self, *args, **more):
        self.calls.append((args, more))
        return self.result


with mock.patch.dict(sys.modules, {"torch": Torch(), "numpy": Loose(), "resnet": Loose()}):
    import peers  # noqa: E402
    import peer_serving  # noqa: E402

LAYER = ("deepaw", "2x0e", "0e", "2x0e", 12, 3000, [25])


class Peers(unittest.TestCase):
    def call(self, make, modules, nodes, **more):
        graph = types.SimpleNamespace(x=Loose(nodes), y=Loose(), w=Loose(), src=Loose(), dst=Loose(), rows=3000)
        with mock.patch.object(peers, "torch", Torch()), mock.patch.object(peers.importlib, "import_module", lambda name: modules.get(name, Loose())), \
                mock.patch.object(peers, "Graph", lambda *a: graph), mock.patch.object(peers, "uvu", lambda *a: (Loose(),) * 4):
            run, *_ = make(types.SimpleNamespace(dev="cuda"), LAYER, **more)
            run()
        return graph

    def test_openequivariance_has_a_row_of_x_for_every_row_it_writes(self):
        """Its convolution writes as many rows as x has: with fewer it writes behind the end."""
        for nodes, want in ((12, 3000), (3000, 3000), (5000, 5000)):
            for deterministic in (False, True):
                forward = Noted(Loose())
                conv = Noted(types.SimpleNamespace(forward=forward, reorder_weights_from_e3nn=lambda w: w))
                self.call(peers.openequivariance, {"openequivariance": types.SimpleNamespace(TPProblem=Loose(), TensorProductConv=conv)}, nodes, deterministic=deterministic)
                self.assertEqual(len(forward.calls[0][0][0]), want)
                self.assertEqual(conv.calls[0][1]["deterministic"], deterministic)
                # The permutation to columns is what its deterministic sum takes.
                self.assertEqual(forward.calls[0][0][5] is not None, deterministic)

    def test_cuequivariance_gathers_and_sums_itself(self):
        """Gather, product and sum are one call: apart they would be timed with the traffic of values that it need not write."""
        product = types.SimpleNamespace(f=Noted([Loose()]), weight_numel=5, method="fused")
        graph = self.call(peers.cuequivariance, {"cuequivariance_torch": types.SimpleNamespace(ChannelWiseTensorProduct=lambda *a, **k: product)}, 12)
        (inputs,), given = product.f.calls[0]
        self.assertIs(inputs[1], graph.x)  # by node, not by edge
        self.assertEqual((given["input_indices"], given["output_indices"]), ({1: graph.src}, {0: graph.dst}))
        self.assertEqual(len(given["output_shapes"][0]), 3000)

    def test_a_figure_names_the_versions_of_what_was_imported(self):
        """Without them nobody can say later what a recorded ratio was to."""
        here = {"torch": types.SimpleNamespace(__version__="2.11.0+cu130"), "e3nn": types.SimpleNamespace(__version__="0.6.0"), "openequivariance": types.SimpleNamespace()}
        with tempfile.TemporaryDirectory() as tmp, mock.patch.dict(sys.modules, here):
            out = pathlib.Path(tmp, "peers.jsonl")
            peers.Bench.keep(types.SimpleNamespace(tiny=False, args=types.SimpleNamespace(out=out)), "a", "b", 2.0)
            (line,) = map(json.loads, out.read_text().splitlines())
        self.assertEqual((line["value"], line["versions"]), (2.0, {"torch": "2.11.0+cu130", "e3nn": "0.6.0", "openequivariance": "unknown"}))

    def test_packages_that_are_not_there_say_so(self):
        kept = []
        def absent(name):
            raise ImportError(name)
        with mock.patch.object(peers.importlib, "import_module", absent), mock.patch.object(peers, "layers", lambda b: [LAYER]):
            peers.packages(types.SimpleNamespace(keep=lambda name, peer, note: kept.append((peer, note))))
        self.assertEqual([p for p, _ in kept], ["cuEquivariance", "OpenEquivariance", "OpenEquivariance deterministic"])
        self.assertTrue(all(note.startswith("not yet measured: ") for _, note in kept))


    def test_a_package_that_dies_hides_no_other(self):
        kept, asked = [], []
        def run(argv, timeout):
            asked.append(argv[argv.index("--package") + 1])
            if len(asked) == 2:
                raise subprocess.TimeoutExpired(argv, timeout)
            return types.SimpleNamespace(returncode=-11 if len(asked) == 1 else 0)
        b = types.SimpleNamespace(keep=lambda name, peer, note: kept.append((peer, note)), args=types.SimpleNamespace(out="o", device="cuda", strict=False), tiny=False)
        with mock.patch.object(peers.importlib.util, "find_spec", lambda name: name), mock.patch.object(peers.subprocess, "run", run):
            peers.packages(b)
        self.assertEqual(asked, ["cuEquivariance", "OpenEquivariance", "OpenEquivariance deterministic"])
        self.assertEqual([p for p, _ in kept], asked[:2])
        self.assertIn("ended with -11", kept[0][1])
        self.assertIn("took more than 45 s", kept[1][1])


class Serving(unittest.TestCase):
    def test_a_program_that_fails_leaves_the_race(self):
        """The others go on, its reason is kept, and the script fails in the end."""
        with tempfile.TemporaryDirectory() as tmp:
            program = pathlib.Path(tmp, "peer")
            # What it was asked for is the last argument: it dies at once, in the second round, or not at all.
            program.write_text("#!/bin/sh\nfor last; do :; done\n[ $last != impl=im2col ] || { echo 'no such impl' >&2; exit 3; }\n"
                               "n=0\nwhile read -r what; do n=$((n + 1)); [ $last != bn=apart ] || [ $n -lt 4 ] || { echo 'out of memory' >&2; exit 1; }; echo 0.5; done\n")
            program.chmod(0o755)
            args = types.SimpleNamespace(device="cpu", threads=1, steps=1, rounds=3)
            race = peer_serving.Race(args, pathlib.Path(tmp), program, {})
            with mock.patch.object(peer_serving.Race, "logits", lambda self, name: (self.ask(name, "run 1"), Loose(1))[1]):
                for name in list(race.names):
                    race.attempt(name, race.logits, name)
            race.run()
            self.assertEqual(race.lost, {"gpuprof im2col": "RuntimeError: no such impl (exit code 3)", "gpuprof bn=apart": "RuntimeError: out of memory (exit code 1)"})
            self.assertEqual([race.times[n] for n in race.names], [[0.5] * 3] * 3)
            self.assertTrue(race.failed())


if __name__ == "__main__":
    unittest.main()
