#!/usr/bin/env bash
# Adds sessions of the host device to the baselines of this repository. Spread
# them over days and reboots: ten on one afternoon show the spread of an afternoon.
#
#   scripts/record/record_baseline.sh MACHINE [SESSIONS [WORKLOAD[:KNOB=VALUE...]...]]
#
# MACHINE is what its owner calls the machine. One session of each workload where
# left out, at its preset small, in six processes: e3nn and gruflow forward, and
# as steps of training too. Run it on a machine that does nothing else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

machine=${1:?say what the machine is called: scripts/record/record_baseline.sh MACHINE}
sessions=${2:-1}
shift $(($# < 2 ? $# : 2))
workloads=("$@")
[ "${#workloads[@]}" -gt 0 ] || workloads=(e3nn gruflow collate gridsim e3nn:pass=train gruflow:pass=train)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
make --no-print-directory build BIN="$scratch/gpuprof"

for ((i = 1; i <= sessions; i++)); do
  for w in "${workloads[@]}"; do
    IFS=: read -ra parts <<<"$w"
    run=(run "${parts[0]}" --device host --preset small --runs 6)
    for set in "${parts[@]:1}"; do run+=(--set "$set"); done
    command="gpuprof ${run[*]}"
    echo "--> session $i of $sessions: $command" >&2
    "$scratch/gpuprof" "${run[@]}" --quiet -o "$scratch/session.json" --force
    "$scratch/gpuprof" history baseline add "$scratch/session.json" --dir baselines --machine "$machine" --command "$command"
  done
done
