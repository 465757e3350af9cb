#!/usr/bin/env bash
# What `go test -race ./...` leaves out, without the race detector: `scripts/test_plain.sh [FLAG…]`,
# the flags for `go test`. `scripts/test_plain.sh --names` prints "package test" for each test of a
# file that is left out and runs nothing. Go's own lists of files tell: where the detector changes a package's
# code, all tests of the package; where it leaves test files out, the tests in those files.
# So a test that counts allocations, or has long arithmetic that is smaller under the detector,
# stands in a file with `//go:build !race`, and no name stands here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# files [-race]: "package kind path" for every Go file of every package.
files() {
  go list "$@" -f '{{$p := .}}{{range .GoFiles}}{{$p.ImportPath}} code {{$p.Dir}}/{{.}}
{{end}}{{range .CgoFiles}}{{$p.ImportPath}} code {{$p.Dir}}/{{.}}
{{end}}{{range .TestGoFiles}}{{$p.ImportPath}} test {{$p.Dir}}/{{.}}
{{end}}{{range .XTestGoFiles}}{{$p.ImportPath}} test {{$p.Dir}}/{{.}}
{{end}}' ./... | LC_ALL=C sort
}

whole=() packages=() names=()
while read -r package kind path; do
  if [ "$kind" = code ]; then
    whole+=("$package")
    continue
  fi
  found=$(grep -oE '^func (Test|Benchmark|Fuzz|Example)[A-Za-z0-9_]*' "$path" | awk '{ print $2 }' || true)
  if [ -z "$found" ]; then
    echo "test_plain: $path changes the tests of $package without the race detector, and holds none; put the tests that differ into it" >&2
    exit 1
  fi
  if [ "${1:-}" = --names ]; then
    printf '%s\n' "$found" | sed "s|^|$package |"
  fi
  packages+=("$package")
  # shellcheck disable=SC2206 # one name a line
  names+=($found)
done < <(LC_ALL=C comm -23 <(files) <(files -race))

if [ "${1:-}" = --names ]; then exit 0; fi

if [ "${#whole[@]}" -gt 0 ]; then
  mapfile -t whole < <(printf '%s\n' "${whole[@]}" | sort -u)
  go test "$@" "${whole[@]}"
fi
if [ "${#packages[@]}" -gt 0 ]; then
  mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u | comm -23 - <(printf '%s\n' "${whole[@]}"))
  pattern=$(printf '%s\n' "${names[@]}" | grep -v '^Benchmark' | sort -u | paste -sd '|')
  go test "$@" -run "^($pattern)\$" "${packages[@]}"
fi
