#!/usr/bin/env bash
# Builds the CUDA recorder (internal/record/inject) for amd64 and arm64, byte-identical from
# run to run and from checkout to checkout, against the oldest C library that CUDA supports.
# SHA256SUMS beside it has the hashes of the sources and of what was made of them, so that a
# machine without the compiler can tell stale from fresh.
#
# The compiler is zig's clang with its own C library headers, from a Python wheel kept under .bin/.
#
#   ZIG=/path/to/zig   one that is there already, of the same version
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

version=0.15.2
cache=$PWD/.bin/zig-$version
folder=internal/record/inject

# fetch: unpacks the compiler into the cache, once; a download that breaks off is tried again.
fetch() {
  local try scratch
  scratch=$(mktemp -d)
  for try in 1 2 3; do
    if python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$scratch" "ziglang==$version"; then
      break
    fi
    if [ "$try" -eq 3 ]; then
      echo "inject: downloading ziglang $version failed three times; check the network or name a compiler in ZIG" >&2
      rm -rf "$scratch"
      return 1
    fi
    sleep $((try * 5))
  done
  rm -rf "$cache.new" "$cache"
  python3 -m zipfile -e "$scratch"/*.whl "$cache.new"
  chmod +x "$cache.new/ziglang/zig"
  rm -rf "$scratch"
  mv "$cache.new" "$cache"
}

zig=${ZIG:-}
if [ -z "$zig" ]; then
  if [ ! -x "$cache/ziglang/zig" ]; then fetch; fi
  zig=$cache/ziglang/zig
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Nothing of this machine reaches the output: neither its cache nor its paths.
export ZIG_GLOBAL_CACHE_DIR=$scratch/global ZIG_LOCAL_CACHE_DIR=$scratch/local

for target in amd64:x86_64 arm64:aarch64; do
  out=gpuprof-cuda-${target%%:*}.so
  (cd "$folder" && "$zig" cc -target "${target##*:}-linux-gnu.2.17" -std=gnu11 -O2 -g0 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden -fno-sanitize=all -fno-ident \
    "-ffile-prefix-map=$PWD/$folder=." -Wl,-s,--build-id=none,-z,nodelete,-soname,gpuprof-cuda.so inject.c -o "$scratch/$out" -ldl -lpthread)
  # Replace only what changed, so that file times stay useful to whoever watches them.
  if ! cmp -s "$scratch/$out" "$folder/$out"; then
    cp "$scratch/$out" "$folder/$out"
    echo "inject: wrote $folder/$out"
  fi
done
(cd "$folder" && sha256sum *.c *.h *.so) >"$scratch/sums"
if ! cmp -s "$scratch/sums" "$folder/SHA256SUMS"; then cp "$scratch/sums" "$folder/SHA256SUMS"; fi
echo 'inject: 2 libraries built'
