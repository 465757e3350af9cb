#!/usr/bin/env python3
"""Reads every archive and wheel of a dist folder: the program in it is for the system that the file's name says."""

import base64
import hashlib
import pathlib
import struct
import sys
import tarfile
import zipfile


def kind(program):
    """The system, architecture and linking of a program, by its header."""
    if program[:4] == b"\x7fELF":
        arch = {62: "amd64", 183: "arm64"}[struct.unpack_from("<H", program, 18)[0]]
        start, size, count = struct.unpack_from("<Q", program, 32)[0], *struct.unpack_from("<HH", program, 54)
        dynamic = any(struct.unpack_from("<I", program, start + i * size)[0] == 3 for i in range(count))  # PT_INTERP
        return f"linux-{arch}" + ("" if dynamic else "-static")
    if program[:4] == b"\xcf\xfa\xed\xfe":
        return "darwin-" + {0x01000007: "amd64", 0x0100000C: "arm64"}[struct.unpack_from("<I", program, 4)[0]]
    if program[:2] == b"MZ":
        at = struct.unpack_from("<I", program, 60)[0]
        return "windows-" + {0x8664: "amd64", 0xAA64: "arm64"}[struct.unpack_from("<H", program, at + 4)[0]]
    return "no program"


def contents(file):
    if file.suffix in (".zip", ".whl"):
        with zipfile.ZipFile(file) as z:
            return {n: (z.read(n), z.getinfo(n).external_attr >> 16 & 0o777) for n in z.namelist()}
    with tarfile.open(file) as t:
        return {m.name: (t.extractfile(m).read(), m.mode) for m in t if m.isfile()}


def says(name):
    """The target that a file's name names."""
    if name.endswith(".whl"):
        tag = name.removesuffix(".whl").rsplit("-", 1)[1]
        arch = "arm64" if "aarch64" in tag or "arm64" in tag else "amd64"
        system = {"many": "linux", "musl": "linux", "maco": "darwin", "win_": "windows"}[tag[:4]]
        return f"{system}-{arch}" + ("-static" if tag.startswith("musl") else "")
    stem = name.removesuffix(".zip").removesuffix(".tar.gz")
    return "-".join(w for w in stem.split("_") if w in ("linux", "darwin", "windows", "amd64", "arm64", "static"))


def record(files):
    """A wheel's list of contents has every file, with its hash and size."""
    name = next(n for n in files if n.endswith("/RECORD"))
    listed = dict(line.split(",", 1) for line in files[name][0].decode().splitlines())
    assert listed.pop(name) == ",", "RECORD has a hash of itself"
    want = {}
    for n, (data, _) in files.items():
        if n != name:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            want[n] = f"sha256={digest},{len(data)}"
    assert listed == want, "RECORD does not fit the files"


for file in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    if file.suffix not in (".zip", ".whl", ".gz") or file.name == "Packages.gz":
        continue
    files = contents(file)
    names = ("gpuprof-cli", "gpuprof-cli.exe") if file.suffix == ".whl" else ("gpuprof", "gpuprof.exe")
    program, mode = next(v for n, v in files.items() if n.rsplit("/", 1)[-1] in names and "/completions/" not in n)
    found, want = kind(program), says(file.name)
    assert found == want, f"{file.name} holds a program for {found}"
    assert mode == 0o755, f"{file.name}: the program's mode is {mode:o}"
    assert any(n.endswith("/LICENSE") for n in files) and any(n.endswith("/THIRD_PARTY_NOTICES.md") for n in files), f"{file.name} lacks a license"
    if file.suffix == ".whl":
        record(files)
    print(f"    {file.name}: {found}, {len(program)} bytes in {file.stat().st_size}, {len(files)} files")
