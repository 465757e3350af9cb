#!/usr/bin/env bash
# Validates the manifests in docs/kubernetes against the schemas of Kubernetes and JobSet, without
# a cluster, and checks that a misspelled field would be found.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

validate=sigs.k8s.io/kubectl-validate@v0.0.4
jobset=sigs.k8s.io/jobset@v0.8.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

(cd "$work" && go mod init crds >/dev/null 2>&1 && go mod download -json "$jobset") >"$work/module.json"
crds=$(sed -n 's/^.*"Dir": "\(.*\)",*$/\1/p' "$work/module.json")/config/components/crd/bases
GOBIN=$work GOFLAGS= go install "$validate"

"$work/kubectl-validate" --version 1.30 --local-crds "$crds" docs/kubernetes/*.yaml
sed 's/completionMode/completionMod/' docs/kubernetes/check-job.yaml >"$work/wrong.yaml"
if "$work/kubectl-validate" --version 1.30 --local-crds "$crds" "$work/wrong.yaml" >"$work/said" 2>&1; then
	echo "a misspelled field was accepted" >&2
	exit 1
fi
grep -q completionMod "$work/said"
