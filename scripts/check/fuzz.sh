#!/usr/bin/env bash
# Runs fuzz targets for the given number of inputs each (default 20000x), one after another; each package is
# compiled and linked once. Folders after the number limit it to the targets in them.
#
# By number, not by time: when the time is up while an input runs, go test may report "context deadline exceeded" as
# a failure (seen with Go 1.26). An input that reaches new code is shortened in at most 1000 executions.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

fuzztime=${1:-20000x}
folders=("${@:2}")
if [ "${#folders[@]}" -eq 0 ]; then folders=(.); fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cache=$(go env GOCACHE)/fuzz
module=$(go list -m)
count=0 built=
while IFS=: read -r file target; do
  [ -n "$file" ] || continue
  dir=$(dirname "$file")
  dir=${dir#./}
  if [ "$dir" != "$built" ]; then
    go test -c -vet=off -fuzz . -o "$scratch/fuzz.test" "./$dir"
    built=$dir
  fi
  echo "==> $dir $target ($fuzztime)"
  # Inputs that reached new code are kept where go test keeps them.
  (cd "$dir" && "$scratch/fuzz.test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$fuzztime" -test.fuzzminimizetime 1000x -test.fuzzcachedir "$cache/$module/$dir")
  count=$((count + 1))
done < <(grep -roE --include='*_test.go' '^func Fuzz[A-Z0-9_][A-Za-z0-9_]*' "${folders[@]}" | sed 's/:func /:/' | sort)

if [ "$count" -eq 0 ]; then
  echo 'fuzz: no fuzz target found' >&2
  exit 1
fi
echo "fuzz: $count targets, $fuzztime each"
