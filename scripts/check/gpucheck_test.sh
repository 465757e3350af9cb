#!/usr/bin/env bash
# gpu-check and gpu-record as far as they go without a GPU: their scripts' own tests, the bundle, a dry run of the bundle,
# and gpuprof's CUDA device behind it on the simulated driver. With WHOLE=1, by night, the dry runs have every part and the
# bundle its final size; by day it leaves out
# the parts that run Go's tests on the simulator, as `make test` does, and the gates and sweeps of gpu-record.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python=${GPU_CHECK_PYTHON:-python3} # one with torch and e3nn walks through the peers as well
parts=() records=()
if [ -z "${WHOLE:-}" ]; then
  export LEVEL=1
  parts=(--only doctor,conformance,conformance-failure,recorder,runs,peers,traces)
  records=(--only baselines,tune,claims) # gates and sweeps take minutes
fi

python3 -B -m unittest discover -s scripts/gpucheck -p 'test_*.py'

scripts/build/gpu_bundle.sh "$scratch/bundle"
started=$SECONDS
"$scratch/bundle/gpu-check" --dry-run "${parts[@]}" --source . --python "$python" --out "$scratch/dry" --archive "$scratch/dry.tar.gz" >"$scratch/dry.txt" ||
  { cat "$scratch/dry.txt"; exit 1; }
echo "gpucheck: dry run in $((SECONDS - started)) s"
GPUCHECK_SUMMARY=$scratch/dry/summary.json go test -count=1 -timeout 100s -run 'TestSummaryFollowsItsSchema' ./workloads/gpucheck
if scripts/gpucheck/unpack.py "$scratch/dry.tar.gz" --root "$scratch/root" --gpuprof "$(type -P true)" 2>"$scratch/refusal.txt" ||
  ! grep -q 'dry run' "$scratch/refusal.txt"; then
  echo "gpucheck: unpack.py did not refuse a dry run: $(cat "$scratch/refusal.txt")" >&2
  exit 1
fi

started=$SECONDS
"$scratch/bundle/gpu-record" --dry-run "${records[@]}" --source . --out "$scratch/record" --archive "$scratch/record.tar.gz" >"$scratch/record.txt" || { cat "$scratch/record.txt"; exit 1; }
echo "gpucheck: dry run of gpu-record in $((SECONDS - started)) s"
GPUCHECK_SUMMARY=$scratch/record/summary.json go test -count=1 -timeout 100s -run 'TestSummaryFollowsItsSchema' ./workloads/gpucheck
# What it records is taken as baselines.
gunzip -c "$scratch/bundle/bin/gpuprof.gz" >"$scratch/gpuprof" && chmod +x "$scratch/gpuprof"
"$scratch/gpuprof" history baseline add "$scratch"/record/baselines/*.json.gz --dir "$scratch/baselines" --machine test --command gpu-record >"$scratch/added.txt" 2>&1 &&
  grep -q 'e3nn-small.json: 1 session' "$scratch/added.txt" ||
  { echo "gpucheck: the runs of gpu-record were not taken as baselines: $(cat "$scratch/added.txt")" >&2; exit 1; }

# A recorder that keeps another count than the program made fails its part, on the stand-in for libcupti too.
if GPUPROF_CHECK_WRONG_COUNT=1 "$scratch/bundle/gpu-check" --dry-run --source . --python "$python" --only recorder --out "$scratch/wrong" --archive "$scratch/wrong.tar.gz" >"$scratch/wrong.txt" ||
  ! grep -q 'recorder/counts: .* kernels are recorded of .* launches' "$scratch/wrong.txt"; then
  echo "gpucheck: a wrong count did not fail the recorder's part: $(cat "$scratch/wrong.txt")" >&2
  exit 1
fi

# The name of the test binary makes it gpuprof, with a driver that only tests can give it.
mkdir "$scratch/sim"
go test -c -o "$scratch/sim/gpuprof" ./cmd/gpuprof
driver=$(go test -count=1 -run '^TestSimulatorBuilds$' -v ./workloads/device/cuda | sed -n 's/.*simulated driver: //p')
GPUPROF_TEST_DRIVER=$driver GPUPROF_CUDA_LIBRARY_PATH=$(dirname "$driver") GPUPROF_SIM='attr.38=1048576' \
  "$scratch/bundle/gpu-check" --dry-run --source . --gpuprof "$scratch/sim/gpuprof" --gpuprof-device cuda --only doctor,workload-checks,null \
  --out "$scratch/cuda" --archive "$scratch/cuda.tar.gz" >"$scratch/cuda.txt" || { cat "$scratch/cuda.txt"; exit 1; }
grep -q 'simulated' "$scratch/cuda/summary.txt" || grep -rq 'simulated' "$scratch/cuda/logs" ||
  { echo 'gpucheck: the simulated device was not reached' >&2; exit 1; }
echo 'gpucheck: passed'
