"""What gpu-check and gpu-record share: run every part within its time, keep what finished, sum it up, pack it.

Parts run one after the other in order of value, each in a process group of its own that ends with its time limit. The
summary and the archive are written anew after every part, so that whatever stops this program loses one part at most.
"""
import argparse
import dataclasses
import datetime
import gzip
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import typing

ARCHIVE_LIMIT = 16_000_000
RESERVE_S = 12  # for the last summary and archive


class Stopped(BaseException):
    """The caller asked for an end; nothing that goes on after errors goes on after it."""


def stop(signum, _frame):
    raise Stopped(signal.Signals(signum).name)


@dataclasses.dataclass
class Tool:
    """What one of the two programs is made of."""
    name: str
    about: str
    parts: typing.Dict[str, float]  # the names in their order, with the seconds that each takes on an H200
    table: typing.Callable     # of args, programs, wanted, left: the parts, one after the other
    build: typing.Callable     # of the folder, a header and the parts' records: the summary
    render: typing.Callable    # of the summary: its text
    archive: str               # its name without .tar.gz
    budget: float
    order: typing.List[str]    # what goes into the archive first, should it not all fit
    dry_order: typing.List[str]  # all that goes into a dry run's


def read_args(tool):
    ap = argparse.ArgumentParser(prog=tool.name, description=tool.about)
    ap.add_argument("--bundle", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    ap.add_argument("--out", type=pathlib.Path, default=None, help=f"folder for results ({tool.name}-results)")
    ap.add_argument("--archive", type=pathlib.Path, default=None, help=f"the archive ({tool.archive}.tar.gz; dry: {tool.archive}-dry.tar.gz)")
    ap.add_argument("--budget", type=float, default=tool.budget, metavar="S", help=f"seconds for everything ({tool.budget:g})")
    ap.add_argument("--only", default="", metavar="PART,...", help="these parts alone")
    ap.add_argument("--list", action="store_true", help="list the parts and leave")
    ap.add_argument("--python", default=sys.executable, help="python3 that has torch and e3nn, for the peers")
    ap.add_argument("--dry-run", action="store_true", help="no GPU: simulated driver and host device, tiny sizes, no figures")
    ap.add_argument("--source", type=pathlib.Path, default=None, help="the source checkout that a dry run needs (where the bundle lies)")
    ap.add_argument("--gpuprof", type=pathlib.Path, default=None, help="this gpuprof instead of the bundle's")
    ap.add_argument("--gpuprof-device", default=None, help="its --device (cuda; dry: host)")
    args = ap.parse_args()
    args.bundle = args.bundle.resolve()
    args.out = (args.out or pathlib.Path(tool.name + "-results")).resolve()
    args.archive = (args.archive or pathlib.Path(tool.archive + ("-dry" if args.dry_run else "") + ".tar.gz")).resolve()
    args.gpuprof_device = args.gpuprof_device or ("host" if args.dry_run else "cuda")
    args.gpuprof = args.gpuprof and args.gpuprof.resolve()
    args.source = args.source and args.source.resolve()
    if args.dry_run and args.source is None:
        args.source = next((p for p in args.bundle.parents if (p / "go.mod").exists()), None)
        if args.source is None:
            ap.error("a dry run builds the simulated driver from gpuprof's sources: name the checkout with --source")
    return args


def unpack_programs(args, manifest):
    """Decompress the programs beside the results; they are not part of them."""
    folder = args.out / "bin"
    folder.mkdir(parents=True)
    for name in manifest["programs"]:
        with gzip.open(args.bundle / "bin" / (name + ".gz")) as src, open(folder / name, "wb") as dst:
            shutil.copyfileobj(src, dst, 1 << 20)
        (folder / name).chmod(0o755)
    return folder


def libc_fault(manifest):
    """Why the programs cannot start here, or ''."""
    have = platform.libc_ver()
    need = manifest.get("glibc_at_least", "")
    if not need or have[0] != "glibc":
        return ""
    number = lambda v: tuple(int(x) for x in re.findall(r"\d+", v)[:2])
    return "" if number(have[1]) >= number(need) else f"the programs need glibc {need} and this system has {have[1]}; build the bundle on an older system, or with CGO_ENABLED=0"


class Runner:
    def __init__(self, tool, args, manifest):
        self.tool, self.args, self.manifest = tool, args, manifest
        self.began = time.monotonic()
        self.started = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0).isoformat()
        self.records, self.left_out = [], []
        self.child = None

    def left(self):
        return self.args.budget - RESERVE_S - (time.monotonic() - self.began)

    def run_part(self, part):
        record = {"name": part.name, "status": "pass", "seconds": 0.0, "limit_s": part.limit, "detail": "", "commands": []}
        self.records.append(record)
        if part.broken:
            record["status"], record["detail"] = "fail", part.broken
            return
        if part.absent:
            record["status"], record["detail"] = "absent", part.absent
            return
        begin = time.monotonic()
        record["status"], record["detail"] = self.no_time(part)
        if not record["status"] and part.ask:
            record["status"], record["detail"] = part.ask()
            record["seconds"] = round(time.monotonic() - begin, 2)
            if not record["status"]:  # asking took some of what there was
                record["status"], record["detail"] = self.no_time(part)
        if record["status"]:
            return
        limit = min(part.limit, self.left()) + record["seconds"]
        for command in part.commands:
            rest = limit - (time.monotonic() - begin)
            entry = self.run_command(part, command, rest) if rest > 1 else {"name": command.name, "rc": None, "status": "not-run", "seconds": 0.0}
            record["commands"].append(entry)
            record["seconds"] = round(time.monotonic() - begin, 2)
        record["status"], record["detail"] = verdict(record["commands"])

    def no_time(self, part):
        """A part is not begun with less time left than it needs."""
        limit = min(part.limit, self.left())
        return ("not-run", f"{max(limit, 0):.0f} s were left, it takes {part.least:.0f}") if limit < part.least else ("", "")

    def run_command(self, part, command, limit):
        log = self.args.out / "logs" / f"{part.name}-{command.name}.txt"
        log.parent.mkdir(exist_ok=True)
        env = {**os.environ, **part.env, **command.env}
        begin = time.monotonic()
        entry = {"name": command.name, "rc": None, "status": "pass", "seconds": 0.0, "log": str(log.relative_to(self.args.out))}
        with open(log, "wb") as err, open(self.args.out / command.stdout if command.stdout else os.devnull, "wb") as out:
            try:
                self.child = subprocess.Popen(command.argv, stdout=out if command.stdout else err, stderr=err, stdin=subprocess.DEVNULL,
                                              cwd=command.cwd or self.args.out, env=env, start_new_session=True)
                entry["rc"] = self.child.wait(timeout=min(limit, command.limit or limit))
                entry["status"] = "pass" if entry["rc"] == 0 else "fail"
            except subprocess.TimeoutExpired:
                entry["status"] = "timeout"
            except OSError as e:
                entry["status"] = "fail"
                err.write(f"{e}\n".encode())
            finally:
                self.end_child()
        entry["seconds"] = round(time.monotonic() - begin, 2)
        text = log.read_text(errors="replace")
        if "no tests to run" in text:
            entry["status"] = "fail"  # a test binary without a test of that name
        entry["tail"] = tail(text) if entry["status"] != "pass" else ""
        entry["tests"] = count_tests(text)
        return entry

    def end_child(self):
        """End the group, gently first: gpuprof writes what it has on SIGTERM."""
        if self.child is None:
            return
        for sig, wait in ((signal.SIGTERM, 3), (signal.SIGKILL, 3)):
            try:
                os.killpg(self.child.pid, sig)
            except (ProcessLookupError, PermissionError):
                break
            try:
                self.child.wait(timeout=wait)
            except subprocess.TimeoutExpired:
                continue
        self.child = None

    def write(self, last=False):
        """The summary and the archive of everything so far."""
        header = {"started": self.started, "seconds": round(time.monotonic() - self.began, 1), "budget_s": self.args.budget,
                  "dry": self.args.dry_run, "ended": last, "made_by": self.manifest.get("made_by", {}), "left_out": self.left_out}
        result = self.tool.build(self.args.out, header, self.records)
        write_summary(self.args.out, result, self.tool.render(result))
        self.left_out = pack(self.args.out, self.args.archive, self.tool.order, self.tool.dry_order if self.args.dry_run else None)
        return result


def write_summary(folder, result, text):
    for name, content in (("summary.json", json.dumps(result, indent=1) + "\n"), ("summary.txt", text)):
        aside = folder / (name + ".part")
        aside.write_text(content)
        aside.replace(folder / name)


def verdict(entries):
    order = ["fail", "timeout", "not-run", "absent", "pass"]
    states = [e["status"] for e in entries]
    worst = min(states, key=order.index) if states else "absent"
    bad = [f"{e['name']}: {e['status']}{' (exit code %d)' % e['rc'] if e['rc'] else ''}" for e in entries if e["status"] not in ("pass", "absent")]
    passed = sum(e.get("tests", {}).get("pass", 0) for e in entries)
    return worst, "; ".join(bad) if bad else (f"{passed} tests" if passed else f"{len(entries)} commands")


def tail(text, lines=15):
    """What a reader wants first: failed assertions, else the end."""
    return "\n".join(text.strip().splitlines()[-lines:])[-2000:]


def count_tests(text):
    return {k: len(re.findall(rf"^\s*--- {k.upper()}: ", text, re.M)) for k in ("pass", "fail")}


def pack(folder, archive, order, only=None):
    """Everything but the programs, or only these, most valuable first, within the limit. Returns what was left out."""

    def top(p):
        return p.relative_to(folder).parts[0]

    def rank(p):
        return (order.index(top(p)) if top(p) in order else len(order), str(p))

    files = [p for p in sorted(folder.rglob("*"), key=rank) if p.is_file() and not p.is_symlink() and top(p) not in ("bin", "cache", "tmp")]
    files = [p for p in files if only is None or top(p) in only]
    left_out, aside = [], archive.with_name(archive.name + ".part")
    with open(aside, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0, compresslevel=6) as gz, tarfile.open(fileobj=gz, mode="w") as tar:
        for p in files:
            # A file is at most as large packed as it is; its header takes a block or two.
            if raw.tell() + min(p.stat().st_size, ARCHIVE_LIMIT) + 65536 > ARCHIVE_LIMIT:
                gz.flush()
                if raw.tell() + packed_size(p) + 65536 > ARCHIVE_LIMIT:
                    left_out.append(str(p.relative_to(folder)))
                    continue
            tar.add(p, arcname="results/" + str(p.relative_to(folder)), recursive=False)
    os.replace(aside, archive)
    return left_out


def packed_size(path):
    with open(path, "rb") as f:
        return len(gzip.compress(f.read(), 6))


def prepare(tool, args):
    manifest = json.loads((args.bundle / "manifest.json").read_text())
    if args.out.exists() and any(args.out.iterdir()):
        if not (args.out / "summary.json").exists():
            sys.exit(f"{tool.name}: {args.out} is not empty and holds no results of {tool.name}; name another folder with --out")
        shutil.rmtree(args.out)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "tmp").mkdir()
    args.archive.parent.mkdir(parents=True, exist_ok=True)
    return manifest


def main(tool):
    args = read_args(tool)
    wanted = [p for p in args.only.split(",") if p]
    unknown = set(wanted) - set(tool.parts)
    if unknown:
        sys.exit(f"{tool.name}: there is no part {', '.join(sorted(unknown))}; the parts are {', '.join(tool.parts)}")
    if args.list:
        print("\n".join(f"{name:20} {seconds:4.0f} s on an H200" for name, seconds in tool.parts.items()))
        return 0
    manifest = prepare(tool, args)
    fault = libc_fault(manifest)
    if fault:
        sys.exit(f"{tool.name}: {fault}")
    runner = Runner(tool, args, manifest)
    for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(s, stop)
    stopped = ""
    try:
        programs = unpack_programs(args, manifest)
        for part in tool.table(args, programs, wanted, runner.left):
            print(f"--> {part.name}", file=sys.stderr, flush=True)
            runner.run_part(part)
            r = runner.records[-1]
            print(f"    {r['status']}, {r['seconds']:.0f} s: {r['detail']}", file=sys.stderr, flush=True)
            runner.write()
    except Stopped as e:
        stopped = str(e)
        runner.end_child()
        if runner.records:
            runner.records[-1].update(status="timeout", detail=f"stopped by {stopped}")
    for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(s, signal.SIG_IGN)
    result = runner.write(last=not stopped)
    print((args.out / "summary.txt").read_text())
    print(f"{args.archive}: {args.archive.stat().st_size} bytes")
    shutil.rmtree(args.out / "bin", ignore_errors=True)
    return 0 if result["verdict"] == "pass" and not stopped else 1
