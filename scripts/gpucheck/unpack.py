#!/usr/bin/env python3
"""Put what gpu-check brought back where it belongs: runs under baselines/, profiler traces under testdata/.

    make build && scripts/gpucheck/unpack.py results.tar.gz

Runs become sessions of the baselines that fit them (gpuprof history baseline add); the runs themselves, the sweeps and the
summary are kept beside those under gpu-check/. Every file is written with its provenance (device, driver, date, version, checksum) in the README beside it. Dry and
simulated results, runs that were cut short and runs whose check failed are refused.
"""
import argparse
import gzip
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BEGIN, END = "<!-- files -->", "<!-- end of files -->"
LARGEST = 64 << 20
NAME = re.compile(r"results(/[A-Za-z0-9][A-Za-z0-9._+-]*){1,3}$")


def read_archive(path):
    """The regular files of the archive; anything else in it is an error."""
    files, total = {}, 0
    with tarfile.open(path, "r:gz") as tar:
        for m in tar:
            if not m.isfile() or not NAME.match(m.name):
                sys.exit(f"unpack: {path} holds {m.name!r}, which gpu-check does not write; nothing was unpacked")
            total += m.size
            if total > LARGEST:
                sys.exit(f"unpack: {path} holds more than {LARGEST} bytes; nothing was unpacked")
            files[m.name[len("results/"):]] = tar.extractfile(m).read()
    return files


def runs_of(content):
    doc = json.loads(gzip.decompress(content))
    return doc if isinstance(doc, list) else [doc] if "step" in doc else doc["runs"]


def why_not(summary, files, allow_failed):
    """Why nothing of this may be kept, or ''."""
    if summary["dry"]:
        return "it is of a dry run: there is no figure in it"
    if summary["verdict"] == "fail" and not allow_failed:
        bad = [x["name"] for x in summary["parts"] + summary["checks"] if x["status"] == "fail"]
        return f"{', '.join(bad)} failed; repair that first, or give --allow-failed and say in the README what is wrong"
    runs = [r for name, c in files.items() if name.startswith("runs/") for r in runs_of(c)]
    for r in runs:
        if r["device"]["kind"] != "cuda" or r["device"].get("facts", {}).get("simulated") == "true":
            return f"{r['workload']} {r['preset']} was run on {r['device']['name']}, which is no GPU"
    names = {r["device"]["name"] for r in runs}
    if len(names) != 1:
        return f"its runs are of {', '.join(sorted(names)) or 'no device'}; one GPU is expected"
    return ""


def slug(name):
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def complete(r):
    return r["status"] == "complete" and r["checks"] and all(c["pass"] for c in r["checks"])


def sort_files(files):
    """kept name -> content, trace name -> content, and what was refused."""
    baselines, traces, refused = {}, {}, []
    for name, content in sorted(files.items()):
        folder, _, rest = name.rpartition("/")
        if folder in ("runs", "sweeps") and rest.endswith(".json.gz"):
            bad = [r for r in runs_of(content) if not complete(r)]
            if bad:
                refused.append(f"{name}: {bad[0]['status']}, {bad[0].get('reason') or 'a check failed'}")
                continue
            baselines[name] = content
        elif folder == "traces":
            traces[rest] = content
        elif name in ("summary.json", "summary.txt", "figures.jsonl", "peers.jsonl", "doctor.json", "doctor-bench.json"):
            baselines[name] = content
    return baselines, traces, refused


def provenance(summary):
    facts = summary["device"].get("facts", {})
    made = summary["made_by"]
    return [summary["started"], summary["device"]["name"], f"{facts.get('driver', 'unknown')} / {facts.get('cuda', 'unknown')}", f"{made.get('version', '?')} ({made.get('commit', '?')})"]


def table(files, origin):
    lines = ["| file | made | GPU | driver / CUDA | gpuprof | SHA-256 begins |", "| --- | --- | --- | --- | --- | --- |"]
    for name, content in sorted(files.items()):
        lines.append("| " + " | ".join([f"`{name}`", *origin, f"`{hashlib.sha256(content).hexdigest()[:12]}`"]) + " |")
    return "\n".join(lines)


def write(folder, files, origin, fresh_readme):
    """The files and, between the markers of the README, their table."""
    if not files:
        return
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    readme = folder / "README.md"
    text = readme.read_text() if readme.exists() else fresh_readme
    if BEGIN not in text or END not in text:
        text += f"\n{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    readme.write_text(f"{before}{BEGIN}\n{table(files, origin)}\n{END}{after}")
    print(f"{folder}: {len(files)} files")


def add_sessions(gpuprof, root, kept, summary, machine):
    """Hand the runs, not the sweeps, to gpuprof, which keeps what a comparison needs."""
    runs = {name: c for name, c in kept.items() if name.startswith("runs/")}
    if not runs:
        return
    with tempfile.TemporaryDirectory() as tmp:
        paths = []
        for name, content in sorted(runs.items()):
            paths.append(pathlib.Path(tmp) / pathlib.PurePath(name).name)
            paths[-1].write_bytes(content)
        argv = [str(gpuprof), "history", "baseline", "add", "--dir", str(root / "baselines"), "--machine", machine or summary["device"]["name"], "--command", "gpu-check, part runs", *map(str, paths)]
        out = subprocess.run(argv)
    if out.returncode:
        sys.exit(f"unpack: {gpuprof} history baseline add: exit code {out.returncode}; the runs lie in gpu-check/runs, add them by hand")


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("archive", type=pathlib.Path)
    ap.add_argument("--root", type=pathlib.Path, default=ROOT, help="the checkout")
    ap.add_argument("--gpuprof", type=pathlib.Path, default=ROOT / "bin" / "gpuprof", help="the program that adds baselines (bin/gpuprof)")
    ap.add_argument("--machine", help="what its owner calls the machine (the GPU's name)")
    ap.add_argument("--allow-failed", action="store_true", help="keep results although a part or check failed")
    args = ap.parse_args()
    if not args.gpuprof.exists():
        sys.exit(f"unpack: there is no {args.gpuprof}; run make build, or name gpuprof with --gpuprof")
    files = read_archive(args.archive)
    if "summary.json" not in files:
        sys.exit(f"unpack: {args.archive} holds no summary.json; give the archive that gpu-check wrote")
    summary = json.loads(files["summary.json"])
    fault = why_not(summary, files, args.allow_failed)
    if fault:
        sys.exit(f"unpack: {args.archive} is not kept: {fault}")
    baselines, traces, refused = sort_files(files)
    summary["device"]["name"] = next(r["device"]["name"] for n, c in files.items() if n.startswith("runs/") for r in runs_of(c))
    name = slug(summary["device"]["name"])
    origin = provenance(summary)
    write(args.root / "baselines" / name / "gpu-check", baselines, origin, f"# gpu-check on {summary['device']['name']}\n\nWritten by scripts/gpucheck/unpack.py from what gpu-check measured.\n")
    write(args.root / "testdata" / "traces" / name.rpartition("-")[2], traces, origin,
          f"# PyTorch profiler traces, {summary['device']['name']}\n\nPlanted problems, each with its clean twin, recorded by scripts/gpucheck/traces.py; index.json says what was planted.\n")
    add_sessions(args.gpuprof.resolve(), args.root, baselines, summary, args.machine)
    for r in refused:
        print(f"not kept: {r}", file=sys.stderr)


if __name__ == "__main__":
    main()
