#!/usr/bin/env python3
"""gpuprof run on a table of small programs, each with the sentence it must say.

programs.py [--gpuprof BIN] [--python PYTHON] [--only NEEDS] [--need all|NEEDS] [NAME…]

A program of testdata/programs/table states in its head what it needs, its exit
code and a pattern of standard error. Each prints "done". Programs whose packages
PYTHON lacks are listed as left out; with --need their absence is a failure. Exit
code 1: a program did not do as it says.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TABLE = os.path.join(HERE, "testdata", "programs", "table")
# The runtime of scripts/check/standin.py takes a CUDA build and the headers beside it.
MODULES = {"plain": [], "torch-compile": ["torch"], "standin": ["torch", "nvidia", "nvidia-cuda-crt"]}
# How to see whether a package is there that is no module: its header.
HEADERS = {"nvidia-cuda-crt": "crt/host_defines.h"}
LOOK = """
import glob, importlib.util, sys
spec = importlib.util.find_spec("nvidia" if %(header)r else %(module)r)
if spec and %(header)r:
    spec = any(glob.glob(path + "/**/" + %(header)r, recursive=True) for path in spec.submodule_search_locations)
sys.exit(not spec)
"""
LIMIT_S = 300


def head(path):
    """The fields of a program's head comment."""
    out = {"flags": "", "command": "python"}
    with open(path, encoding="utf-8") as f:
        for line in f:
            if not line.startswith("# "):
                return out
            key, colon, value = line[2:].strip().partition(": ")
            if colon and " " not in key:
                out[key] = value
            else:
                out["what"] = line[2:].strip()
    return out


def lacks(python, needs, known):
    """The modules that PYTHON has not."""
    missing = []
    for need in needs.split(","):
        for module in MODULES.get(need, [need]):
            if module not in known:
                known[module] = subprocess.run([python, "-c", LOOK % {"module": module, "header": HEADERS.get(module, "")}]).returncode == 0
            if not known[module]:
                missing.append(module)
    return missing


def check(gpuprof, python, path, want):
    """What differs from the head, "" nothing; and the sentence that was found."""
    with tempfile.TemporaryDirectory() as d:
        words = {"python": [python], "STANDIN": [os.path.join(HERE, "scripts", "check", "standin.py"), os.path.join(tempfile.gettempdir(), "gpuprof-standin")]}
        command = [part for word in want["command"].split() for part in words.get(word, [word])] + [path]
        run = [gpuprof, "run", "--no-nsys", "-o", os.path.join(d, "out"), *want["flags"].split(), "--", *command]
        try:
            done = subprocess.run(run, cwd=d, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return "it did not end within %d s" % LIMIT_S, ""
    text = " ".join(done.stderr.split())
    found = re.search(want["says"], text)
    wrong = []
    if done.returncode != int(want["exit"]):
        wrong.append("exit code %d, not %s" % (done.returncode, want["exit"]))
    if "done" not in done.stdout:
        wrong.append("its output is lost")
    if not found:
        wrong.append("it does not say so: " + text[-1500:])
    if "External init callback" in text or "hook gave up" in text:
        wrong.append("a line that is not the program's: " + text[-1500:])
    return "; ".join(wrong), found.group(0) if found else ""


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--gpuprof", default=os.path.join(HERE, "bin", "gpuprof"))
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--need", default="", help="what must be there: all, or needs by comma")
    p.add_argument("--only", default="", help="run those that need one of these, by comma")
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    failed = left = passed = 0
    known = {}
    print("| program | result | says |\n|---|---|---|")
    for file in sorted(os.listdir(TABLE)):
        name, want = file[:-3], head(os.path.join(TABLE, file))
        if not file.endswith(".py") or o.names and name not in o.names or o.only and want["needs"] not in o.only.split(","):
            continue
        missing = lacks(o.python, want["needs"], known)
        if missing:
            needed = o.need == "all" and want["needs"] != "standin" or set(want["needs"].split(",")) & set(o.need.split(","))
            failed, left = failed + bool(needed), left + (not needed)
            print("| %s | %s: no %s | |" % (name, "FAIL" if needed else "left out", ", ".join(missing)), flush=True)
            continue
        wrong, says = check(os.path.abspath(o.gpuprof), o.python, os.path.join(TABLE, file), want)
        failed, passed = failed + bool(wrong), passed + (not wrong)
        print("| %s | %s | %s |" % (name, "FAIL: " + wrong if wrong else "pass", says), flush=True)
    print("\n%d programs passed, %d failed, %d left out" % (passed, failed, left))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
