#!/usr/bin/env bash
# The two steps of action.yml.
#
#   action.sh install   puts gpuprof into $RUNNER_TEMP: the release's archive by version and SHA-256, else a build
#   action.sh gate      runs the gate, writes the outputs, and keeps the pull request's comment up to date
#
# Inputs come through the environment and go on as --flag=value, so that none of them, whatever a branch is called,
# can add a command or a flag of its own. What cannot be passed on is exit code 2, what cannot be installed 4: 1 says
# that the program became slower.
set -euo pipefail
program=$RUNNER_TEMP/gpuprof
scratch=
trap 'rm -rf "$scratch"' EXIT

refuse() {
  echo "::error::gpuprof gate: $1" >&2
  exit "${2:-2}"
}

output() { # output NAME VALUE: one line
  echo "$1=$2" >>"${GITHUB_OUTPUT:-/dev/null}"
}

# fetch URL FILE: prints the HTTP status, 000 where no server answered.
fetch() {
  curl -sSL --retry 3 --retry-delay "${RETRY_DELAY:-2}" --connect-timeout 20 --max-time 300 -o "$2" -w '%{http_code}' "$1" || true
}

checksum() {
  if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1
}

# target is the release's name of this machine, empty where no archive is made for it.
target() {
  local system arch
  case $(uname -s) in Linux) system=linux ;; Darwin) system=darwin ;; *) return ;; esac
  case $(uname -m) in x86_64 | amd64) arch=amd64 ;; aarch64 | arm64) arch=arm64 ;; *) return ;; esac
  echo "${system}_$arch"
}

from_source() {
  echo "gpuprof gate: building gpuprof from source: $1"
  command -v go >/dev/null || refuse "building gpuprof from source ($1) needs Go; add actions/setup-go before this action, or name a release in the input version" 4
  # The Go that is there stays as it is: it fetches the one that gpuprof needs by itself.
  (cd "$ACTION_PATH" && GOTOOLCHAIN=auto GOFLAGS=-buildvcs=false go build -trimpath -o "$program" ./cmd/gpuprof) ||
    refuse "building gpuprof from source failed; see the lines above" 4
}

install_program() {
  local version=$VERSION where stem status want got
  if [ -z "$version" ] && [[ $ACTION_REF =~ ^v[0-9]+\.[0-9]+\.[0-9]+ ]]; then version=$ACTION_REF; fi
  case $version in
    '' | source) from_source 'no release is named' && return ;;
    *[!A-Za-z0-9._-]*) refuse "the input version is '$version'; give a release such as v1.2.3, or source" ;;
  esac
  stem=$(target)
  [ -n "$stem" ] || { from_source "there is no archive for $(uname -sm)" && return; }
  stem=gpuprof_${version}_$stem
  where=${RELEASES:-${GITHUB_SERVER_URL:-https://github.com}/${ACTION_REPOSITORY:-gpuprof/gpuprof}/releases/download}/$version
  scratch=$(mktemp -d)
  want=$SHA256
  if [ -z "$want" ]; then
    status=$(fetch "$where/SHA256SUMS" "$scratch/sums")
    case $status in
      200) want=$(awk -v name="$stem.tar.gz" '$2 == name { print $1 }' "$scratch/sums") ;;
      404) from_source "there is no release $version at $where" && return ;;
      *) from_source "the release $version could not be fetched (HTTP status $status)" && return ;;
    esac
    [ -n "$want" ] || { from_source "the release $version has no archive $stem.tar.gz" && return; }
  fi
  status=$(fetch "$where/$stem.tar.gz" "$scratch/archive")
  [ "$status" = 200 ] || { from_source "the archive $stem.tar.gz could not be fetched (HTTP status $status)" && return; }
  got=$(checksum "$scratch/archive")
  [ "$got" = "$want" ] || refuse "the archive $stem.tar.gz has the SHA-256 $got, and $want is expected; nothing of it was run. Check the inputs version and sha256, and who can write to the release" 4
  tar -xzf "$scratch/archive" -C "$scratch" "$stem/gpuprof" || refuse "the archive $stem.tar.gz holds no $stem/gpuprof; report it to the project" 4
  mv "$scratch/$stem/gpuprof" "$program"
  echo "gpuprof gate: $stem.tar.gz, SHA-256 $got"
}

words() { # one a line; xargs knows quotes and expands nothing
  if [ -n "${1//[[:space:]]/}" ]; then xargs -n1 printf '%s\n' <<<"$1"; fi
}

# arguments sets args to the command line of the gate.
arguments() {
  local list word
  case $WORKLOAD in -*) refuse "the input workload is '$WORKLOAD', a flag; give a workload's name, and flags in the input arguments" ;; esac
  case $INCONCLUSIVE in neutral | pass | fail) ;; *) refuse "the input inconclusive is '$INCONCLUSIVE'; give neutral, pass or fail" ;; esac
  case $COMMENT in true | false) ;; *) refuse "the input comment is '$COMMENT'; give true or false" ;; esac
  args=(gate "--against=$AGAINST" "--budget=$BUDGET" -o gate.xml -o gate.md -o gate.json -o gate.html --force)
  if [ -n "$THRESHOLD" ]; then args+=("--threshold=$THRESHOLD"); fi
  if [ -n "$BUILD" ]; then args+=("--build=$BUILD"); fi
  if [ -n "$WORKLOAD" ]; then args+=("$WORKLOAD" "--device=$DEVICE"); fi
  list=$(words "$ARGUMENTS") || refuse "the input arguments cannot be split into words; close its quotes"
  while IFS= read -r word; do
    if [ "$word" = -- ]; then refuse "the input arguments holds --; give the command in the input command"; fi
    args+=("$word")
  done < <(printf '%s' "${list:+$list$'\n'}")
  list=$(words "$COMMAND") || refuse "the input command cannot be split into words; close its quotes"
  if [ -n "$list" ]; then
    args+=(--)
    while IFS= read -r word; do args+=("$word"); done <<<"$list"
  fi
}

# verdict and ratio read gate.json, which has a field a line: fields of the whole behind one space, those of a metric
# behind three. What only explains has no part in the ratio.
verdict() { sed -n 's/^ "verdict": "\([a-z ]*\)",$/\1/p' gate.json; }

ratio() {
  awk -F': ' '
    function close_metric() { if (r > 0 && v != "explains") { w = higher ? 1 / r : r; if (w > worst) { worst = w } } r = 0; higher = 0; v = "" }
    /^   "name": / { close_metric() }
    /^   "ratio": / { r = $2 + 0 }
    /^   "verdict": / { v = $2; gsub(/[",]/, "", v) }
    /^   "higher_is_better": true/ { higher = 1 }
    END { close_metric(); if (worst > 0) printf "%.4f\n", worst }' gate.json
}

# vanished lists the benchmarks that the base has and the change lacks.
vanished() {
  awk -F'": "' '
    /^   "name": / { name = $2; sub(/",?$/, "", name) }
    /^   "reason": "the new side does not have this metric"/ { print name }' gate.json
}

# api METHOD PATH [BODY]: prints the answer. The token goes through standard input, which no list of processes shows.
api() {
  printf 'header = "Authorization: Bearer %s"\n' "$TOKEN" | curl -sSf -K - --retry 2 --retry-delay "${RETRY_DELAY:-2}" --max-time 60 -X "$1" \
    -H 'Accept: application/vnd.github+json' -H 'X-GitHub-Api-Version: 2022-11-28' ${3:+-H 'Content-Type: application/json' --data-binary "@$3"} \
    "${GITHUB_API_URL:-https://api.github.com}/repos/$GITHUB_REPOSITORY/$2"
}

# comment writes gate-comment.md and, where that is asked for, the one comment of this job. That the comment cannot be
# written is a warning: the verdict stays.
comment() {
  local key mark page found count id='' method=POST path
  key=$(printf '%s/%s' "${GITHUB_WORKFLOW:-}" "${GITHUB_JOB:-}" | tr -cd 'A-Za-z0-9_./ ')
  mark="<!-- gpuprof gate $key -->"
  { echo "$mark"; if [ -s gate.md ]; then cat gate.md; else echo 'gpuprof gate could not judge this change: see the log of the job.'; fi; } >gate-comment.md
  if [ "$COMMENT" != true ]; then return 0; fi
  if [ -z "$PULL" ]; then
    echo 'gpuprof gate: no comment: this is no pull request'
    return 0
  fi
  if ! command -v python3 >/dev/null; then
    echo '::warning::gpuprof gate: the comment needs python3; its text is in gate-comment.md'
    return 0
  fi
  for ((page = 1; page <= 20; page++)); do
    found=$(api GET "issues/$PULL/comments?per_page=100&page=$page") || { no_comment; return 0; }
    # The count of the page, and the identity of the comment that begins with the mark.
    read -r count id < <(MARK=$mark python3 -c 'import json, os, sys
found = json.load(sys.stdin)
print(len(found), next((c["id"] for c in found if (c["body"] or "").startswith(os.environ["MARK"])), ""))' <<<"$found") || true
    if [ -n "$id" ] || [ "${count:-0}" -lt 100 ]; then break; fi
  done
  path=issues/$PULL/comments
  if [ -n "$id" ]; then method=PATCH path=issues/comments/$id; fi
  python3 -c 'import json, sys; json.dump({"body": open("gate-comment.md", encoding="utf-8").read()}, sys.stdout)' >"$RUNNER_TEMP/comment.json"
  api "$method" "$path" "$RUNNER_TEMP/comment.json" >/dev/null || no_comment
}

no_comment() {
  echo '::warning::gpuprof gate: the comment could not be written; give the job the permission pull-requests: write. Its text is in gate-comment.md'
}

run_gate() {
  local status=0 gone
  arguments
  rm -f gate.json gate.md gate.html gate.xml gate-comment.md
  "$program" "${args[@]}" || status=$?
  if [ -s gate.json ]; then
    output verdict "$(verdict)"
    output ratio "$(ratio)"
    if [ -s gate.html ]; then output report "$PWD/gate.html"; fi
  fi
  comment
  if [ "$status" -eq 3 ] && [ -s gate.json ] && [ "$(verdict)" = inconclusive ]; then
    gone=$(vanished | head -3 | paste -sd, -)
    [ -z "$gone" ] || refuse "the base has benchmarks that this change lacks: $gone. Bring them back, or leave them out on both sides with --metric" 4
    case $INCONCLUSIVE in
      neutral) echo '::notice::gpuprof gate: not decided: the data cannot tell whether this change is slower (gate.md has what would help)' && status=0 ;;
      pass) status=0 ;;
      fail) status=1 ;;
    esac
  fi
  exit "$status"
}

case ${1:-} in
  install) install_program ;;
  gate) run_gate ;;
  *) refuse "the step is '${1:-}'; give install or gate" ;;
esac
