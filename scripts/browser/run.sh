#!/usr/bin/env bash
# The browser test: makes every HTML page gpuprof has, from made-up data and
# from one real small run, and looks at them in a headless Chromium.
#   run.sh tools   installs the driver and the accessibility checker, pinned
#   run.sh         runs the test
# Needs node 20 or newer with npm, Chromium ($CHROMIUM, else chromium on the
# path) and Go. KEEP=FOLDER keeps the pages there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

need_node() {
  local have
  if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    echo 'browser test: node or npm not found; install nodejs 20 or newer with npm' >&2
    exit 1
  fi
  have=$(node -p 'process.versions.node.split(".")[0]')
  if [ "$have" -lt 20 ]; then
    echo "browser test: node $have is too old for the driver; install nodejs 20 or newer" >&2
    exit 1
  fi
}

# tools: does nothing when what the lock file names is there.
tools() {
  need_node
  if cmp -s package-lock.json node_modules/.installed; then
    echo 'nothing to install'
    return 0
  fi
  npm ci --ignore-scripts --no-audit --no-fund
  cp package-lock.json node_modules/.installed
}

if [ "${1:-}" = tools ]; then
  tools
  exit 0
fi

need_node
if ! cmp -s package-lock.json node_modules/.installed; then
  echo 'browser test: its npm packages are not installed; run make browser-tools' >&2
  exit 1
fi
chromium=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
if [ -z "$chromium" ]; then
  echo 'browser test: Chromium not found; install it (apt-get install chromium), or name it in CHROMIUM' >&2
  exit 1
fi

here=$PWD
work=${KEEP:-$(mktemp -d)}
mkdir -p "$work"
work=$(cd "$work" && pwd)
if [ -z "${KEEP:-}" ]; then trap 'rm -rf "$work"' EXIT; fi
cd ../..
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"
mkdir -p "$work/made-up" "$work/real"
go test -count=1 ./report/html -run TestKeepPages -pages "$work/made-up"
go build -o "$work/gpuprof" ./cmd/gpuprof

# allow CODES COMMAND…: the exit code must be one of CODES. A verdict on runs
# this short may be any.
allow() {
  local codes=" $1 " status=0
  shift
  "$@" >"$work/output" 2>&1 || status=$?
  if [[ $codes != *" $status "* ]]; then
    cat "$work/output" >&2
    echo "browser test: exit code $status of: $*" >&2
    exit 1
  fi
}
gpuprof=$work/gpuprof
traces=$PWD/testdata/traces
cd "$work/real"
small=(--device host --preset small --min-time 50ms --max-time 300ms --warmup 2 --force --quiet)
allow 0 "$gpuprof" run gruflow "${small[@]}" --runs 2 -o run.json -o run.html
allow 0 "$gpuprof" run gruflow "${small[@]}" --runs 2 --set impl=plain -o old.json
allow 0 "$gpuprof" run gruflow "${small[@]}" --set flows=8,16 -o sweep.json -o sweep.html
allow '0 3' "$gpuprof" compare old.json run.json --force -o comparison.json -o comparison.html
allow '0 1 3' "$gpuprof" gate old.json run.json --max sync_points=0 --force -o gate.json -o gate.html
allow 0 "$gpuprof" tune gruflow --device host --preset small --knob sync --budget 2s --force -o tune.json -o tune.html
allow 0 "$gpuprof" analyze "$traces/dataloader-stall-fires.json" --force -o analysis.json -o analysis.html
allow 0 "$gpuprof" analyze "$traces/hidden-sync-fires.json" --force -o analysis-stacks.json -o analysis-stacks.html
allow 0 "$gpuprof" report run.json --force -o report.html
# Sampled stacks of a program with a stand-in for torch, for other viewers.
allow 0 env PYTHONPATH="$traces/../torchstub" PYTHONDONTWRITEBYTECODE=1 "$gpuprof" run --force --quiet -o stacks -- python3 "$here/stacks.py"
allow 0 "$gpuprof" analyze stacks --force -o stacks.speedscope.json -o stacks.folded

# A page of a large trace, whose load is printed.
mkdir -p "$work/large"
(cd "$here/../.." && go run ./scripts/record/gentrace -bytes 54000000 -o "$work/large/trace.json")
allow 0 "$gpuprof" analyze "$work/large/trace.json" --force -o "$work/large/trace.html"
rm "$work/large/trace.json"

cd "$here"
node browser.mjs "$chromium" "$work"
node stacks.mjs "$chromium" "$work/real/stacks.speedscope.json" "$work/real/stacks.folded"
