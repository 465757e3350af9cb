#!/usr/bin/env bash
# Builds the gorgonia.org/cu implementation of the CUDA driver table against the
# headers of CUDA 12 and runs the conformance suite through it on the simulated
# driver. Needs Go with cgo, gcc and g++, and python3 with pip for the headers; no GPU,
# no toolkit.
#
#   GPUPROF_CUDA_HEADERS=dir   where cuda.h is (else fetched once, from PyPI)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

wheel=nvidia-cuda-runtime-cu12==12.8.90
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuprof-gorgonia
headers=${GPUPROF_CUDA_HEADERS:-$cache/nvidia/cuda_runtime/include}

# The headers: fetched aside and moved when complete, so that a second run or a
# broken download finds either all of it or nothing.
if [ ! -f "$headers/cuda.h" ]; then
  if [ -n "${GPUPROF_CUDA_HEADERS:-}" ]; then
    echo "gorgonia: $headers has no cuda.h; correct GPUPROF_CUDA_HEADERS" >&2
    exit 1
  fi
  aside=$(mktemp -d)
  trap 'rm -rf "$aside"' EXIT
  for try in 1 2 3; do
    python3 -m pip download --quiet --disable-pip-version-check --no-deps \
      --only-binary=:all: --platform manylinux2014_x86_64 -d "$aside" "$wheel" && break
    if [ "$try" = 3 ]; then
      echo "gorgonia: fetching $wheel failed three times; check the network, or name a folder with cuda.h in GPUPROF_CUDA_HEADERS" >&2
      exit 1
    fi
    sleep $((try * 5))
  done
  python3 -m zipfile -e "$aside"/*.whl "$aside/tree"
  mkdir -p "$cache"
  rm -rf "$cache/nvidia"
  mv "$aside/tree/nvidia" "$cache/nvidia"
fi

# The simulated driver stands in for libcuda, for the linker and at run time.
lib=$(go test -count=1 -v -run '^TestSimulatorBuilds$' ./workloads/device/cuda | sed -n 's/^.*simulated driver: //p')
if [ ! -f "$lib" ]; then
  echo "gorgonia: the simulated driver was not built; run go test -run TestSimulatorBuilds ./workloads/device/cuda" >&2
  exit 1
fi
link=$cache/link
mkdir -p "$link"
ln -sfn "$lib" "$link/libcuda.so"

# cu wraps far more of the driver than is simulated, and all of it has to link:
# the rest of what the header names says NOT_SUPPORTED.
comm -23 \
  <(grep -oE '\bcu[A-Z][A-Za-z0-9]*(_v[0-9]+)?\b' "$headers/cuda.h" | LC_ALL=C sort -u) \
  <(nm -D --defined-only "$lib" | awk '{print $3}' | LC_ALL=C sort -u) |
  sed 's/.*/int &(void) { return 801; }/' >"$link/rest.c"
gcc -shared -fPIC -w -fno-builtin -Wl,-soname,libgpuprof-rest.so -o "$link/libgpuprof-rest.so" "$link/rest.c"

export CGO_ENABLED=1
export CGO_CFLAGS="-I$headers"
export CGO_LDFLAGS="-L$link -lcuda -lgpuprof-rest"
# The name inside the library is not libcuda.so.1; it lies beside the library.
export LD_LIBRARY_PATH="$(dirname "$lib"):$link${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

go vet -tags gorgonia ./workloads/device/cuda
go test -tags gorgonia -count=1 -timeout 300s \
  -run '^(TestConformance|TestGorgonia.*|TestLoadRefusals|TestKernelFault|TestReopenAfterFault|TestFailingCalls|TestCapture.*|TestCooperative|TestSharedMemory|TestSpin|TestFlushCache|TestPool|TestMemoryLimit|TestAnotherThread)$' \
  ./workloads/device/cuda
echo 'gorgonia: passed'
