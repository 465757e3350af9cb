#!/usr/bin/env bash
# Shows that the import rule in .golangci.yml bites: plants allowed and forbidden
# imports in a scratch module of the same name, lints it with this repository's
# own configuration, and compares what was reported with what should be.
#
#   scripts/check/importrule_test.sh [path to golangci-lint]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

linter=$(realpath "${1:-.bin/golangci-lint}")
module=github.com/gpuprof/gpuprof
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Each line: verdict, importing file, what it imports ("." is the root package,
# "third-party" a module that is not this one). Imports name a leaf under the
# folder, so that no planted pair makes an import cycle.
cases='
deny  vocabulary.go                      third-party
deny  vocabulary.go                      internal/stats
allow vocabulary_test.go                 third-party
deny  vocabulary_test.go                 internal/stats
allow workloads/device/host/a.go                 .
allow workloads/device/host/a_test.go            workloads/testkit/devicetest
deny  workloads/device/host/a.go                 workloads/testkit/devicetest
deny  workloads/device/host/a.go                 internal/stats
allow workloads/device/host/a.go                 workloads/vec
allow workloads/op/a.go                  workloads/vec
deny  workloads/e3nn/a.go                workloads/vec
deny  workloads/vec/a.go                  internal/stats
allow workloads/device/host/a.go                 internal/cgroup
allow workloads/device/cuda/a.go                 internal/cgroup
allow workloads/device/cuda/a.go                 internal/dynlib
allow probes/events/a.go                 workloads/device/ptx
deny  workloads/device/ptx/a.go                  workloads/device/cuda
allow workloads/device/cuda/a.go                 internal/atomicfile
allow probes/nvml/a.go                   internal/dynlib
deny  workloads/device/host/a.go                 internal/dynlib
deny  internal/dynlib/a.go               .
allow probes/machine/a.go                   internal/cgroup
deny  workloads/measure/a.go              internal/cgroup
deny  internal/cgroup/a.go               .
allow workloads/device/cuda/a.go                 internal/testkit/sim
deny  workloads/device/cuda/a.go                 workloads/device/host
deny  workloads/device/cuda/a.go                 internal/stats
deny  internal/stats/a.go                workloads/measure
allow workloads/testkit/devicetest/a.go           .
deny  workloads/testkit/devicetest/a.go           workloads/device/host
deny  workloads/testkit/devicetest/a.go           internal/stats
allow probes/events/a.go                 .
deny  probes/events/a.go                 probes/machine
deny  probes/machine/a.go                   workloads/measure
deny  probes/nvml/a.go                   workloads/e3nn
allow probes/events/a_test.go            workloads/device/host
allow workloads/so3/a.go                 third-party
deny  workloads/so3/a.go                 workloads/op
deny  workloads/so3/a.go                 workloads/structure
deny  workloads/structure/a.go           workloads/so3
allow workloads/structure/a.go           internal/outside
deny  workloads/e3nn/a.go                internal/outside
deny  internal/outside/a.go              internal/child
deny  internal/outside/a.go              internal/document
allow internal/document/a.go             internal/outside
deny  internal/document/a.go             internal/compare
allow workloads/op/a.go                  workloads/so3
deny  workloads/op/a.go                  workloads/structure
deny  workloads/op/a.go                  workloads/e3nn
allow workloads/e3nn/a.go                workloads/op
allow workloads/e3nn/a.go                workloads/so3
allow workloads/e3nn/a.go                workloads/structure
deny  workloads/e3nn/a.go                workloads/gruflow
deny  workloads/e3nn/a.go                workloads/device/host
deny  workloads/e3nn/a.go                workloads/measure
deny  workloads/e3nn/a.go                report/table
allow workloads/e3nn/a_test.go           workloads/device/host
allow workloads/e3nn/a_test.go           workloads/testkit/devicetest
deny  workloads/e3nn/a_test.go           workloads/measure
allow workloads/gruflow/a.go             workloads/op
deny  workloads/gruflow/a.go             workloads/collate
deny  workloads/collate/a.go             workloads/gruflow
allow workloads/gridsim/a.go             internal/pool
allow workloads/gridsim/a_test.go        workloads/testkit/workloadtest
deny  workloads/gridsim/a.go             workloads/testkit/workloadtest
allow internal/history/a.go              internal/bucket
allow internal/bucket/a.go               internal/atomicfile
deny  internal/bucket/a.go               internal/document
allow internal/memsnap/a.go              internal/pool
deny  internal/memsnap/a.go              internal/trace
allow internal/compare/a.go              internal/memsnap
deny  internal/memsnap/a.go              internal/compare
allow internal/fleet/a.go                internal/bucket
allow internal/fleet/a.go                internal/trace
deny  internal/fleet/a.go                internal/tune
deny  internal/launch/a.go               internal/document
deny  internal/atomicfile/a.go           internal/document
deny  workloads/gridsim/a.go             workloads/gruflow
allow workloads/serving/a.go             internal/latency
deny  workloads/serving/a.go             internal/stats
deny  workloads/serving/a.go             workloads/collate
allow workloads/measure/a.go              internal/latency
deny  internal/latency/a.go              workloads/measure
allow workloads/measure/a.go              probes/events
allow workloads/measure/a.go              internal/stats
deny  workloads/measure/a.go              workloads/device/host
deny  workloads/measure/a.go              workloads/device/cuda
deny  workloads/measure/a.go              workloads/e3nn
deny  workloads/measure/a.go              report/table
allow workloads/measure/a_test.go         workloads/device/host
allow workloads/measure/a_test.go         workloads/e3nn
deny  workloads/measure/a_test.go         report/table
allow internal/tune/a.go                 workloads/measure
allow internal/tune/a.go                 internal/compare
deny  internal/tune/a.go                 workloads/advise
deny  internal/compare/a.go              workloads/measure
deny  workloads/advise/a.go               internal/trace
allow internal/trace/a.go                internal/trace/read/kineto
deny  internal/trace/read/kineto/a.go         workloads/measure
allow report/a.go                        report/table
deny  report/a.go                        workloads/measure
allow report/html/a.go                   report/figure
allow report/page/a.go                   report/figure
deny  report/html/a.go                   report/table
deny  report/figure/a.go                 report/html
deny  report/figure/a.go                 report/page
deny  report/internal/view/a.go          workloads/measure
deny  report/internal/view/a.go          report/figure
allow report/table/a.go                  report/internal/view
allow report/table/a.go                  report/page
deny  report/table/a.go                  report/html
deny  report/page/a.go                   report/table
allow report/page/a.go                   report/figure
deny  report/figure/a.go                 report/page
deny  report/table/a.go                  internal/testkit/fixture
allow report/table/a_test.go             internal/testkit/fixture
deny  report/runfile/a.go                report/table
deny  report/schema/a.go                 report/runfile
deny  report/table/a.go                  workloads/measure
deny  report/table/a.go                  workloads/device/host
deny  report/table/a.go                  workloads/op
deny  report/pprof/a.go                  report/figure
allow report/pprof/a.go                  report/runfile
deny  report/perfetto/a.go               report/figure
deny  report/benchfmt/a.go               report/figure
deny  report/markdown/a.go               report/figure
deny  report/junit/a.go                  report/figure
allow cmd/gpuprof/wire.go                workloads/device/host
allow cmd/gpuprof/wire.go                workloads/device/cuda
allow cmd/gpuprof/wire.go                workloads/e3nn
allow cmd/gpuprof/wire.go                probes/nvml
allow cmd/gpuprof/wire.go                report/html
deny  cmd/gpuprof/wire.go                workloads/testkit/devicetest
allow cmd/gpuprof/verb.go                workloads/measure
deny  cmd/gpuprof/verb.go                workloads/device/host
deny  cmd/gpuprof/verb.go                workloads/device/cuda
deny  cmd/gpuprof/verb.go                workloads/e3nn
deny  cmd/gpuprof/verb.go                probes/events
deny  cmd/gpuprof/verb.go                report/html
allow cmd/gpuprof/verb.go                report/runfile
allow cmd/gpuprof/verb.go                report/schema
allow cmd/gpuprof/verb_test.go           workloads/device/host
allow cmd/gpuprof/internal/formats/a.go    report/html
deny  cmd/gpuprof/internal/formats/a.go    cmd/gpuprof/internal/gate
allow cmd/gpuprof/internal/gate/a.go       cmd/gpuprof/internal/cli
allow cmd/gpuprof/internal/gate/a.go       cmd/gpuprof/internal/judge
deny  cmd/gpuprof/internal/gate/a.go       cmd/gpuprof/internal/compare
deny  cmd/gpuprof/internal/gate/a.go       cmd/gpuprof/internal/formats
deny  cmd/gpuprof/internal/gate/a.go       cmd/gpuprof/internal/testkit
allow cmd/gpuprof/internal/gate/a_test.go  cmd/gpuprof/internal/testkit
deny  cmd/gpuprof/internal/gate/a.go       report/html
deny  cmd/gpuprof/internal/gate/a.go       workloads/e3nn
deny  cmd/gpuprof/internal/doctor/a.go     probes/nvml
deny  cmd/gpuprof/internal/doctor/a.go     workloads/device/cuda
deny  cmd/gpuprof/internal/input/a.go      cmd/gpuprof/internal/judge
deny  cmd/gpuprof/internal/cli/a.go        cmd/gpuprof/internal/input
deny  internal/unheardof/a.go            .
deny  internal/unheardof/a.go            internal/stats
deny  workloads/unheardof/a.go           workloads/op
deny  report/unheardof/a.go              .
deny  cmd/other/a.go                     workloads/measure
'

cp .golangci.yml "$scratch/"
cd "$scratch"
cat >go.mod <<EOF
module $module

go $(go env GOVERSION | sed -E 's/^go([0-9]+\.[0-9]+).*/\1/')

require example.com/thirdparty v0.0.0

replace example.com/thirdparty => ./third-party
EOF
mkdir third-party
printf 'module example.com/thirdparty\n' >third-party/go.mod
printf 'package thirdparty\n' >third-party/thirdparty.go
printf 'package gpuprof\n' >gpuprof.go

# One file for each case, its number in the name, so that a report points at its case.
number=0
while read -r verdict file target; do
  [ -n "$verdict" ] || continue
  number=$((number + 1))
  dir=$(dirname "$file")
  name=$(basename "$dir")
  mkdir -p "$dir"
  case $dir in
    .) name=gpuprof ;;
    cmd/gpuprof) name=main ;;
  esac
  case $target in
    .) path=$module ;;
    third-party) path=example.com/thirdparty ;;
    *)
      path=$module/$target/leaf
      mkdir -p "$target/leaf"
      printf 'package leaf\n' >"$target/leaf/leaf.go"
      ;;
  esac
  case $file in
    # wire.go is a rule by file name: its cases share the one file.
    */wire.go)
      [ -f "$file" ] || printf 'package main\n' >"$file"
      printf 'import _ "%s"\n' "$path" >>"$file"
      planted=$file
      ;;
    *_test.go)
      planted=$dir/case${number}_test.go
      printf 'package %s_test\n\nimport _ "%s"\n' "$name" "$path" >"$planted"
      ;;
    *)
      planted=$dir/case${number}.go
      printf 'package %s\n\nimport _ "%s"\n' "$name" "$path" >"$planted"
      ;;
  esac
  planted=${planted#./}
  echo "$verdict $planted $path"
done <<<"$cases" >planted.txt

[ -f cmd/gpuprof/main.go ] || printf 'package main\n\nfunc main() {}\n' >cmd/gpuprof/main.go

# The linter exits 1 on findings; anything else is its own failure.
status=0
"$linter" run --enable-only depguard --max-issues-per-linter 0 --max-same-issues 0 \
  --output.text.path found.txt --output.text.print-issued-lines=false --output.text.colors=false \
  --show-stats=false ./... >/dev/null 2>errors.txt || status=$?
if [ "$status" -gt 1 ]; then
  cat errors.txt >&2
  echo "importrule: golangci-lint failed with exit code $status" >&2
  exit 1
fi

wrong=0
while read -r verdict file path; do
  if grep -qF "import '$path' is not allowed" <(grep -F "$file:" found.txt); then got=deny; else got=allow; fi
  if [ "$got" != "$verdict" ]; then
    echo "importrule: $file importing $path: want $verdict, got $got" >&2
    wrong=$((wrong + 1))
  fi
done <planted.txt

total=$(wc -l <planted.txt)
if [ "$wrong" -gt 0 ]; then
  echo "importrule: $wrong of $total planted imports judged wrongly" >&2
  exit 1
fi
echo "importrule: $total planted imports, all judged as written"
