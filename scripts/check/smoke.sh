#!/usr/bin/env bash
# Builds the binary into a scratch folder and does there what the README promises
# of a fresh machine: run the main job, leave a report, check, export. Every verb
# has to succeed and to leave what it says it leaves. Needs python3 to read JSON.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bin=$scratch/bin/gpuprof

make --no-print-directory build BIN="$bin" VERSION=v0.0.0-smoke
mkdir "$scratch/work"
cd "$scratch/work"

fail() {
  echo "smoke: $*" >&2
  exit 1
}

# verb ARGS: runs gpuprof with a cache of its own, so that nothing from an earlier
# build answers for this one (Go's cache stays where it is).
verb() {
  echo "--> gpuprof $*" >&2
  XDG_CACHE_HOME=$scratch/cache "$bin" "$@" </dev/null
}

# refused CODE ARGS: the verb must exit with CODE and say why on stderr.
refused() {
  local want=$1 got=0
  shift
  verb "$@" >/dev/null 2>refusal.txt || got=$?
  [ "$got" -eq "$want" ] || fail "gpuprof $*: exit code $got, want $want: $(cat refusal.txt)"
  grep -qv '^--> ' refusal.txt || fail "gpuprof $*: exit code $want without a word why"
}

verb version >version.txt
grep -q 'v0\.0\.0-smoke' version.txt || fail "version does not print the version it was built with: $(cat version.txt)"

started=$SECONDS
verb run e3nn -o run.json -o report.html -o profile.pb.gz >table.txt
echo "    run e3nn: $((SECONDS - started)) s"
cat table.txt

python3 - run.json report.html <<'EOF'
import json, re, sys

run = json.load(open(sys.argv[1]))
assert run["schema_version"].split(".")[0] == "1", run["schema_version"]
assert run["status"] == "complete", f"status is {run['status']}"
assert run["workload"] == "e3nn", run["workload"]
assert run["checks"], "no check was made"
failed = [c for c in run["checks"] if not c["pass"]]
assert not failed, f"failed checks: {failed}"
samples = [x for runs in run["step"]["runs"] for x in runs]
assert len(samples) >= 10, f"{len(samples)} samples"
assert all(x > 0 for x in samples), "a step took no time"
assert run["stages"], "no stages"

html = open(sys.argv[2], encoding="utf-8").read()
assert "</html>" in html, "report.html is cut short"
# Self-contained: nothing is loaded from elsewhere (namespaces and links a reader clicks are fine).
loads = re.findall(r"""<(?:script|img|link|iframe)[^>]+(?:src|href)\s*=\s*["']?(?!data:|#)[^"'> ]+""", html)
loads += re.findall(r"""@import|url\(\s*["']?https?:""", html)
assert not loads, f"report.html loads from outside: {loads}"
EOF

[ "$(go tool pprof -top profile.pb.gz 2>/dev/null | wc -l)" -gt 5 ] || fail 'go tool pprof -top shows nothing of profile.pb.gz'

verb report run.json -o again.html
[ -s again.html ] || fail 'report left no again.html'

verb explain schema run >schema.json
python3 -c 'import json,sys; s = json.load(open(sys.argv[1])); assert "schema_version" in s["$defs"]["run"]["properties"]' schema.json ||
  fail 'explain schema run does not print a JSON schema of run.json'

verb run --check e3nn
verb explain list >/dev/null
verb doctor >/dev/null

refused 2 run no-such-workload
refused 2 run e3nn --set no-such-knob=1
refused 2 run e3nn -o no-such-folder/run.json
refused 2 report no-such-file.json -o report2.html
[ ! -e no-such-folder ] && [ ! -e report2.html ] || fail 'a refused verb left something behind'

echo 'smoke: passed'
