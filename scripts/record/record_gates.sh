#!/usr/bin/env bash
# How often the gate cries wolf on this machine, and how often it finds what is
# there: N gates of an unchanged workload against a copy of the same binary, of
# which none may fail, and M gates against a build in which one kernel was slowed
# down by a tenth of the step, which have to find it and to name its stage. The
# two kinds are measured in turn.
#
#   scripts/record/record_gates.sh [N [M]]      20 and 20 where left out
#
# WORKLOAD (e3nn), PRESET (small), STAGE (tensor_product), KERNEL (tp_csr) choose
# what is measured, PLANT (0.10) the slowdown as a share of the step, MIN_TIME (2s)
# how long each process measures in a pair, BUDGET (5m) what a gate may take, OUT
# (baselines/gates) where OUT.md and OUT.json are written. With KEEP=FOLDER what is
# measured stays there, and a second call goes on where the first was stopped.
#
# A gate takes half a minute to five minutes: run it on a machine that does nothing
# else. Needs python3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

n=${1:-20} m=${2:-20}
[ "$n" -ge 1 ] || { echo "record_gates: the slowdown is sized by an unchanged gate; give N of at least 1" >&2; exit 2; }
workload=${WORKLOAD:-e3nn} preset=${PRESET:-small} stage=${STAGE:-tensor_product} kernel=${KERNEL:-tp_csr}
plant=${PLANT:-0.10} min_time=${MIN_TIME:-2s} budget=${BUDGET:-5m} out=${OUT:-baselines/gates}

if [ -n "${KEEP:-}" ]; then
  scratch=$KEEP
  mkdir -p "$scratch"
else
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
fi
# The folder of an unchanged program's copy must not matter either, so the sides
# of the first part are two files.
if [ ! -e "$scratch/commit" ]; then
  go build -o "$scratch/same" ./cmd/gpuprof
  cp "$scratch/same" "$scratch/base"
  go build -tags slowstage -o "$scratch/slow" ./cmd/gpuprof
  commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
  [ -z "$(git status --porcelain 2>/dev/null)" ] || commit="$commit and changes on top"
  echo "$commit" >"$scratch/commit"
fi
commit=$(cat "$scratch/commit")

# gate PROGRAM NAME I COUNT: the I-th gate of PROGRAM against base.
gate() {
  local code=0 began
  [ ! -s "$scratch/$2-$3.json" ] || return 0
  began=$(date +%s)
  "$scratch/$1" gate "$workload" --against "$scratch/base" --device host --preset "$preset" --min-time "$min_time" \
    --budget "$budget" --seed "$3" --format json --quiet >"$scratch/gate.json" || code=$?
  if [ "$code" -ne 0 ] && [ "$code" -ne 1 ] && [ "$code" -ne 3 ]; then
    echo "record_gates: gate $3 of $2 ended with exit code $code" >&2
    exit 1
  fi
  echo $(($(date +%s) - began)) >"$scratch/$2-$3.seconds"
  mv "$scratch/gate.json" "$scratch/$2-$3.json"
  python3 scripts/record/record_gates.py line "$2 $3 of $4" "$stage" "$scratch/$2-$3.json"
}

for ((i = 1; i <= (n > m ? n : m); i++)); do
  [ "$i" -gt "$n" ] || gate same unchanged "$i" "$n"
  [ "$i" -le "$m" ] || continue
  if [ ! -s "$scratch/by" ]; then # which part of the step the kernel's stage is, the first gate tells
    python3 scripts/record/record_gates.py plant "$stage" "$plant" "$scratch/unchanged-1.json" >"$scratch/by"
    echo "slowing $kernel down by the share $(cat "$scratch/by"), for $plant of the step"
  fi
  GPUPROF_SLOW_KERNEL=$kernel=$(cat "$scratch/by") gate slow slowed "$i" "$m"
done
python3 scripts/record/record_gates.py record "$stage" "$kernel" "$plant" "$commit" "scripts/record/record_gates.sh $n $m" "MIN_TIME=$min_time BUDGET=$budget PLANT=$plant" "$budget" "$scratch" "$out"
