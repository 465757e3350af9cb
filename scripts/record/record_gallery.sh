#!/usr/bin/env bash
# Records the runs of the host device that docs/gallery.md shows, on this
# machine, into testdata/gallery: under four minutes. Do it on a machine that
# does nothing else, then draw the pictures from them with `make gallery`.
# Usage: scripts/record/record_gallery.sh [FOLDER]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
into=${1:-testdata/gallery}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

make --no-print-directory build BIN="$scratch/gpuprof" >/dev/null
commands=()

# record NAME VERB ARGUMENTS…: keeps NAME.json.gz. Only a finished, valid
# result is kept; -n leaves the time of compression out of the file.
record() {
  local name=$1
  shift
  commands+=("gpuprof $* -o $name.json")
  echo "==> ${commands[-1]}"
  (cd "$scratch" && ./gpuprof "$@" -o "$name.json" >"$name.txt")
  gzip -n -9 "$scratch/$name.json"
}

started=$(date -u +'%Y-%m-%d %H:%M UTC')
record e3nn-csr run e3nn --device host --runs 6 --max-time 3s --set impl=csr
record e3nn-unfused run e3nn --device host --runs 6 --max-time 3s --set impl=unfused
record gridsim run gridsim --device host --max-time 3s --set allocator=pool --set impl=split --set roi=on --set pool_trim=every:100
record gruflow-train run gruflow --device host --min-time 1s --max-time 5s --set pass=train --set window=4
record serving run serving --preset synthetic --device host --min-time 1s --max-time 5s
record tune tune e3nn --device host --knob impl,batch --budget 90s

# What the page says of them must be there to see.
show=("$scratch/gpuprof" --quiet)
"${show[@]}" compare "$scratch/e3nn-csr.json.gz" "$scratch/e3nn-unfused.json.gz" --metric step --format json >"$scratch/verdict" || true
if ! grep -q '"verdict": "regressed"' "$scratch/verdict" || ! "${show[@]}" report "$scratch/tune.json.gz" --plot scaling -o "$scratch/x.png"; then
  echo 'record_gallery: the sides do not differ clearly, or tune measured too little; nothing was kept, record again on a quieter machine' >&2
  exit 1
fi

mkdir -p "$into"
mv "$scratch"/*.json.gz "$into/"
{
  echo '# Recorded runs of the gallery'
  echo
  echo 'Written by `scripts/record/record_gallery.sh`; `docs/gallery.md` is made of them by `make gallery`. Each file also holds'
  echo 'its own device, settings, seed, program version and date.'
  echo
  echo "- recorded: $started"
  echo "- machine: $(awk -F ': *' '/^model name/ { print $2; exit }' /proc/cpuinfo), $(nproc) logical CPUs, $(uname -sr)"
  echo "- program: $("$scratch/gpuprof" version | head -n 1)"
  echo
  echo 'Commands, in this order, each compressed with `gzip -n -9`:'
  echo
  echo '```'
  printf '%s\n' "${commands[@]}"
  echo '```'
  echo
  echo 'What is recorded of commits is described in [commits.md](commits.md).'
} >"$into/README.md"
du -ch "$into"/* | tail -n 1
