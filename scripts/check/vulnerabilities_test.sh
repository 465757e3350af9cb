#!/usr/bin/env bash
# Shows that the vulnerability check fails on what is called, passes what is only
# linked, and passes with a sentence where there is no database: with a made-up
# database and a made-up program.
#
#   vulnerabilities_test.sh GOVULNCHECK
set -euo pipefail
checker=$(realpath "$1")
check=$(realpath "$(dirname "${BASH_SOURCE[0]}")/vulnerabilities.sh")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# database NAME SYMBOL: one vulnerability, of a symbol of net/url in every version of Go.
database() {
  local db=$scratch/$1
  mkdir -p "$db/index" "$db/ID"
  echo '{"modified":"2024-01-01T00:00:00Z"}' >"$db/index/db.json"
  echo '[{"path":"stdlib","vulns":[{"id":"GO-2024-9999","modified":"2024-01-01T00:00:00Z"}]}]' >"$db/index/modules.json"
  echo '[{"id":"GO-2024-9999","modified":"2024-01-01T00:00:00Z"}]' >"$db/index/vulns.json"
  cat >"$db/ID/GO-2024-9999.json" <<END
{"schema_version":"1.3.1","id":"GO-2024-9999","modified":"2024-01-01T00:00:00Z","published":"2024-01-01T00:00:00Z",
 "summary":"made up","details":"Made up.","database_specific":{"url":"https://pkg.go.dev/vuln/GO-2024-9999"},"affected":[{"package":{"name":"stdlib","ecosystem":"Go"},
 "ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
 "ecosystem_specific":{"imports":[{"path":"net/url","symbols":["$2"]}]}}]}
END
}

# expect CODE TEXT DATABASE: what the check must end with and say.
expect() {
  local got=0
  GOVULNDB=$3 PAUSE=0 "$check" "$checker" . >"$scratch/said" 2>&1 || got=$?
  if [ "$got" -ne "$1" ] || ! grep -q "$2" "$scratch/said"; then
    cat "$scratch/said" >&2
    echo "vulnerabilities test: exit code $got with database $3; want $1 and '$2'" >&2
    exit 1
  fi
}

database called Parse
database linked QueryEscape
mkdir "$scratch/program"
cd "$scratch/program"
printf 'module example.com/program\n\ngo 1.24\n' >go.mod
cat >main.go <<'END'
package main

import "net/url"

func main() {
	u, err := url.Parse("x")
	println(u, err)
}
END
expect 1 'code that gpuprof calls is affected' "file://$scratch/called"
expect 0 'none that is called' "file://$scratch/linked"
expect 0 'NOT CHECKED: the database file:///no/such/database cannot be reached' file:///no/such/database
expect 0 'NOT CHECKED' http://127.0.0.1:9
printf 'package main\n\nfunc main() { nothing() }\n' >main.go
expect 1 'the check itself failed three times' "file://$scratch/linked"
echo 'vulnerabilities test: passed'
