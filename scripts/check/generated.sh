#!/usr/bin/env bash
# Regenerates everything generated and fails, naming the files, if that changed
# or added one. It compares the tree before and after rather than with the last
# commit, so it can be asked in the middle of other work and without git; in a
# clean checkout it is the same question as `git diff` plus untracked files. Sources of generated
# kernels are not in git: their hashes and those of their PTX are, in workloads/op/generated.sha256.
#
# Without clang it makes all but the PTX again, and compares that with its hashes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# files: every file that is tracked or could be, NUL-separated.
files() {
  if git ls-files -z >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard
  else
    find . \( -path ./.git -o -path ./bin -o -path ./.bin \) -prune -o -type f -print0
  fi
}

# snapshot: one "hash  name" line for each of them that exists.
snapshot() {
  files | while IFS= read -r -d '' file; do
    if [ -f "$file" ]; then printf '%s\0' "$file"; fi
  done | xargs -0 -r sha256sum | LC_ALL=C sort -u
}

# A file this large is something built, such as the program itself, that was added by mistake.
large=$(files | while IFS= read -r -d '' file; do
  if [ -f "$file" ] && [ "$(stat -c %s "$file" 2>/dev/null || stat -f %z "$file")" -gt 2097152 ]; then printf '  %s\n' "$file"; fi
done)
if [ -n "$large" ]; then
  printf 'generated: these files are larger than 2 MiB; remove them, or name them in .gitignore:\n%s\n' "$large" >&2
  exit 1
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

snapshot >"$scratch/before"
if command -v "${CUDA_CLANG:-clang++-19}" >/dev/null; then
  make --no-print-directory kernels
else
  echo "generated: NOT MADE AGAIN: the PTX, since ${CUDA_CLANG:-clang++-19} was not found; its hashes are compared" >&2
  go generate ./...
  # shellcheck disable=SC2046 # a word each; the other packages need not be compiled
  go test -count=1 -run '^Test(PTXIsFresh|GeneratedSums)$' $(grep -rlE '^func Test(PTXIsFresh|GeneratedSums)\(' --include='*_test.go' . | xargs -n1 dirname | sort -u)
  go run ./workloads/device/cuda/machinecode/pack
  scripts/build/inject.sh
fi
snapshot >"$scratch/after"

if ! cmp -s "$scratch/before" "$scratch/after"; then
  echo 'generated: these files are stale or missing; run make kernels and commit what it writes:' >&2
  comm -3 "$scratch/before" "$scratch/after" | sed -E 's/^\t?[0-9a-f]{64}  /  /' | sort -u >&2
  exit 1
fi
echo "generated: $(wc -l <"$scratch/after") files, none changed by regenerating"
