#!/usr/bin/env bash
# The tests of workloads/device/cuda with the simulated driver under AddressSanitizer:
# every access of every kernel is checked, and the process ends at the first
# that is wrong, with the line of the .cu file.
#
#   scripts/check/sim_asan.sh [packages]   ./workloads/device/cuda/... unless told otherwise
#
# Without WHOLE=1 it leaves out the tests that launch again what another test launches: the same bits a hundred
# times, kernels compiled at run time, and ceilings.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if ! command -v g++ >/dev/null; then
  echo 'sim_asan: g++ not found; install it (Debian: apt-get install g++)' >&2
  exit 1
fi
asan=$(g++ -print-file-name=libasan.so)
if [ ! -e "$asan" ]; then
  echo 'sim_asan: g++ has no libasan.so; install it (Debian: it comes with libgcc-12-dev)' >&2
  exit 1
fi
# libasan.so may be a link or a linker script; what is preloaded is the library itself.
runtime=$(readlink -f "$asan")
packages=("$@")
if [ "${#packages[@]}" -eq 0 ]; then packages=(./workloads/device/cuda/...); fi

# Only the test binaries get the run-time library: the compilers that the tests start do without.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/run" <<EOF
#!/bin/sh
# Go handles its own faults and frees nothing at exit; dlopen keeps what it opened.
export ASAN_OPTIONS=detect_leaks=0:handle_segv=1:allow_user_segv_handler=1:detect_stack_use_after_return=0:\${ASAN_OPTIONS:-}
export GPUPROF_SIM_ASAN=1 LD_PRELOAD=$runtime
exec "\$@"
EOF
chmod +x "$scratch/run"
skip=()
if [ -z "${WHOLE:-}" ]; then skip=(-skip 'BitIdentical|Compiled|Ceilings|TestLostIsNoLackOfMemory|AllocatesNothing'); fi
go test -count=1 -timeout 900s -vet=off "${skip[@]}" -exec "$scratch/run" "${packages[@]}"
