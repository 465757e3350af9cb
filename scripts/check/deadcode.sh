#!/usr/bin/env bash
# Functions that no program reaches: `scripts/check/deadcode.sh DEADCODE`. With cgo and
# without, since each has files of its own. A function that only tests call belongs to
# the tests; the float64 references of ops, which tests of several packages share, stay
# beside their op (name_ref.go).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tool=$1
mains=(./cmd/... ./scripts/... ./report/schema/gen ./workloads/op/tpgen/gen)
# HadCPUs is reached from the benchmark of findings alone, in another package than the rule it asks. What lies
# under a testkit folder is for tests.
allowed='_ref\.go:|unreachable func: HadCPUs$|/testkit/'
# What one of the two builds calls is alive: only what both report is dead.
with=$(CGO_ENABLED=1 "$tool" "${mains[@]}")
without=$(CGO_ENABLED=0 "$tool" "${mains[@]}")
dead=$(comm -12 <(sort <<<"$with") <(sort <<<"$without") | grep -vE "$allowed|^$" || true)
if [ -n "$dead" ]; then
  echo "$dead"
  echo 'deadcode: nothing calls these; delete them, or move what only tests call into the tests' >&2
  exit 1
fi
