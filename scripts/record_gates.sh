#!/usr/bin/env bash
# How often the gate cries wolf on this machine, and how often it finds what is
# there: N gates of an unchanged workload against the same binary, of which none
# may fail, and M gates against a build in which one kernel was slowed down, which
# have to find it and to name its stage. The slowdown is PLANT (0.10) of the step;
# PLANT=spread makes it three times the spread that the first part showed between
# processes, and at least 5 % of the step.
#
#   scripts/record_gates.sh [N [M]]      40 and 20 where left out
#
# WORKLOAD (e3nn), PRESET (small), STAGE (tensor_product), KERNEL (tp_csr) choose
# what is measured, MIN_TIME (250ms) how long each process samples, BUDGET (5m) the
# time of a gate, OUT (baselines/gates) where OUT.md and OUT.json are written. With KEEP=FOLDER what is
# measured stays there, and a second call goes on where the first was stopped.
#
# A gate takes six pairs of processes, and where stage 1 cannot decide as many more
# as the noise asks for within BUDGET: run it on a machine that does nothing else.
# It prints and records the seconds of each gate and how many were inconclusive.
# Needs python3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

n=${1:-40} m=${2:-20}
workload=${WORKLOAD:-e3nn} preset=${PRESET:-small} stage=${STAGE:-tensor_product} kernel=${KERNEL:-tp_csr}
min_time=${MIN_TIME:-250ms} budget=${BUDGET:-5m} plant=${PLANT:-0.10} out=${OUT:-baselines/gates}

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

# gates PROGRAM COUNT NAME: COUNT gates of PROGRAM against base, a seed each.
gates() {
  local code i began
  for ((i = 1; i <= $2; i++)); do
    [ ! -s "$scratch/$3-$i.json" ] || continue
    code=0
    began=$(date +%s)
    "$scratch/$1" gate "$workload" --against "$scratch/base" --device host --preset "$preset" --min-time "$min_time" \
      --budget "$budget" --seed "$i" --format json --quiet >"$scratch/gate.json" || code=$?
    if [ "$code" -ne 0 ] && [ "$code" -ne 1 ] && [ "$code" -ne 3 ]; then
      echo "record_gates: gate $i of $3 ended with exit code $code" >&2
      exit 1
    fi
    echo $(($(date +%s) - began)) >"$scratch/$3-$i.seconds"
    mv "$scratch/gate.json" "$scratch/$3-$i.json"
    python3 scripts/record_gates.py line "$3 $i of $2" "$stage" "$scratch/$3-$i.json"
  done
}

gates same "$n" unchanged
by=$(python3 scripts/record_gates.py plant "$stage" "$plant" "$scratch"/unchanged-*.json)
echo "slowing $kernel down by the share ${by#* }, for ${by% *} of the step"
if [ "$m" -gt 0 ]; then
  GPUPROF_SLOW_KERNEL=$kernel=${by#* } gates slow "$m" slowed
fi
minutes=$(cat "$scratch"/*.seconds | awk '{s += $1} END {printf "%d", (s + 59) / 60}')
python3 scripts/record_gates.py record "$stage" "$kernel" "$by" "$commit" "$minutes" "scripts/record_gates.sh $n $m" "MIN_TIME=$min_time BUDGET=$budget PLANT=$plant" "$scratch" "$out"
