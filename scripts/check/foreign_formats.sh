#!/usr/bin/env bash
# Files that the real benchmark programs write here, read by gpuprof compare: their figures, units and runs.
#
#   scripts/check/foreign_formats.sh [GPUPROF]     without one, it is built
#
# Needs python3 with pip, Debian's hyperfine and libbenchmark-dev, a C++ compiler, a JDK and Maven. What is missing is
# installed: with apt-get as root, with pip and Maven into .bin/foreign. A program that cannot be had fails the check.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tools=$PWD/.bin/foreign
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gpuprof=${1:-}
if [ -z "$gpuprof" ]; then
  gpuprof=$work/gpuprof
  go build -o "$gpuprof" ./cmd/gpuprof
fi
gpuprof=$(realpath "$gpuprof")

fail() {
  echo "foreign formats: $*" >&2
  exit 1
}

need() { # need COMMAND PACKAGE…: a command, from Debian's packages where it is missing
  if ! command -v "$1" >/dev/null; then install_packages "${@:2}"; fi
}

install_packages() {
  [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || fail "needs root to install them: apt-get install $*"
  { apt-get update -qq && apt-get install -qq -y --no-install-recommends "$@"; } >"$work/apt.txt" 2>&1 || fail "apt-get install $*: $(tail -1 "$work/apt.txt")"
}

need hyperfine hyperfine
need g++ g++
need javac openjdk-17-jdk-headless
need mvn maven
echo '#include <benchmark/benchmark.h>' | g++ -fsyntax-only -x c++ - 2>/dev/null || install_packages libbenchmark-dev

# Python's: pinned, in an environment of their own.
packages=(pytest==9.2.0 pytest-benchmark==5.3.1 asv==0.6.6)
if [ "$(cat "$tools/python.txt" 2>/dev/null)" != "${packages[*]}" ]; then
  mkdir -p "$tools"
  python3 -m venv --clear "$tools/python"
  "$tools/python/bin/python" -m pip install -q --retries 5 "${packages[@]}" virtualenv
  echo "${packages[*]}" >"$tools/python.txt"
fi
python=$tools/python/bin

# JMH: Maven resolves it and its annotation processor.
jmh=1.37
if [ ! -e "$tools/jmh-$jmh/done" ]; then
  mkdir -p "$tools/jmh-$jmh"
  cat >"$tools/jmh-$jmh/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>sums</artifactId><version>1</version>
<dependencies><dependency><groupId>org.openjdk.jmh</groupId><artifactId>jmh-core</artifactId><version>$jmh</version></dependency>
<dependency><groupId>org.openjdk.jmh</groupId><artifactId>jmh-generator-annprocess</artifactId><version>$jmh</version></dependency></dependencies></project>
POM
  mvn -q -B -f "$tools/jmh-$jmh/pom.xml" dependency:copy-dependencies -DoutputDirectory="$tools/jmh-$jmh/lib" >"$work/mvn.txt" 2>&1 || fail "Maven: $(tail -3 "$work/mvn.txt")"
  touch "$tools/jmh-$jmh/done"
fi

# reads FILE FORMAT 'NAME|UNIT|RUNS|HIGHER|VERDICT'…: the file on both sides; each metric as given. RUNS is a number or any.
reads() {
  local file=$1 format=$2
  shift 2
  "$gpuprof" compare "$file" "$file" --format json >"$work/compared.json" 2>"$work/compared.err" || [ $? -le 3 ] || fail "$file: $(cat "$work/compared.err")"
  "$python/python" - "$work/compared.json" "$format" "$@" <<'PYTHON' || fail "$format: see above"
import json
import sys

document, format, *wants = sys.argv[1:]
document = json.load(open(document))
metrics = {m["name"]: m for m in document["metrics"]}
wrong = []
for want in wants:
    name, unit, runs, higher, verdict = want.split("|")
    m = metrics.get(name)
    if m is None:
        wrong.append(f"no metric {name}; there are {sorted(metrics)}")
        continue
    got = (m["unit"], str(m["runs"][0]), str(m.get("higher_is_better", False)).lower(), "explains" if m["verdict"] == "explains" else "judged")
    for field, w, g in zip(("unit", "runs", "higher", "verdict"), (unit, runs, higher, verdict), got):
        if w != "any" and w != g:
            wrong.append(f"{name}: {field} is {g}, want {w}")
    if not m["old"] > 0:
        wrong.append(f"{name}: its value is {m['old']}")
for line in wrong:
    print(f"foreign formats: {format}: {line}", file=sys.stderr)
if wrong:
    sys.exit(1)
print(f"    {format}: {len(metrics)} metrics, {len(wants)} of them compared field by field")
PYTHON
}

echo "--> hyperfine $(hyperfine --version | cut -d' ' -f2)"
hyperfine -N --runs 6 --export-json "$work/hyperfine.json" 'sleep 0.002' >/dev/null 2>&1
reads "$work/hyperfine.json" hyperfine 'sleep 0.002|s|6|false|judged'

echo '--> Google Benchmark of Debian'
cat >"$work/bench.cc" <<'CPP'
#include <benchmark/benchmark.h>
static void BM_Sum(benchmark::State& state) {
  for (auto _ : state) {
    int sum = 0;
    for (int i = 0; i < state.range(0); i++) benchmark::DoNotOptimize(sum += i);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Sum)->Arg(1000);
BENCHMARK_MAIN();
CPP
g++ -O1 -o "$work/bench" "$work/bench.cc" -lbenchmark -lpthread
"$work/bench" --benchmark_repetitions=3 --benchmark_min_time=0.01 --benchmark_out="$work/google.json" --benchmark_out_format=json >/dev/null 2>&1
reads "$work/google.json" google-benchmark 'BM_Sum/1000|s|1|false|judged' 'BM_Sum/1000:items_per_second|items/s|1|true|judged'

echo "--> pytest-benchmark $("$python/python" -c 'import importlib.metadata as m; print(m.version("pytest-benchmark"))')"
printf 'def test_sum(benchmark):\n    assert benchmark(sum, range(1000)) == 499500\n' >"$work/test_sum.py"
(cd "$work" && "$python/python" -m pytest -q -p no:cacheprovider --benchmark-json "$work/pytest.json" --benchmark-max-time 0.1 test_sum.py >"$work/pytest.txt" 2>&1) || fail "pytest: $(tail -5 "$work/pytest.txt")"
reads "$work/pytest.json" pytest-benchmark 'test_sum.py::test_sum|s|1|false|judged'

echo "--> asv $("$python/python" -c 'import importlib.metadata as m; print(m.version("asv"))')"
mkdir -p "$work/asv/benchmarks"
cat >"$work/asv/benchmarks/bench.py" <<'PYTHON'
class Sort:
    params = ([100, 1000], ["up", "down"])
    param_names = ["n", "order"]

    def setup(self, n, order):
        if n == 1000 and order == "down":
            raise NotImplementedError  # left out: NaN in the file
        self.values = list(range(n, 0, -1))

    def time_sort(self, n, order):
        sorted(self.values)


def mem_list():
    return [0] * 256


def peakmem_list():
    return [0] * 100000


def track_digits():
    return 6.5
PYTHON
touch "$work/asv/benchmarks/__init__.py"
echo '{"version": 1, "project": "sums", "repo": ".", "branches": ["main"], "environment_type": "existing", "benchmark_dir": "benchmarks", "results_dir": "results"}' >"$work/asv/asv.conf.json"
(
  cd "$work/asv"
  export HOME=$work PATH=$python:$PATH
  git init -q -b main . && git add . && git -c user.name=t -c user.email=t@example.invalid commit -q -m one
  asv machine --yes && asv run --environment existing:python --set-commit-hash "$(git rev-parse HEAD)" --record-samples
) >"$work/asv.txt" 2>&1 || fail "asv: $(tail -5 "$work/asv.txt")"
result=$(find "$work/asv/results" -name '*-existing-*.json')
[ -f "$result" ] || fail "asv wrote no result: $(tail -5 "$work/asv.txt")"
reads "$result" asv 'bench.Sort.time_sort(100, up)|s|1|false|judged' 'bench.Sort.time_sort(1000, up)|s|1|false|judged' \
  'bench.mem_list|B|1|false|judged' 'bench.peakmem_list|B|1|false|judged' 'bench.track_digits||1|false|explains'
grep -q 'time_sort(1000, down) was skipped' "$work/compared.json" || fail 'asv: the combination that was left out is not named'

echo "--> JMH $jmh"
mkdir -p "$work/jmh/classes"
cat >"$work/jmh/Sums.java" <<'JAVA'
package org.example;

import org.openjdk.jmh.annotations.*;
import java.util.concurrent.TimeUnit;

@State(Scope.Thread)
public class Sums {
    @Param({"10", "100"}) public int n;

    @Benchmark @BenchmarkMode({Mode.AverageTime, Mode.Throughput, Mode.SampleTime, Mode.SingleShotTime}) @OutputTimeUnit(TimeUnit.MICROSECONDS)
    public long sum() { long s = 0; for (int i = 0; i < n; i++) s += i ^ n; return s; }
}
JAVA
libraries=$(printf '%s:' "$tools/jmh-$jmh/lib/"*.jar) # javac takes no * for processors
javac -cp "$libraries" -processorpath "$libraries" -d "$work/jmh/classes" "$work/jmh/Sums.java" >"$work/javac.txt" 2>&1 || fail "javac: $(tail -3 "$work/javac.txt")"
java -cp "$libraries$work/jmh/classes" org.openjdk.jmh.Main -f 2 -wi 1 -i 2 -w 100ms -r 100ms -prof gc -rf json -rff "$work/jmh.json" >"$work/jmh.txt" 2>&1 || fail "JMH: $(tail -5 "$work/jmh.txt")"
reads "$work/jmh.json" jmh 'org.example.Sums.sum[n=10]:avgt|s|2|false|judged' 'org.example.Sums.sum[n=100]:thrpt|ops/s|2|true|judged' \
  'org.example.Sums.sum[n=10]:sample|s|2|false|judged' 'org.example.Sums.sum[n=100]:ss|s|2|false|judged'
grep -q 'gc.alloc.rate' "$work/compared.json" || fail 'JMH: what the profiler counted is missing'
echo 'foreign formats: passed'
