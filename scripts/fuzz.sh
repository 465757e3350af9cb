#!/usr/bin/env bash
# Runs fuzz targets for the given time each (default 10s), one after another:
# `go test -fuzz` takes one target of one package at a time. Folders after the
# time limit it to the targets in them.
#
# An input that reaches new code is shortened in at most 1000 executions: by time, the
# shortening of a few inputs takes the whole of a short run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fuzztime=${1:-10s}
folders=("${@:2}")
if [ "${#folders[@]}" -eq 0 ]; then folders=(.); fi
count=0
while IFS=: read -r file target; do
  [ -n "$file" ] || continue
  dir=$(dirname "$file")
  echo "==> $dir $target ($fuzztime)"
  go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" -fuzzminimizetime 1000x "./$dir"
  count=$((count + 1))
done < <(grep -roE --include='*_test.go' '^func Fuzz[A-Z0-9_][A-Za-z0-9_]*' "${folders[@]}" | sed 's/:func /:/' | sort)

if [ "$count" -eq 0 ]; then
  echo 'fuzz: no fuzz target found' >&2
  exit 1
fi
echo "fuzz: $count targets, $fuzztime each"
