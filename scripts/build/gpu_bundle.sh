#!/usr/bin/env bash
# Build everything that a GPU machine without Go needs to run gpu-check and gpu-record into one folder (gpu-bundle/), under 45 MB.
#
#   scripts/build/gpu_bundle.sh [FOLDER]      VERSION and COMMIT from the environment
#   LEVEL=1                             compress fast, for a bundle that stays here; its size is not judged
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${1:-gpu-bundle}
limit=45000000 # what carries it to a GPU takes 64 MiB, and the sources beside it are 21 MB

version=${VERSION:-$(git describe --tags --dirty 2>/dev/null || echo dev)}
commit=${COMMIT:-$(git describe --always --exclude '*' --abbrev=12 --dirty 2>/dev/null || echo unknown)}
aside=$out.new
rm -rf "$aside"
mkdir -p "$aside/bin" "$aside/gpucheck" "$aside/data"
trap 'rm -rf "$aside"' EXIT

# Without a C compiler gpuprof builds too, and then says that telemetry was left out.
build=(-trimpath -buildvcs=false)
go build "${build[@]}" -ldflags "-s -w -X main.version=$version -X main.commit=$commit" -o "$aside/bin/gpuprof" ./cmd/gpuprof
for package in workloads/device/cuda workloads/op workloads/measure workloads/gpucheck scripts/peer/serving=peerserving; do
  name=${package##*[/=]}
  go test -c "${build[@]}" -ldflags '-s -w' -o "$aside/bin/$name.test" "./${package%%=*}"
done

cp scripts/gpucheck/gpu-{check,record} "$aside/"
cp scripts/gpucheck/{check,record,gates,parts,plan,runner,summary,peers,traces,recorder_torch,recorder_jax}.py scripts/gpucheck/summary.schema.json "$aside/gpucheck/"
cp scripts/peer/{resnet,gridlaw,peer_serving}.py "$aside/gpucheck/"
cp testdata/e3nn/vectors.json "$aside/data/e3nn-vectors.json"
cp testdata/gruflow/vectors.json "$aside/data/gruflow-vectors.json"
cp docs/gpu-check.md "$aside/README.md"
cp LICENSE THIRD_PARTY_NOTICES.md "$aside/"

python3 - "$aside" "$version" "$commit" "$(go env GOVERSION)" "$(go env GOARCH)" "${LEVEL:-9}" <<'PY'
import gzip, hashlib, json, pathlib, re, sys

folder, version, commit, go, arch, level = pathlib.Path(sys.argv[1]), *sys.argv[2:]
programs, needs = {}, {(0, 0)}
for p in sorted((folder / "bin").iterdir()):
    content = p.read_bytes()
    # The C library's versions that a program asks for stand in it as text.
    needs |= {tuple(map(int, v)) for v in re.findall(rb"GLIBC_(\d+)\.(\d+)", content)}
    programs[p.name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    with open(f"{p}.gz", "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", filename="", mtime=0, compresslevel=int(level)) as gz:
        gz.write(content)
    p.unlink()
need = max(needs)
manifest = {"made_by": {"version": version, "commit": commit, "go": go, "arch": arch}, "glibc_at_least": "%d.%d" % need if need[0] else "", "programs": programs}
(folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
PY

size=$(find "$aside" -type f -printf '%s\n' | awk '{ s += $1 } END { print s }')
if [ -z "${LEVEL:-}" ] && [ "$size" -ge "$limit" ]; then
  echo "gpu-bundle: $size bytes, the limit is $limit" >&2
  exit 1
fi
rm -rf "$out"
mv "$aside" "$out"
trap - EXIT
echo "gpu-bundle: $out, $size bytes; copy it to the GPU machine and run ./gpu-check and ./gpu-record there"
