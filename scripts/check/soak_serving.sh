#!/usr/bin/env bash
# Soaks the service of the workload serving behind HTTP, in real time, for DURATION (default 10m): a third under each rule of
# overload, with failing batches, a full queue, and callers that are slow, leave, or send nonsense. No request may be lost or
# answered twice, no caller may get another one's answer, and memory has to stay as it is: at most 20,000 live objects and 8 MiB
# more after the last nine tenths than after the first. `go test` runs a thousand requests of it, and TestSoakFails plants a leak, a lost
# request, one answered twice and a mixed-up answer, each of which has to fail it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

duration=${DURATION:-10m}
go test -count=1 -timeout 0 -run '^TestSoakOutside$' -v ./workloads/serving -soak "$duration"
