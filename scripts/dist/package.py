#!/usr/bin/env python3
"""The Python package of the wheels, from its sources and the recorder that `gpuprof run` embeds.

    package.py FOLDER      writes it there, for a test or a development environment
"""

import pathlib
import runpy
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "scripts/dist/python/gpuprof"
RECORDER = ROOT / "internal/record/hook"
NAMES = runpy.run_path(str(SOURCES / "_name.py"))  # DISTRIBUTION, COMMAND, ALWAYS

# The command beside the program, whose own name no other package takes. A link to the command (pipx makes one) leads to its folder.
LAUNCHER = """#!/bin/sh
case $0 in */*) here=${{0%/*}} ;; *) here=. ;; esac
if [ ! -x "$here/{always}" ]; then
  here=$(readlink -f "$0") && here=${{here%/*}}
fi
exec "$here/{always}" "$@"
"""


def files():
    """path -> bytes. The recorder's own start-up file, for programs that gpuprof starts, is not a part of it."""
    out = {}
    for folder, below in ((SOURCES, "gpuprof"), (RECORDER, "gpuprof/_hook")):
        for path in sorted(folder.glob("*")):
            if path.suffix in (".py", ".typed") and path.name != "sitecustomize.py":
                out[f"{below}/{path.name}"] = path.read_bytes()
    return out


def launcher():
    return LAUNCHER.format(always=NAMES["ALWAYS"]).encode()


def entry_points(windows):
    """Windows has no scripts without an ending: pip makes a program of an entry point there."""
    text = "[pytest11]\ngpuprof = gpuprof.pytest_plugin\n"
    return text + (f"\n[console_scripts]\n{NAMES['COMMAND']} = gpuprof._binary:main\n" if windows else "")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    for name, content in files().items():
        path = pathlib.Path(sys.argv[1], name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main()
