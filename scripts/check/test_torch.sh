#!/usr/bin/env bash
# gpuprof run on real PyTorch: planted problems are the first finding, clean
# programs have none, and results stay the same bits.
#
# TORCH_PYTHON names a Python that has torch; without it a virtual environment
# of TORCH_VERSION is made in .bin.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

version=${TORCH_VERSION:-2.9.1}
python=${TORCH_PYTHON:-.bin/torch-$version/bin/python}
if [ -z "${TORCH_PYTHON:-}" ] && ! "$python" -c 'import torch' 2>/dev/null; then
  python3 -m venv --clear ".bin/torch-$version"
  # pip's own settings say from where; PyTorch's builds for the CPU are a tenth of the size.
  "$python" -m pip install --quiet "torch==$version"
  # Before 2.3 PyTorch was built for NumPy 1 and warns of any other.
  case $version in 2.[012].*) numpy='numpy<2' ;; *) numpy='numpy<3' ;; esac
  "$python" -m pip install --quiet "$numpy"
fi
python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/gpuprof" ./cmd/gpuprof
programs=$PWD/testdata/programs
gpu=$("$python" -c 'import torch; print(int(torch.cuda.is_available()))')
failed=0

# try RULE PROGRAM ARG…: RULE is the first finding; "none" wants no finding,
# "-" does not look. What other programs of this machine take is no finding of the program.
try() {
  local rule=$1 got bare recorded dir=$work/out-$RANDOM$RANDOM
  shift
  bare=$("$python" "$programs/$1" "${@:2}")
  recorded=$("$work/gpuprof" run --quiet -o "$dir" -- "$python" "$programs/$1" "${@:2}" 2>"$work/err")
  got=$("$python" -c 'import json, sys; f = [f for f in json.load(open(sys.argv[1]))["findings"] if f["rule"] != "starved-machine"]; print(f[0]["rule"] if f else "none")' "$dir/analysis.json" || echo "no analysis")
  if [ "$bare" != "$recorded" ]; then
    echo "FAIL $*: the results differ: $bare and $recorded"
    failed=1
  elif [ "$rule" != - ] && [ "$rule" != "$got" ]; then
    echo "FAIL $*: the first finding is $got, want $rule"
    cat "$work/err"
    failed=1
  else
    echo "ok   $*: $got, same results"
  fi
}

try dataloader-stall train_starved.py
try dataloader-stall infer.py
if [ "$gpu" = 1 ]; then
  try item train_item.py
  clean=-
else
  # On the CPU .item() waits for nothing: a finding would be wrong.
  try none train_item.py
  clean=none
fi
try "$clean" train_starved.py --clean
try "$clean" train_item.py --clean
try "$clean" infer.py --clean
exit $failed
