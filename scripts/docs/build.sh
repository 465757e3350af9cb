#!/usr/bin/env bash
# Builds the documentation into bin/site with the pinned generator, and fails on a link without a target or on a page
# that would load something from elsewhere. `make docs` runs it. Needs python3 with venv; installs into .bin/docs once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
venv=.bin/docs
stamp=$venv/$(sha256sum scripts/docs/requirements.txt | cut -c1-16)
if [ "${1:-}" = install ] || [ ! -e "$stamp" ]; then
  if [ ! -e "$stamp" ]; then
    python3 -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r scripts/docs/requirements.txt
    touch "$stamp"
  fi
  if [ "${1:-}" = install ]; then exit 0; fi
fi
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --quiet --strict --clean -f scripts/docs/mkdocs.yml
loads=$(grep -rlE '<(script|img|iframe)[^>]* src="?https?:|<link[^>]* href="?https?:[^>]*rel="?stylesheet|<link[^>]*rel="?stylesheet[^>]* href="?https?:' bin/site --include='*.html' || true)
if [ -n "$loads" ]; then
  echo "docs: these pages load something from elsewhere: $loads; name no remote font, script or picture" >&2
  exit 1
fi
echo "docs: $(find bin/site -name '*.html' | wc -l) pages in bin/site; python3 -m http.server -d bin/site shows them"
