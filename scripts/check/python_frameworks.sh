#!/usr/bin/env bash
# The Python package with the real frameworks, in fresh environments on the CPU: a wheel installed by pip, a notebook that
# papermill executes, Lightning, the Trainer of transformers, Accelerate, and the pytest plugin on an unchanged and on a
# slower project.
#
#   WHEEL=FILE KEEP=FOLDER PYTHON=python3 RUNS=20 PLANTED=6 scripts/check/python_frameworks.sh [wheel|notebook|frameworks|gate]…
#
# WHEEL is one that is there already, ENVIRONMENT a virtual environment to install into in place of fresh ones; KEEP gets the notebook as HTML and, with Chromium, its pictures in light and dark.
# Needs pip and the network. make dist-test has the tests with stand-ins.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
repository=$PWD
python=${PYTHON:-python3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
keep=${KEEP:-$scratch/kept}
mkdir -p "$keep"
keep=$(cd "$keep" && pwd)
parts=("$@")
[ $# -gt 0 ] || parts=(wheel notebook frameworks gate)

fail() {
  echo "python: $*" >&2
  exit 1
}

wheel=${WHEEL:-}
if [ -z "$wheel" ]; then
  python3 scripts/dist/dist.py --out "$scratch/dist" --targets host
  wheel=$(ls "$scratch"/dist/*.whl)
fi
wheel=$(cd "$(dirname "$wheel")" && pwd)/$(basename "$wheel")
# The package of the environment is tested, not one that the shell names.
unset PYTHONPATH GPUPROF_BINARY

# environment NAME PACKAGE…: a fresh one with the wheel.
environment() {
  local name=$1
  shift
  if [ -n "${ENVIRONMENT:-}" ]; then ln -s "$(cd "$ENVIRONMENT" && pwd)" "$scratch/$name"; else "$python" -m venv "$scratch/$name"; fi
  "$scratch/$name/bin/python" -m pip install -q --disable-pip-version-check "$wheel" "$@" || fail "pip did not install $*"
}

part_wheel() {
  environment bare
  (cd "$scratch" && "$scratch/bare/bin/python" -c '
import gpuprof, sys
a = gpuprof.analyze(sys.argv[1])
assert [f.id for f in a.findings] == ["item"], a.findings
assert "item" in str(a) and "gpuprof-doc" in a._repr_html_()
' "$repository/testdata/traces/item-fires.json") || fail 'the installed package does not analyse a trace'
  local command
  for command in gpuprof gpuprof-cli; do
    env -i "$scratch/bare/bin/$command" version | grep -q '^gpuprof ' || fail "$command does not start"
  done
  PATH=$scratch/bare/bin:$PATH gpuprof doctor -v | grep -A2 '^command' | grep -q 'which starts this program' || fail 'doctor does not know the command of the wheel'
  # Another project's package takes the command and the module; the name that is always ours stays.
  mkdir -p "$scratch/foreign/gpuprof"
  printf 'def main(): print("another gpuprof")\n' >"$scratch/foreign/gpuprof/__init__.py"
  printf '[project]\nname = "gpuprof"\nversion = "1"\n[project.scripts]\ngpuprof = "gpuprof:main"\n[tool.setuptools]\npackages = ["gpuprof"]\n' >"$scratch/foreign/pyproject.toml"
  "$scratch/bare/bin/python" -m pip install -q --disable-pip-version-check "$scratch/foreign" || fail 'pip did not install the package of the same name'
  [ "$("$scratch/bare/bin/gpuprof")" = 'another gpuprof' ] || fail 'the package of the same name did not take the command'
  "$scratch/bare/bin/gpuprof-cli" version | grep -q '^gpuprof ' || fail 'gpuprof-cli was lost to the package of the same name'
  PATH=$scratch/bare/bin:$PATH gpuprof-cli doctor | grep -q 'is another project' || fail 'doctor does not name the package of the same name'
  echo 'wheel: pass: installed, imported, both commands; gpuprof-cli outlives a foreign gpuprof'
}

part_notebook() {
  environment notebook torch=="${TORCH_VERSION:-2.9.1}" 'numpy<3' papermill ipykernel nbconvert
  local bin=$scratch/notebook/bin
  (cd "$scratch" && "$bin/python" - <<'EOF'
import nbformat as nb

train = """import torch, gpuprof

class Slow(torch.utils.data.Dataset):
    def __len__(self): return 40
    def __getitem__(self, i):
        total = sum(k * k for k in range(60_000))
        return torch.full((64,), float(i + total % 2))

model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
with gpuprof.profile(skip=3, steps=5) as p:
    for x in torch.utils.data.DataLoader(Slow(), batch_size=2):
        optimizer.zero_grad(); model(x).square().mean().backward(); optimizer.step()
        p.step()"""
book = nb.v4.new_notebook(cells=[
    nb.v4.new_code_cell(train), nb.v4.new_code_cell("p.analysis"), nb.v4.new_code_cell("print(p.analysis)"),
    nb.v4.new_code_cell("gpuprof.compare(p.analysis, p.analysis)")])
nb.write(book, "in.ipynb")
EOF
  "$bin/python" -m ipykernel install --prefix "$scratch/notebook" --name check >/dev/null 2>&1
  PATH=$bin:$PATH "$bin/python" -m papermill -k check --no-progress-bar in.ipynb "$keep/notebook.ipynb" >"$keep/papermill.txt" 2>&1) ||
    fail "papermill: $(tail -20 "$keep/papermill.txt")"
  "$bin/python" - "$keep/notebook.ipynb" <<'EOF'
import json, sys
cells = json.load(open(sys.argv[1]))["cells"]
html = "".join(cells[1]["outputs"][0]["data"]["text/html"])
text = "".join("".join(o.get("text", "")) for o in cells[2]["outputs"])
assert "gpuprof-doc" in html and "dataloader-stall" in html and "<script" not in html, html
assert "dataloader-stall" in text, text
assert "gpuprof-doc" in "".join(cells[3]["outputs"][0]["data"]["text/html"])
EOF
  local theme chromium
  for theme in light dark; do
    "$bin/python" -m nbconvert --to html --HTMLExporter.theme=$theme --output "notebook-$theme.html" --output-dir "$keep" "$keep/notebook.ipynb" >"$keep/nbconvert.txt" 2>&1 ||
      fail "nbconvert: $(tail -5 "$keep/nbconvert.txt")"
    chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
    if [ -n "$chromium" ]; then
      "$chromium" --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1000,1700 --virtual-time-budget=3000 \
        --screenshot="$keep/notebook-$theme.png" "file://$keep/notebook-$theme.html" >/dev/null 2>&1 || fail 'Chromium took no picture of the notebook'
    else
      echo 'notebook: no Chromium: no picture was taken'
    fi
  done
  echo 'notebook: pass: executed by papermill, and the answer is in its output'
}

part_frameworks() {
  environment frameworks torch=="${TORCH_VERSION:-2.9.1}" 'numpy<3' lightning transformers accelerate tensorboard mlflow-skinny wandb
  "$scratch/frameworks/bin/python" scripts/check/python_frameworks.py || fail 'a framework failed'
}

part_gate() {
  environment gate pytest
  mkdir "$scratch/project"
  cat >"$scratch/project/test_work.py" <<'EOF'
import os, pytest

FACTOR = float(os.environ.get("FACTOR", "1"))

@pytest.fixture
def data():
    return list(range(20000))

@pytest.mark.gpuprof(clock="cpu")
def test_loop():
    total = 0
    for i in range(int(60000 * FACTOR)):
        total += i * i % 7
    assert total > 0

@pytest.mark.gpuprof(threshold="5%", clock="cpu")
def test_sort(data):
    for _ in range(int(20 * FACTOR)):
        assert sorted(data, key=lambda v: -v)[0] == 19999
EOF
  local bin=$scratch/gate/bin i failed=0 found=0
  cd "$scratch/project"
  "$bin/python" -m pytest -q test_work.py >/dev/null || fail 'the mark does something without an option'
  "$bin/python" -m pytest -q --gpuprof-update >"$keep/gate.txt" || fail "no baseline: $(tail -5 "$keep/gate.txt")"
  for i in $(seq "${RUNS:-20}"); do
    "$bin/python" -m pytest -q --gpuprof-gate >"$keep/gate-$i.txt" || failed=$((failed + 1))
  done
  for i in $(seq "${PLANTED:-6}"); do
    FACTOR=1.1 "$bin/python" -m pytest -q --gpuprof-gate >"$keep/planted-$i.txt" || found=$((found + 1))
  done
  cd "$repository"
  echo "gate: of ${RUNS:-20} unchanged runs $failed failed; of ${PLANTED:-6} runs of a project that is 10 % slower $found failed"
  [ "$failed" -eq 0 ] && [ "$((2 * found))" -gt "${PLANTED:-6}" ] || fail "the gate: $(grep -h MDE "$keep"/gate-*.txt "$keep"/planted-*.txt)"
}

for part in "${parts[@]}"; do
  case $part in
  wheel | notebook | frameworks | gate) "part_$part" ;;
  *) fail "there is no part $part: wheel, notebook, frameworks, gate" ;;
  esac
done
echo 'python: passed'
