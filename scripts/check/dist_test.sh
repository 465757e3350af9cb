#!/usr/bin/env bash
# Installs what `make dist` writes for this machine into clean roots and does the main job there.
#
#   scripts/check/dist_test.sh [FOLDER]     a finished dist folder; without one, the host's artefacts are made
#
# Needs Go, python3 with pip, dpkg, advancecomp and groff; root or user namespaces for the clean roots.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
repository=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "dist: $*" >&2
  exit 1
}

for tool in groff col dpkg dpkg-deb advzip; do
  PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null || fail "$tool is not installed; apt-get install groff-base bsdextrautils dpkg advancecomp"
done

arch=$(go env GOARCH)
dist=${1:-}
if [ -z "$dist" ]; then
  dist=$scratch/dist
  python3 scripts/dist/dist.py --out "$dist" --targets "linux-$arch linux-$arch-static"
fi
dist=$(cd "$dist" && pwd)
(cd "$dist" && sha256sum --quiet -c SHA256SUMS) || fail 'SHA256SUMS does not fit the files'

one() { # one PATTERN: the only file of that name
  local found
  found=$(find "$dist" -maxdepth 1 -name "$1")
  [ "$(wc -l <<<"$found")" -eq 1 ] && [ -n "$found" ] || fail "$1 is not one file: $found"
  echo "$found"
}

# in_root ROOT COMMAND…: the command with ROOT as the whole file system and no environment.
in_root() {
  local enter=("$(PATH=$PATH:/usr/sbin:/sbin command -v chroot)")
  if [ "$(id -u)" -ne 0 ]; then enter=("$(command -v unshare)" --map-root-user "${enter[@]}"); fi
  env -i "${enter[@]}" "$@"
}

# A container without user namespaces allows no clean root, which is nobody's fault there.
if ! in_root / /bin/true 2>"$scratch/chroot.txt"; then
  echo "dist: NOT CHECKED: this machine allows no chroot, neither as root nor in a user namespace ($(head -1 "$scratch/chroot.txt")): the artefacts were made and nothing was installed" >&2
  exit 0
fi

# job COMMAND…: what every installed gpuprof has to do, in /data of its root or here.
job() {
  "$@" version >"$scratch/version.txt"
  grep -q '^gpuprof ' "$scratch/version.txt" || fail "$*: version printed $(cat "$scratch/version.txt")"
  "$@" doctor >"$scratch/doctor.txt"
  grep -q '^device host ' "$scratch/doctor.txt" || fail "$*: doctor printed $(cat "$scratch/doctor.txt")"
  "$@" run e3nn --device host --preset small --samples 3 --warmup 1 --no-energy --format json -o run.json --force >"$scratch/run.json"
  python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); assert r["status"] == "complete", r["status"]' "$scratch/run.json" ||
    fail "$*: run e3nn did not complete"
  "$@" analyze trace.json >"$scratch/analysis.txt"
  grep -q 'item' "$scratch/analysis.txt" || fail "$*: analyze printed $(cat "$scratch/analysis.txt")"
}

# program COMMAND: gpuprof run of a program, whose exit code must come through.
program() {
  local got=0
  rm -rf profile
  printf 'import sys\nprint(sum(range(1000)))\nsys.exit(3)\n' >program.py
  "$@" run --no-color -o profile -- python3 program.py >"$scratch/program.txt" 2>"$scratch/program.err" || got=$?
  [ "$got" -eq 3 ] && grep -qx 499500 "$scratch/program.txt" || fail "$*: run -- python3 ended with $got: $(cat "$scratch/program.err")"
}

# root FOLDER [dynamic PROGRAM]: a folder to work in; for a dynamic program the C library's files too.
root() {
  mkdir -p "$1/data" "$1/tmp"
  cp "$repository/testdata/traces/item-fires.json" "$1/data/trace.json"
  if [ "${2:-}" = dynamic ]; then
    local library
    for library in $(ldd "$3" | grep -o '/[^ ]*'); do
      mkdir -p "$1$(dirname "$library")"
      cp -L "$library" "$1$library"
    done
  fi
}

echo '--> the same bytes when packed again, elsewhere'
python3 scripts/dist/dist.py --out "$scratch/again" --targets "linux-$arch-static" >/dev/null
while read -r sum file; do
  grep -q "^$sum  $file\$" "$dist/SHA256SUMS" || fail "$file differs when it is made again"
done < <(grep -v Containerfile "$scratch/again/SHA256SUMS")

echo '--> archive of the dynamic build, empty environment'
mkdir "$scratch/archive"
tar -xzf "$(one "gpuprof_*_linux_$arch.tar.gz")" -C "$scratch/archive" --strip-components 1
for part in LICENSE THIRD_PARTY_NOTICES.md man/gpuprof.1 completion/gpuprof.{bash,zsh,fish}; do
  [ -s "$scratch/archive/$part" ] || fail "the archive lacks $part"
done
root "$scratch/here"
(cd "$scratch/here/data" && job env -i "$scratch/archive/gpuprof" && program env -i PATH="$PATH" "$scratch/archive/gpuprof")

echo '--> manual page and completion'
groff -man -Tutf8 -ww "$scratch/archive/man/gpuprof.1" >"$scratch/man.txt" 2>"$scratch/man.err"
[ ! -s "$scratch/man.err" ] || fail "the manual page: $(cat "$scratch/man.err")"
for word in NAME SYNOPSIS VERBS 'max-time' 'gpuprof analyze'; do
  grep -aq "$word" <(col -b <"$scratch/man.txt") || fail "the manual page lacks $word"
done
bash -c 'source "$1" && complete -p gpuprof' - "$scratch/archive/completion/gpuprof.bash" >/dev/null || fail 'completion does not load in bash'
for shell in zsh fish; do
  if command -v "$shell" >/dev/null; then
    "$shell" -n "$scratch/archive/completion/gpuprof.$shell" || fail "completion does not load in $shell"
  fi
done

echo '--> archive of the static build, a root with nothing else in it'
mkdir -p "$scratch/static/data"
tar -xzf "$(one "gpuprof_*_linux_${arch}_static.tar.gz")" -C "$scratch/static" --strip-components 1
cp testdata/traces/item-fires.json "$scratch/static/trace.json"
job in_root "$scratch/static" /gpuprof
grep -q 'static build' "$scratch/doctor.txt" || fail 'doctor of the static build does not say that it is one'

echo '--> Debian package, installed by dpkg into an empty root'
package=$(one "gpuprof_*_$arch.deb")
admin=$scratch/deb/var/lib/dpkg
mkdir -p "$admin/"{info,updates} && touch "$admin/"{status,available}
installer=()
if [ "$(id -u)" -ne 0 ]; then installer=(unshare --map-root-user); fi
PATH=$PATH:/usr/sbin:/sbin "${installer[@]}" dpkg --root="$scratch/deb" --force-depends --log=/dev/null -i "$package" >/dev/null 2>"$scratch/dpkg.err" || fail "dpkg: $(cat "$scratch/dpkg.err")"
root "$scratch/deb" dynamic "$scratch/deb/usr/bin/gpuprof"
cp "$scratch/deb/data/trace.json" "$scratch/deb/trace.json"
job in_root "$scratch/deb" /usr/bin/gpuprof
gzip -dc "$scratch/deb/usr/share/man/man1/gpuprof.1.gz" | cmp - "$scratch/archive/man/gpuprof.1" || fail 'the package has another manual page than the archive'
PATH=$PATH:/usr/sbin:/sbin "${installer[@]}" dpkg --root="$scratch/deb" --log=/dev/null -r gpuprof >/dev/null
[ ! -e "$scratch/deb/usr/bin/gpuprof" ] || fail 'the package leaves its program behind'

echo '--> Debian repository, installed by apt into an empty root'
if command -v dpkg-scanpackages >/dev/null && command -v apt-get >/dev/null; then
  # apt knows this repository alone; its package is unpacked beside the C library's own files.
  mkdir -p "$scratch/apt/"{lists/partial,archives/partial,etc}
  echo "deb [trusted=yes] file:$dist ./" >"$scratch/apt/etc/sources.list"
  : >"$scratch/apt/status"
  apt=(-o Dir::State="$scratch/apt" -o Dir::State::lists="$scratch/apt/lists" -o Dir::State::status="$scratch/apt/status" -o Dir::Cache="$scratch/apt"
    -o Dir::Etc::sourcelist="$scratch/apt/etc/sources.list" -o Dir::Etc::sourceparts=- -o Dir::Etc::preferencesparts=- -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none)
  apt-get "${apt[@]}" -qq update >"$scratch/apt.txt" 2>&1 || fail "apt-get update of the repository: $(tail -2 "$scratch/apt.txt")"
  (cd "$scratch/apt" && apt-get "${apt[@]}" -qq download gpuprof >"$scratch/apt.txt" 2>&1) || fail "apt-get download from the repository: $(tail -2 "$scratch/apt.txt")"
  dpkg-deb -x "$scratch/apt/"gpuprof_*.deb "$scratch/fromapt"
  cmp "$scratch/fromapt/usr/bin/gpuprof" "$scratch/archive/gpuprof" || fail 'the repository has another program than the archive'
else
  echo 'dist: NOT CHECKED: dpkg-scanpackages or apt-get is missing, so the Debian repository was not made' >&2
fi

echo '--> Homebrew formula and conda recipe'
for file in gpuprof.rb recipe.yaml; do
  [ -s "$dist/$file" ] || fail "$file is missing"
  sum=$(sha256sum "$(one "gpuprof_*_linux_$arch.tar.gz")" | cut -d' ' -f1)
  grep -q "$sum" "$dist/$file" || fail "$file has another checksum than the archive"
done
if command -v ruby >/dev/null; then ruby -c "$dist/gpuprof.rb" >/dev/null || fail 'the formula is no Ruby'; else echo 'dist: NOT CHECKED: ruby is missing, so the syntax of the formula was not checked' >&2; fi
# rattler-build's own parser renders the recipe for this machine. brew style needs Homebrew itself, which is not checked.
if python3 -m venv "$scratch/conda" && "$scratch/conda/bin/python" -m pip install -q --disable-pip-version-check py-rattler-build==0.73.0 >"$scratch/conda.txt" 2>&1; then
  "$scratch/conda/bin/python" -c '
import pathlib, sys
import rattler_build as rb
made = rb.Stage0Recipe.from_yaml(pathlib.Path(sys.argv[1]).read_text()).render(rb.VariantConfig(), rb.RenderConfig())
assert len(made) == 1, made' "$dist/recipe.yaml" || fail 'rattler-build refuses the recipe'
else
  echo "dist: NOT CHECKED: pip has no py-rattler-build, so the conda recipe was not rendered ($(tail -n1 "$scratch/conda.txt"))" >&2
fi

echo '--> wheel, installed by pip into a fresh environment'
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install -q --no-index --disable-pip-version-check --find-links "$dist" gpuprof-cli ||
  fail 'pip did not install the wheel'
cmp "$scratch/venv/share/man/man1/gpuprof.1" "$scratch/archive/man/gpuprof.1" || fail 'the wheel has another manual page than the archive'
cmp "$scratch/venv/share/bash-completion/completions/gpuprof" "$scratch/archive/completion/gpuprof.bash" || fail 'the wheel lacks the completion for bash'
(cd "$scratch/here/data" && job env -i "$scratch/venv/bin/gpuprof" && program env PATH="$scratch/venv/bin:$PATH" gpuprof)
cmp "$scratch/venv/bin/gpuprof-cli" "$scratch/archive/gpuprof" || fail 'the wheel has another program than the archive'
ln -s "$scratch/venv/bin/gpuprof" "$scratch/link"
for command in "$scratch/venv/bin/gpuprof-cli" "$scratch/link"; do
  env -i "$command" version | grep -q '^gpuprof ' || fail "$command does not start the program"
done
PATH=$scratch/venv/bin:$PATH gpuprof doctor -v | grep -A2 '^command' | grep -q 'which starts this program' || fail 'doctor does not know the command of the wheel'

echo '--> Python package of the wheel'
(cd "$scratch/here/data" && env -i PATH="$PATH" "$scratch/venv/bin/python" -c '
import gpuprof, os, sys
from gpuprof import _binary
assert _binary.find() == sys.argv[1], _binary.find()
a = gpuprof.analyze("trace.json")
assert [f.id for f in a.findings] == ["item"] and "item" in str(a) and a.findings[0].title.split(" ")[0] in a._repr_html_(), a.json
assert gpuprof.compare(a, a).verdict in ("pass", "inconclusive")
a.save("page.html")
assert os.path.getsize("page.html") > 10000
try:
    gpuprof.analyze("none.json")
except gpuprof.GpuprofError as e:
    assert e.exit_code == 2 and "there is no such file" in str(e), e
' "$scratch/venv/bin/gpuprof-cli") || fail 'the Python package of the wheel does not work'
"$scratch/venv/bin/python" -B "$repository/scripts/dist/python/tests/test_package.py" "$repository/testdata/torchstub" 2>"$scratch/package.txt" ||
  fail "tests of the Python package: $(cat "$scratch/package.txt")"
if "$scratch/venv/bin/python" -m pip install -q --disable-pip-version-check pytest 2>"$scratch/pytest.txt"; then
  "$scratch/venv/bin/python" -B "$repository/scripts/dist/python/tests/test_pytest_plugin.py" 2>"$scratch/plugin.txt" || fail "tests of the pytest plugin: $(cat "$scratch/plugin.txt")"
else
  echo "dist: NOT CHECKED: the pytest plugin, because pip did not install pytest ($(tail -1 "$scratch/pytest.txt"))" >&2
fi
"$scratch/venv/bin/python" -m pip uninstall -q -y gpuprof-cli
[ ! -e "$scratch/venv/bin/gpuprof" ] && [ ! -e "$scratch/venv/bin/gpuprof-cli" ] && [ ! -e "$scratch/venv/share/man/man1/gpuprof.1" ] || fail 'the wheel leaves files behind'

echo '--> roots of the images'
for kind in "$arch-static" "$arch"; do
  cp -a "$dist/image/$kind" "$scratch/image-$kind"
  case $kind in *-static) root "$scratch/image-$kind" ;; *) root "$scratch/image-$kind" dynamic "$dist/image/$kind/usr/bin/gpuprof" ;; esac
  cp "$scratch/image-$kind/data/trace.json" "$scratch/image-$kind/trace.json"
  job in_root "$scratch/image-$kind" /usr/bin/gpuprof
done

echo '--> every artefact: what kind of program it holds'
python3 scripts/dist/kinds.py "$dist"
echo 'dist: passed'
