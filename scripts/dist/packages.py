"""Recipes of other package managers for a release: a Homebrew formula, a conda recipe, and the index of a Debian
repository. All are made from the files of `make dist` and their SHA-256, so that none can name another file."""

import email.utils
import gzip
import hashlib
import pathlib
import re
import shutil
import subprocess

SITE = "https://github.com/gpuprof/gpuprof"
# What Homebrew calls each system, and conda each platform.
BREW = {"darwin_arm64": ("macos", "arm"), "darwin_amd64": ("macos", "intel"), "linux_arm64": ("linux", "arm"), "linux_amd64": ("linux", "intel")}
CONDA = {"linux_amd64": "linux and x86_64", "linux_arm64": "linux and aarch64", "darwin_amd64": "osx and x86_64", "darwin_arm64": "osx and arm64"}


def checksum(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def archives_of(out, version, names):
    """The archives that are there, by their target."""
    found = {n: out / f"gpuprof_{version}_{n}.tar.gz" for n in names}
    return {n: path for n, path in found.items() if path.exists()}


def plain(version):
    """The version as brew and conda want it: digits first, no hyphen."""
    number = version.removeprefix("v")
    return re.sub(r"[^0-9A-Za-z.]+", "_", number) if number[:1].isdigit() else "0.0.0." + re.sub(r"[^0-9A-Za-z]+", "_", number)


def formula(out, version, summary):
    """A Homebrew formula; empty where no archive is for a system of Homebrew."""
    have = archives_of(out, version, BREW)
    if not have:
        return ""
    blocks = []
    for system in ("macos", "linux"):
        inner = []
        for target, path in have.items():
            if BREW[target][0] == system:
                inner += [f"    on_{BREW[target][1]} do", f'      url "{SITE}/releases/download/{version}/{path.name}"', f'      sha256 "{checksum(path)}"', "    end"]
        if inner:
            blocks += [f"  on_{system} do", *inner, "  end", ""]
    return "\n".join([
        "class Gpuprof < Formula", f'  desc "{summary[0].upper() + summary[1:]}"', f'  homepage "{SITE}"', f'  version "{plain(version)}"', '  license "Apache-2.0"', "",
        *blocks,
        "  def install", '    bin.install "gpuprof"', '    man1.install "man/gpuprof.1"', '    bash_completion.install "completion/gpuprof.bash" => "gpuprof"',
        '    zsh_completion.install "completion/gpuprof.zsh" => "_gpuprof"', '    fish_completion.install "completion/gpuprof.fish"', "  end", "",
        "  test do", '    assert_match "gpuprof", shell_output("#{bin}/gpuprof version")', "  end", "end", ""])


def recipe(out, version, summary):
    """A conda recipe in the format of rattler-build (recipe.yaml, schema 1); empty where no archive is for a platform."""
    have = archives_of(out, version, CONDA)
    if not have:
        return ""
    sources = [line for target, path in have.items() for line in (
        f"  - if: {CONDA[target]}", "    then:", f"      url: {SITE}/releases/download/{version}/{path.name}", f"      sha256: {checksum(path)}")]
    return "\n".join([
        "schema_version: 1", "package:", "  name: gpuprof", f'  version: "{plain(version)}"', "source:", *sources,
        "build:", "  number: 0", "  script:", "    - mkdir -p $PREFIX/bin $PREFIX/share/man/man1", "    - cp gpuprof $PREFIX/bin/gpuprof", "    - cp man/gpuprof.1 $PREFIX/share/man/man1/gpuprof.1",
        "tests:", "  - script:", "      - gpuprof version",
        "about:", f"  homepage: {SITE}", "  license: Apache-2.0", "  license_file:", "    - LICENSE", "    - THIRD_PARTY_NOTICES.md", f'  summary: "{summary}"', ""])


def repository(out, epoch):
    """Packages, Packages.gz and Release of a flat Debian repository, for [trusted=yes] or a key of its operator. Nothing
    is written where dpkg-scanpackages is missing or there is no package."""
    if not shutil.which("dpkg-scanpackages") or not list(out.glob("*.deb")):
        return []
    scanned = subprocess.run(["dpkg-scanpackages", "--multiversion", "."], cwd=out, check=True, capture_output=True, text=True).stdout.encode()
    index = {"Packages": scanned, "Packages.gz": gzip.compress(scanned, mtime=0)}
    lines = ["Origin: gpuprof", "Label: gpuprof", "Suite: stable", f"Date: {email.utils.formatdate(epoch, usegmt=True)}", "SHA256:"]
    for name, text in index.items():
        (out / name).write_bytes(text)
        lines.append(f" {hashlib.sha256(text).hexdigest()} {len(text)} {name}")
    (out / "Release").write_text("\n".join(lines) + "\n")
    return [*index, "Release"]


def write(out, version, summary, epoch):
    """Writes what can be made of the files in out."""
    out = pathlib.Path(out)
    for name, text in (("gpuprof.rb", formula(out, version, summary)), ("recipe.yaml", recipe(out, version, summary))):
        if text:
            (out / name).write_text(text)
    repository(out, epoch)
