#!/usr/bin/env python3
"""Runs a program on PyTorch's CUDA build without a GPU: its real allocator, over a CUDA runtime that hands out numbers.

    python3 scripts/check/standin.py FOLDER PROGRAM.py [ARGUMENT...]

Builds scripts/check/standin.c and an empty library for each one of NVIDIA's that this PyTorch links to, once for each PyTorch,
into FOLDER.
Needs gcc, nm and readelf, and in this Python: a CUDA build of torch (pip install --no-deps torch, without NVIDIA's
libraries) and the headers of nvidia-cuda-runtime and nvidia-cuda-crt (of CUDA 12: nvidia-cuda-runtime-cu12 and
nvidia-cuda-nvcc-cu12). Nothing is computed: values are garbage, but sizes,
stacks, annotations and out-of-memory errors are PyTorch's own.
"""

import collections
import glob
import hashlib
import importlib.util
import os
import re
import subprocess
import sys

NVIDIA = re.compile(r"lib(cu|nv|nccl)")
SYMBOL = re.compile(r"^(cuda|__cuda|cu[A-Z]|nvrtc|cublas|cudnn|cufft|cusp|cusol|nccl|nvshmem|cupti|curand|nvtx|__nv|nvJit|nvml)")
HERE = os.path.dirname(os.path.abspath(__file__))


def site():
    return os.path.dirname(importlib.util.find_spec("torch").submodule_search_locations[0])


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def wanted(folder):
    """The libraries that the ones in a folder link to, and the symbols that they lack, by the version's name."""
    libraries, symbols = set(), collections.defaultdict(set)
    for path in glob.glob(os.path.join(folder, "*.so*")):
        libraries.update(re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", path)))
        for line in output("nm", "-D", "--undefined-only", path).splitlines():
            name, _, version = line.split()[-1].partition("@")
            if version == "NVSHMEM" or SYMBOL.match(name):
                symbols[version.lstrip("@")].add(name)
    return {name for name in libraries if NVIDIA.match(name) and not os.path.exists(os.path.join(folder, name))}, symbols


def empty(folder, name, versions, unversioned, behind):
    """One library whose functions return 0, with a library behind it that dlsym finds other functions in."""
    source, script = os.path.join(folder, name + ".c"), os.path.join(folder, name + ".map")
    with open(source, "w") as f:
        for symbol in sorted(set(unversioned).union(*versions.values())):
            f.write(f'__attribute__((visibility("default"))) int {symbol}() {{ return 0; }}\n')
    command = ["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", source, f"-Wl,-soname,{name}", "-Wl,--no-as-needed", *behind, "-o", os.path.join(folder, name)]
    if versions:
        with open(script, "w") as f:
            for version, symbols in versions.items():
                f.write(f"{version} {{ global: {' '.join(s + ';' for s in sorted(symbols))} }};\n")
        command.append("-Wl,--version-script=" + script)
    subprocess.run(command, check=True)


def compiled(to, name, include):
    """standin.c as a library."""
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-O1", *["-I" + i for i in include], os.path.join(HERE, "standin.c"), f"-Wl,-soname,{name}", "-o", to, "-ldl", "-lpthread"], check=True)


def key():
    """What was built for another PyTorch, or of another standin.c, ends a program without a word."""
    with open(os.path.join(site(), "torch", "version.py"), "rb") as version, open(os.path.join(HERE, "standin.c"), "rb") as source, open(__file__, "rb") as own:
        return hashlib.sha256(version.read() + source.read() + own.read()).hexdigest()[:12]


def build(folder):
    """Builds what is missing, and returns the environment that a program needs."""
    real = glob.glob(os.path.join(site(), "nvidia", "*", "lib", "libcublas.so*"))
    if real:
        sys.exit(f"standin: {real[0]} would run in place of an empty library; make a venv in which torch is installed with pip install --no-deps")
    folder = os.path.join(os.path.abspath(folder), key())
    runtime, nvml = os.path.join(folder, "libstandin.so"), os.path.join(folder, "libnvidia-ml.so.1")
    if not os.path.exists(nvml):
        os.makedirs(folder, exist_ok=True)
        include = glob.glob(os.path.join(site(), "nvidia", "*", "include"))
        if not any(os.path.exists(os.path.join(i, "cuda_runtime_api.h")) for i in include):
            sys.exit("standin: there is no cuda_runtime_api.h; pip install --no-deps nvidia-cuda-runtime nvidia-cuda-crt")
        compiled(runtime, "libstandin.so", include)
        libraries, symbols = wanted(os.path.join(site(), "torch", "lib"))
        for name in libraries:
            versions = {v: s for v, s in symbols.items() if v == name or v == "NVSHMEM" and "nvshmem_host" in name}
            plain = {"libcuda.so.1": [s for s in symbols[""] if re.match(r"cu[A-Z]", s) and not s.startswith("cuFile")], "libnccl.so.2": [s for s in symbols[""] if not re.match(r"cu[A-Z]", s) or s.startswith("cuFile")]}
            empty(folder, name, versions, plain.get(name, []), [runtime] if name == "libcuda.so.1" else [])
        compiled(nvml, "libnvidia-ml.so.1", include)
    return {**os.environ, "LD_LIBRARY_PATH": folder, "LD_PRELOAD": runtime}


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    os.execve(sys.executable, [sys.executable, *sys.argv[2:]], build(sys.argv[1]))
