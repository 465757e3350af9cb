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
# folder, so that no planted pair makes an import cycle; with $ the folder itself.
cases='
deny  vocabulary.go                          third-party
deny  vocabulary.go                          internal/stats
allow vocabulary.go                          internal/loadtest$
allow vocabulary_test.go                     third-party
deny  vocabulary_test.go                     internal/stats
deny  internal/trace/rules/a.go              workloads
deny  internal/trace/rules/a.go              workloads/device/host
deny  internal/trace/rules/a_test.go         workloads/e3nn
deny  internal/compare/a_test.go             workloads/measure
deny  internal/record/a.go                   probes/nvml
deny  report/page/a.go                       workloads
deny  report/page/a_test.go                  workloads/device/host
deny  report/html/a.go                       probes/machine
deny  internal/fleet/a.go                    cmd/other
allow internal/trace/rules/a.go              internal/trace/analyze$
allow internal/trace/rules/a.go              internal/trace/model
deny  internal/trace/rules/a.go              internal/trace/read/kineto
deny  internal/trace/analyze/a.go            internal/trace/rules
deny  internal/trace/model/a.go              internal/trace/analyze$
deny  internal/trace/read/kineto/a.go        internal/trace/rules
allow internal/trace/read/kineto/a.go        internal/trace/model
deny  internal/outside/a.go                  internal/document
allow internal/document/a.go                 internal/outside
deny  internal/cgroup/a.go                   .
deny  internal/bucket/a.go                   internal/document
deny  internal/memsnap/a.go                  internal/compare$
allow internal/memsnap/a.go                  internal/pool
deny  internal/latency/a.go                  internal/compare$
deny  internal/tune/a.go                     internal/compare$
deny  internal/trace/rules/a.go              internal/testkit/tracetest
allow internal/trace/rules/a_test.go         internal/testkit/tracetest
deny  report/table/a.go                      internal/testkit/fixture
allow report/table/a_test.go                 internal/testkit/fixture
allow report/html/a.go                       report/page
deny  report/html/a.go                       report/table
deny  report/figure/a.go                     report/page
allow report/page/a.go                       report/figure
deny  report/pprof/a.go                      report/figure
allow workloads/device/a.go                  .
deny  workloads/device/a.go                  workloads/device/host
deny  workloads/device/cuda/a.go             workloads/device/host
allow workloads/device/cuda/a.go             internal/dynlib
allow workloads/a.go                         workloads/device$
deny  workloads/a.go                         workloads/e3nn
deny  workloads/e3nn/a.go                    workloads/gruflow
deny  workloads/e3nn/a.go                    workloads/device/host
deny  workloads/e3nn/a.go                    workloads/measure
deny  workloads/e3nn/a.go                    report/table
allow workloads/e3nn/a_test.go               workloads/device/host
deny  workloads/e3nn/a_test.go               report/table
deny  workloads/gridsim/a.go                 workloads/testkit/workloadtest
allow workloads/gridsim/a_test.go            workloads/testkit/workloadtest
deny  workloads/measure/a.go                 workloads/e3nn
allow workloads/measure/a.go                 probes/events
deny  workloads/search/a.go                  workloads/e3nn
allow workloads/search/a.go                  internal/tune$
deny  workloads/advise/a.go                  workloads/collate
deny  workloads/op/a.go                      workloads/structure
deny  workloads/so3/a.go                     workloads/op$
allow workloads/so3/a.go                     third-party
deny  probes/nvml/a.go                       workloads/e3nn
deny  probes/events/a.go                     probes/machine
allow cmd/gpuprof/wire.go                    workloads/device/host
allow cmd/gpuprof/wire.go                    workloads/e3nn
allow cmd/gpuprof/wire.go                    probes/nvml
deny  cmd/gpuprof/wire.go                    workloads/testkit/devicetest
deny  cmd/gpuprof/verb.go                    workloads/device/host
deny  cmd/gpuprof/verb.go                    workloads/e3nn
deny  cmd/gpuprof/verb.go                    probes/events
deny  cmd/gpuprof/verb.go                    report/html
allow cmd/gpuprof/verb_test.go               workloads/device/host
deny  cmd/gpuprof/internal/gate/a.go         workloads/e3nn
deny  cmd/gpuprof/internal/gate/a.go         workloads/device/cuda
deny  cmd/gpuprof/internal/gate/a.go         report/html
deny  cmd/gpuprof/internal/gate/a.go         cmd/gpuprof/internal/bisect
allow cmd/gpuprof/internal/gate/a.go         cmd/gpuprof/internal/judge
deny  cmd/gpuprof/internal/cli/a.go          cmd/gpuprof/internal/judge
deny  cmd/gpuprof/internal/gate/a.go         cmd/gpuprof/internal/testkit
deny  internal/unheardof/a.go                .
deny  workloads/unheardof/a.go               workloads/op$
deny  report/unheardof/a.go                  .
deny  cmd/other/a.go                         workloads/measure
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
    *\$) # this package alone
      path=$module/${target%$}
      mkdir -p "${target%$}"
      printf 'package %s\n' "$(basename "${target%$}")" >"${target%$}/leaf.go"
      ;;
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
