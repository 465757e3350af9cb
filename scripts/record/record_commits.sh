#!/usr/bin/env bash
# Records the trend and the bisection of docs/gallery.md on this machine: a repository of a
# Go program that prints the processor time of a loop, in which one commit makes the loop
# 8 % longer. Then draw the pictures with `make gallery`.
# workload records the search of a workload instead: the last COMMITS (12) commits of this
# repository, with one among them in which the kernel of the tensor product takes twice as long.
# Usage: scripts/record/record_commits.sh trend|bisect|workload [FOLDER]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
what=${1:?give trend, bisect or workload}
into=$(realpath "${2:-testdata/gallery}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
make --no-print-directory build BIN="$scratch/gpuprof" >/dev/null
export PATH="$scratch:$PATH" XDG_CACHE_HOME="$scratch/cache"
GOCACHE=$(HOME=$HOME go env GOCACHE)
export GOCACHE

case $what in
  trend) last=24 culprit=16 broken='' ;;
  bisect) last=64 culprit=23 broken='12 33' ;;
  workload) last=${COMMITS:-12} culprit=$((${COMMITS:-12} * 7 / 12)) broken='' ;;
  *) echo "record_commits: $what is none of trend, bisect and workload" >&2; exit 2 ;;
esac

if [ "$what" = workload ]; then
  here=$PWD
  git clone -q . "$scratch/planted"
  cd "$scratch/planted"
  git config user.name gallery
  git config user.email gallery@localhost
  tip=$(git rev-parse HEAD)
  git checkout -q -b plant "HEAD~$((last - culprit))"
  { echo '//go:build !slowstage'; sed -e '1d' -e 's/os.Getenv("GPUPROF_SLOW_KERNEL")/"tp_csr=1"/' -e '/"os"/d' "$here/workloads/device/host/slow.go"; } >workloads/device/host/slow_off.go
  gofmt -l workloads/device/host | grep . && exit 1
  git commit -qam 'host: the kernel of the tensor product takes twice as long (planted)'
  git rebase -q --onto plant "plant~1" "$tip"
  git checkout -q -B main
  gpuprof bisect "HEAD~$((last + 1))..main" e3nn --device host --preset small --min-time "${MIN_TIME:-1s}" -o "$into/bisect-workload.json" --force
  gzip -nf9 "$into/bisect-workload.json"
  exit
fi

repo="$scratch/spin"
git init -q -b main "$repo"
cd "$repo"
git config user.name gallery
git config user.email gallery@localhost
printf 'module spin\n\ngo 1.24\n' >go.mod
cat >main.go <<'GO'
package main

import (
	"fmt"
	"syscall"
)

func main() {
	x := uint64(1)
	for range 40 * steps {
		for range 100_000 {
			x = x*6364136223846793005 + 1442695040888963407
		}
	}
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	fmt.Printf("BenchmarkSpin 1 %d ns/op\n", used.Utime.Nano())
	if x == 0 {
		fmt.Println(x)
	}
}
GO
for i in $(seq 0 "$last"); do
  steps=100
  [ "$i" -lt "$culprit" ] || steps=108
  printf 'package main\n\nconst steps = %d // as of %d\n' "$steps" "$i" >steps.go
  case " $broken " in *" $i "*) echo 'func' >>steps.go ;; esac
  git add -A
  GIT_COMMITTER_DATE="2026-11-01T00:00:00Z" git commit -q -m "commit $i"
done

if [ "$what" = bisect ]; then
  gpuprof bisect "HEAD~$last..main" --build 'go build -o spin .' -o "$into/bisect.json" --force -- ./spin
  exit
fi
for i in $(seq 1 "$last"); do
  git checkout -q "main~$((last - i))"
  go build -o "$scratch/bench" .
  for _ in 1 2 3 4 5 6; do "$scratch/bench"; done >"$scratch/six.txt"
  gpuprof history add "$scratch/six.txt" --store ../store --benchmark spin >/dev/null
done
git checkout -q main
gpuprof history --store ../store -o "$into/history.json" --force
