#!/usr/bin/env bash
# What the race detector's pass cannot show, tested without it: the tests in files for builds without the detector (it
# allocates on its own account, so counts of allocations hold without it only), and all of a package that also has a
# file for builds with it, a constant that makes long arithmetic shorter. Both are found by their build tags.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t files < <(grep -rlE --include='*.go' '^//go:build .*\brace\b' . | LC_ALL=C sort)
mapfile -t dirs < <(printf '%s\n' "${files[@]}" | xargs -n1 dirname | LC_ALL=C sort -u)
[ "${#dirs[@]}" -gt 0 ] || { echo 'test_plain: no file has the tag race; test everything once with go test ./...' >&2; exit 1; }

whole=()
for dir in "${dirs[@]}"; do
  mapfile -t own < <(printf '%s\n' "${files[@]}" | grep -E "^$dir/[^/]+$")
  if grep -qE '^//go:build (race|.*[^!]\brace)\b' "${own[@]}"; then
    whole+=("$dir")
    continue
  fi
  names=$(grep -ohE '^func Test\w+' "${own[@]}" | cut -d' ' -f2 | paste -sd'|') || true
  [ -n "$names" ] || continue # benchmarks alone
  go test -timeout 30m -vet=off -run "^($names)\$" "$dir"
done
go test -timeout 30m -vet=off "${whole[@]}"
