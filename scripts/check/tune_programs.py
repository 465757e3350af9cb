"""Tunes programs with planted settings, and programs where nothing helps, and judges what gpuprof recommends.

python scripts/check/tune_programs.py GPUPROF PYTHON [--budget 5m] [--again] [-o results.json] [NAME...]

PYTHON needs PyTorch (CPU). Each program runs in a folder of its own. Beside the recommendation these are checked: the
losses of every row, the files of the folder, and that no process is left. --again tunes each found setting once more
alone and asks that both intervals overlap. Exits 1 where a recommendation is wrong, a file has changed, or fewer than
four in five planted settings are found.
"""

import argparse
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROGRAMS = pathlib.Path(__file__).resolve().parents[2] / "internal/tuneprogram/testdata/programs"
# What may be recommended: a set of alternatives, each a set of settings. Empty: nothing. Then further arguments.
PLANTED = {
    "slow_loader": ([{"num_workers": "2"}], [], []),
    "subclass_loader": ([{"num_workers": "2"}], [], []),
    "restarting_workers": ([{"persistent_workers": "True"}], [], []),
    "many_threads": ([{"threads": "1"}, {"threads": "2"}], [], []),
    "anomaly": ([{"anomaly_detection": "off"}], [], []),
    "collects": ([{"gc.collect": "removed"}], [], []),
    "collects_and_anomaly": ([{"gc.collect": "removed", "anomaly_detection": "off"}], [], []),
    "many_tensors": ([{"fused": "True"}, {"foreach": "True"}], [], []),
    "keeps_grads": ([{"set_to_none": "True"}], [], []),
    "without_mkldnn": ([{"mkldnn": "on"}], [], []),
    "subnormals": ([{"flush_denormal": "on"}], [], []),
    "deterministic": ([{"deterministic": "off"}], [], []),
    "elementwise": ([{"compile": "default"}], [], []),
    "flushes_log": ([{"log": "--log-every 50"}], ["--try", "log=--log-every {1,50}"], ["{log}"]),
    "chunks": ([{"CHUNK": "1000"}], ["--try", "CHUNK=1000"], []),
    "sgd_loop": ([{"fused": "True"}, {"foreach": "True"}], [], []),
    "collects_and_waits": ([{"gc.collect": "removed", "num_workers": "2"}], [], []),
    "zeros_and_anomaly": ([{"set_to_none": "True", "anomaly_detection": "off"}], [], []),
    "small_batches": ([{"batch": "--batch-size 64"}], ["--try", "batch=--batch-size {8,64}"], ["{batch}"]),
    "one_worker": ([{"num_workers": "2"}], [], []),
    "random_samples": ([], [], []),
    "plain_mlp": ([], [], []),
    "plain_lstm": ([], [], []),
    "plain_convolution": ([], [], []),
    "plain_stream": ([], [], []),
    "plain_script": ([], ["--try", "UNREAD=1,2"], []),
}
LEAST_FOUND = 0.8


def environment():
    # One thread: two that spin on processors which others use cost ten times as much. many_threads asks for its own.
    return dict(os.environ, OMP_NUM_THREADS="1")


def hashes(folder):
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file()}


def processes(name):
    """Processes with the program's name in their command line, this one left out."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if name.encode() in (entry / "cmdline").read_bytes() and int(entry.name) != os.getpid():
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def command(options, program, flags, words):
    return [options.gpuprof, "tune", "--budget", options.budget, "--quiet", "--format", "json", *flags, "--", options.python, program, *words]


def tune(options, name, more=()):
    """One search in a fresh folder; the document, its load and what it left behind."""
    expected, flags, words = PLANTED[name]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        program = "planted_%s.py" % name
        shutil.copy(PROGRAMS / (name + ".py"), folder / program)
        before, load, began = hashes(folder), os.getloadavg()[0], time.time()
        run = subprocess.run(command(options, program, [*flags, *more], words), cwd=folder, env=environment(), capture_output=True, text=True)
        row = {"name": name, "seconds": time.time() - began, "load": [load, os.getloadavg()[0]], "rc": run.returncode}
        row["files_kept"] = hashes(folder) == before
        row["left"] = len(processes(program))
        try:
            row["document"] = json.loads(run.stdout)
        except ValueError:
            row["error"] = run.stderr.strip()[-500:]
    return row


def judge(row, expected):
    """Adds what was recommended, its gain and whether that is right."""
    document = row.get("document") or {}
    recommended = document.get("recommended")
    knobs = recommended["knobs"] if recommended else {}
    row["knobs"] = knobs
    row["ratio"], row["ci"] = (recommended["ratio"], recommended["ci95"]) if recommended else (0, [0, 0])
    row["found"] = bool(expected) and knobs in expected
    row["wrong"] = bool(knobs) and knobs not in expected
    losses = (document.get("program") or {}).get("losses") or {}
    row["losses"] = "%s of %d" % (losses.get("verdict"), losses.get("compared", 0))
    row["text"] = (document.get("conclusion") or {}).get("text", row.get("error", ""))
    return row


def again(options, row):
    """The found setting once more, alone: both intervals must overlap."""
    only = [word for k in row["knobs"] for word in ("--only", k + "=" + row["knobs"][k])]
    second = judge(tune(options, row["name"], only), PLANTED[row["name"]][0])
    row["again"] = [second["ratio"], *second["ci"]]
    row["overlap"] = bool(second["found"]) and second["ci"][0] <= row["ci"][1] and row["ci"][0] <= second["ci"][1]


def killed(options):
    """A search that is killed leaves no process of the program behind."""
    with tempfile.TemporaryDirectory() as folder:
        program = "planted_killed.py"
        shutil.copy(PROGRAMS / "slow_loader.py", pathlib.Path(folder) / program)
        search = subprocess.Popen(command(options, program, ["--only", "num_workers"], []), cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.time() + 120
        while len(processes(program)) < 2 and time.time() < deadline:
            time.sleep(0.2)
        seen = len(processes(program)) - 1
        search.send_signal(signal.SIGKILL)
        search.wait()
        deadline = time.time() + 30
        while processes(program) and time.time() < deadline:
            time.sleep(0.5)
        left = processes(program)
    print("killed: %d processes of the program before, %d after" % (seen, len(left)), flush=True)
    return seen > 0 and not left


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gpuprof")
    parser.add_argument("python")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--budget", default="5m")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--killed", action="store_true", help="only kill a search and look for processes")
    parser.add_argument("-o", "--output", default="")
    options = parser.parse_args()
    options.gpuprof = os.path.abspath(options.gpuprof)
    if options.killed:
        sys.exit(0 if killed(options) else 1)
    rows = []
    for name in options.names or PLANTED:
        row = judge(tune(options, name), PLANTED[name][0])
        if options.again and row["found"]:
            again(options, row)
        rows.append(row)
        verdict = "WRONG" if row["wrong"] else "found" if row["found"] else "missed" if PLANTED[name][0] else "nothing, right"
        print("%-21s %-15s x%.2f [%.2f, %.2f] losses %-18s %4.0f s load %.1f..%.1f rc %d files %s left %d | %s" % (
            name, verdict, row["ratio"], *row["ci"], row["losses"], row["seconds"], *row["load"], row["rc"],
            "kept" if row["files_kept"] else "CHANGED", row["left"], row["text"][:240]), flush=True)
        if options.output:
            pathlib.Path(options.output).write_text(json.dumps(rows, indent=1))
    planted = [r for r in rows if PLANTED[r["name"]][0]]
    bad = [r["name"] for r in rows if r["wrong"] or r["rc"] or not r["files_kept"] or r["left"] or r.get("overlap") is False]
    found = sum(r["found"] for r in planted)
    print("planted: %d of %d found; nothing to find: %d of %d right; bad: %s" % (
        found, len(planted), sum(not r["wrong"] for r in rows) - sum(not r["wrong"] for r in planted), len(rows) - len(planted), bad or "none"))
    sys.exit(1 if bad or planted and found < LEAST_FOUND * len(planted) else 0)


if __name__ == "__main__":
    main()
