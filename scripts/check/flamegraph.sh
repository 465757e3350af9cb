#!/usr/bin/env bash
# Folded stacks that gpuprof writes, drawn by Brendan Gregg's flamegraph.pl: its picture has every byte of the snapshot.
#
#   scripts/check/flamegraph.sh [GPUPROF]     without one, it is built
#
# Needs perl, and flamegraph.pl on the PATH or in FLAMEGRAPH; Debian's libdevel-nytprof-perl has it, and is installed as root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gpuprof=${1:-$work/gpuprof}
[ $# -gt 0 ] || go build -o "$gpuprof" ./cmd/gpuprof

fail() {
  echo "flame graph: $*" >&2
  exit 1
}

debian=/usr/share/perl5/Devel/NYTProf/flamegraph.pl
draw=${FLAMEGRAPH:-$(command -v flamegraph.pl || echo $debian)}
if [ ! -e "$draw" ]; then
  [ "$(id -u)" -eq 0 ] && apt-get install -qq -y --no-install-recommends libdevel-nytprof-perl >"$work/apt.txt" 2>&1 || fail "no flamegraph.pl: apt-get install libdevel-nytprof-perl, or set FLAMEGRAPH"
fi
checked=0
for snapshot in testdata/memory/{clean,leak,collection}.pickle.gz; do
  "$gpuprof" analyze "$snapshot" -o "$work/m.folded" --force --quiet >/dev/null
  perl "$draw" --countname bytes "$work/m.folded" >"$work/m.svg" 2>"$work/words.txt" || fail "$snapshot: $(tail -1 "$work/words.txt")"
  # The first line says who wrote the file; flamegraph.pl leaves out this line, and no other.
  grep -vx 'Ignored 1 lines with invalid format' "$work/words.txt" >&2 && fail "$snapshot: flamegraph.pl complains"
  bytes=$(sed 1d "$work/m.folded" | awk '{sum += $NF} END {printf "%d", sum}')
  drawn=$(sed -n 's/.*<title>all (\([0-9,]*\) bytes.*/\1/p' "$work/m.svg" | tr -d ,)
  [ -n "$drawn" ] && [ "$drawn" = "$bytes" ] || fail "$snapshot: the picture has ${drawn:-no} bytes, the stacks $bytes"
  [ "$(grep -c '<title>' "$work/m.svg")" -gt 5 ] || fail "$snapshot: the picture has hardly a frame"
  checked=$((checked + 1))
done
echo "$checked passed, 0 failed"
