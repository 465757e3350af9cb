#!/usr/bin/env python3
"""Builds gpuprof for every system and packs it: archives, Debian packages, wheels, an image's folders.

    dist.py [--out dist] [--targets "linux-amd64 linux-amd64-static …"]

The same commit and Go version give the same bytes: every time in it is the commit's
(SOURCE_DATE_EPOCH, where that is set). Needs Go, dpkg-deb, advzip and Python's standard library.
"""

import argparse
import concurrent.futures
import gzip
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile

import archives
import manpage
import package
import packages

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEEL, ALWAYS = package.NAMES["DISTRIBUTION"], package.NAMES["ALWAYS"]
# Where a shell looks for completion below /usr/share or below share of an environment's prefix.
COMPLETIONS = {"bash": "bash-completion/completions/gpuprof", "zsh": "zsh/vendor-completions/_gpuprof", "fish": "fish/vendor_completions.d/gpuprof.fish"}
BINARY_LIMIT, WHEEL_LIMIT = 60_000_000, 25_000_000  # bytes; registries take 100 MB

# What pip calls each target. purego's calls need glibc 2.17 and no version of its
# symbols; Go 1.26 needs macOS 12.
TAGS = {
    "linux-amd64": "manylinux2014_x86_64.manylinux_2_17_x86_64",
    "linux-arm64": "manylinux2014_aarch64.manylinux_2_17_aarch64",
    "linux-amd64-static": "musllinux_1_1_x86_64",
    "linux-arm64-static": "musllinux_1_1_aarch64",
    "darwin-amd64": "macosx_12_0_x86_64",
    "darwin-arm64": "macosx_12_0_arm64",
    "windows-amd64": "win_amd64",
}


def host():
    machine = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), platform.machine())
    return f"{platform.system().lower()}-{machine}"


def output(*command, default):
    try:
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return default  # a source archive has no git, a fresh fork no tags


def python_version(version, commit):
    """As PEP 440 has it: v1.2.3-4-gabc is 1.2.3.post4+gabc."""
    match = re.fullmatch(r"v?(\d+(?:\.\d+)*)(?:-(rc|beta|alpha)\.?(\d+))?(?:-(\d+)-(g[0-9a-f]+))?(-dirty)?", version)
    if not match:
        return "0.0.0.dev0+" + (re.sub(r"[^a-z0-9]+", ".", commit.lower()).strip(".") or "unknown")
    number, kind, n, after, at, dirty = match.groups()
    local = ".".join(filter(None, [at, "dirty" if dirty else ""]))
    pre = f"{ {'rc': 'rc', 'beta': 'b', 'alpha': 'a'}[kind] }{n}".strip() if kind else ""
    return number + pre + (f".post{after}" if after else "") + (f"+{local}" if local else "")


def debian_version(version, commit):
    if not re.match(r"v?\d", version):
        return "0.0.0~dev+" + (re.sub(r"[^a-z0-9]+", ".", commit.lower()).strip(".") or "unknown")
    number, *rest = version.removeprefix("v").split("-")
    early = rest.pop(0) if rest and re.match(r"[a-z]+\.?\d", rest[0]) and not rest[0].startswith("g") else ""
    return number + (f"~{early}" if early else "") + ("+" + ".".join(rest) if rest else "")


def build(target, path, stamp):
    system, arch, *static = target.split("-")
    env = dict(os.environ, CGO_ENABLED="0", GOOS=system, GOARCH=arch, GOFLAGS="-trimpath -buildvcs=false")
    tags = ["-tags", "nodlopen"] if static else []
    subprocess.run(["go", "build", *tags, "-ldflags", f"-s -w {stamp}", "-o", str(path), "./cmd/gpuprof"], cwd=ROOT, env=env, check=True)
    size = path.stat().st_size
    if size >= BINARY_LIMIT:
        raise SystemExit(f"dist: gpuprof for {target} is {size} bytes, the limit is {BINARY_LIMIT}; see what grew with go tool nm -size -sort size")


METADATA = """Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: {summary}
License-Expression: Apache-2.0
License-File: LICENSE
License-File: THIRD_PARTY_NOTICES.md
Keywords: gpu,cuda,profiler,benchmark,pytorch
Classifier: Framework :: Pytest
Classifier: Typing :: Typed
Requires-Python: >=3.9
Description-Content-Type: text/markdown

The command `gpuprof` as one binary. It runs the program that you have and shows why its steps are slow:

    gpuprof run -- python train.py

The Python package `gpuprof` records and analyses from within a program or a notebook, and has a pytest plugin
and callbacks for Lightning, the Trainer of transformers, and Accelerate:

    with gpuprof.profile() as p:
        for batch in loader:
            train_step(batch)
            p.step()
    print(p.analysis)

The package `gpuprof` on PyPI is another project, whose command and module have the same names: install one of the
two into an environment. The command `gpuprof-cli` is always this one. `gpuprof-cli doctor` names the program that
`gpuprof` starts.
"""

CONTROL = """Package: gpuprof
Version: {version}
Architecture: {arch}
Maintainer: The gpuprof authors <gpuprof@users.noreply.github.com>
Section: devel
Priority: optional
Depends: libc6
Suggests: python3
Description: {summary}
 gpuprof runs a program unchanged, records a few steps of it and names what the
 GPU waits for, with the change to make and its largest possible saving.
"""
SUMMARY = "shows why a GPU program is slow, and whether a change made it slower"


class Release:
    def __init__(self, out, targets, scratch):
        self.out, self.targets, self.scratch = out, targets, scratch
        self.commit = os.environ.get("COMMIT") or output("git", "describe", "--always", "--exclude", "*", "--abbrev=12", "--dirty", default="unknown")
        self.version = os.environ.get("VERSION") or output("git", "describe", "--tags", "--dirty", default="dev")
        self.epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or output("git", "log", "-1", "--format=%ct", default="315532800"))
        self.documents = {name: (ROOT / name).read_bytes() for name in ("LICENSE", "THIRD_PARTY_NOTICES.md")}

    def make(self):
        stamp = f"-X main.version={self.version} -X main.commit={self.commit}"
        # A program that runs here prints help and completion.
        runs = next((t for t in self.targets if t.removesuffix("-static") == host()), host())
        for target in dict.fromkeys([runs, *self.targets]):
            build(target, self.scratch / target, stamp)
        program = str(self.scratch / runs)
        self.man = manpage.page(program, self.version, self.epoch).encode()
        self.completion = {shell: manpage.ask(program, "completion", shell).encode() for shell in ("bash", "zsh", "fish")}
        for shell, text in self.completion.items():
            if not text:
                raise SystemExit(f"dist: gpuprof completion {shell} printed nothing; run it to see why")
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:  # compression leaves Python's lock
            for done in [pool.submit(job, target) for target in self.targets for job in (self.archive, self.wheel, self.debian, self.image)]:
                done.result()
        shutil.copy(ROOT / "scripts/dist/Containerfile", self.out)
        packages.write(self.out, self.version, SUMMARY, self.epoch)
        sums = "".join(f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.name}\n" for f in sorted(self.out.iterdir()) if f.is_file())
        (self.out / "SHA256SUMS").write_text(sums)

    def binary(self, target):
        return (self.scratch / target).read_bytes()

    def archive(self, target):
        stem = f"gpuprof_{self.version}_{target.replace('-', '_')}"
        windows = target.startswith("windows")
        files = {f"{stem}/gpuprof" + (".exe" if windows else ""): (self.binary(target), 0o755), f"{stem}/man/gpuprof.1": (self.man, 0o644)}
        for name, text in self.documents.items():
            files[f"{stem}/{name}"] = (text, 0o644)
        for shell, text in self.completion.items():
            files[f"{stem}/completion/gpuprof.{shell}"] = (text, 0o644)
        if windows:
            archives.zipped(self.out / f"{stem}.zip", dict(sorted(files.items())), self.epoch)
        else:
            archives.tar_gz(self.out / f"{stem}.tar.gz", files, self.epoch)

    def wheel(self, target):
        version = python_version(self.version, self.commit)
        metadata = METADATA.format(name=WHEEL, version=version, summary=SUMMARY)
        windows = target.startswith("windows")
        shared = {} if windows else {"share/man/man1/gpuprof.1": self.man, **{f"share/{COMPLETIONS[shell]}": text for shell, text in self.completion.items()}}
        program = self.binary(target)
        scripts = {ALWAYS + ".exe": program} if windows else {ALWAYS: program, package.NAMES["COMMAND"]: package.launcher()}
        file = archives.wheel(self.out, WHEEL, version, TAGS[target], scripts, shared, package.files(), package.entry_points(windows), self.documents, metadata, self.epoch)
        size = (self.out / file).stat().st_size
        if size >= WHEEL_LIMIT:
            raise SystemExit(f"dist: {file} is {size} bytes, the limit is {WHEEL_LIMIT}; see what grew with go tool nm -size -sort size")

    def debian(self, target):
        system, arch, *static = target.split("-")
        if system != "linux" or static:
            return
        packed = lambda text: gzip.compress(text, mtime=0)
        tree = {
            "usr/bin/gpuprof": (self.binary(target), 0o755),
            "usr/share/man/man1/gpuprof.1.gz": (packed(self.man), 0o644),
            **{f"usr/share/{COMPLETIONS[shell]}": (text, 0o644) for shell, text in self.completion.items()},
            "usr/share/doc/gpuprof/copyright": (self.documents["LICENSE"], 0o644),
            "usr/share/doc/gpuprof/THIRD_PARTY_NOTICES.md.gz": (packed(self.documents["THIRD_PARTY_NOTICES.md"]), 0o644),
        }
        version = debian_version(self.version, self.commit)
        control = CONTROL.format(version=version, arch=arch, summary=SUMMARY)
        archives.deb(self.out / f"gpuprof_{version}_{arch}.deb", tree, control, self.epoch, self.scratch)

    def image(self, target):
        """The root of a container's file system; the Containerfile beside it copies it."""
        if not target.startswith("linux"):
            return
        root = self.out / "image" / target.removeprefix("linux-")
        for folder, mode in (("usr/bin", 0o755), ("usr/share/doc/gpuprof", 0o755), ("data", 0o777), ("tmp", 0o1777)):
            (root / folder).mkdir(parents=True)
            (root / folder).chmod(mode)
        for name, content, mode in [("usr/bin/gpuprof", self.binary(target), 0o755)] + [(f"usr/share/doc/gpuprof/{n}", t, 0o644) for n, t in self.documents.items()]:
            (root / name).write_bytes(content)
            (root / name).chmod(mode)
            os.utime(root / name, (self.epoch, self.epoch))


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--out", type=pathlib.Path, default=ROOT / "dist")
    args.add_argument("--targets", default=" ".join(TAGS), help=f"of {' '.join(TAGS)}, or host")
    options = args.parse_args()
    targets = [host() if t == "host" else t for t in options.targets.split()]
    if unknown := [t for t in targets if t not in TAGS]:
        args.error(f"unknown target {', '.join(unknown)}; choose of {', '.join(TAGS)} and host")
    aside = options.out.with_name(options.out.name + ".new")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            Release(aside, targets, pathlib.Path(scratch)).make()
        shutil.rmtree(options.out, ignore_errors=True)
        aside.rename(options.out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    for file in sorted(options.out.iterdir()):
        if file.is_file():
            print(f"{file.stat().st_size:>10}  {file.name}")


if __name__ == "__main__":
    main()
