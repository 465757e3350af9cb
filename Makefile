# gpuprof's build. `make` builds the binary, `make help` lists the rest.
# `build` needs only Go; `test` needs C and C++ compilers too.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

# The commit and version are stamped below, so Go need not ask git itself:
# its own stamping fails the build where git is present but the checkout is not its own.
# Programs, tests and bundles all drop the paths of this machine: with one set of flags
# every package is compiled once for all of them, SQLite in Go alone takes most of a minute.
export GOFLAGS := $(strip $(filter-out -trimpath -buildvcs=false,$(GOFLAGS)) -trimpath -buildvcs=false)

# NVIDIA's Go binding of NVML, which only tests use, names every function that its header marks
# as deprecated: a screenful of warnings. Appended to what the user has set.
export CGO_CFLAGS := $(strip $(filter-out -Wno-deprecated-declarations,$(shell go env CGO_CFLAGS)) -Wno-deprecated-declarations)

# A source archive has no git, a fresh fork has no tags: both still build.
VERSION ?= $(shell git describe --tags --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git describe --always --exclude '*' --abbrev=12 --dirty 2>/dev/null || echo unknown)
LDFLAGS  = -X main.version=$(VERSION) -X main.commit=$(COMMIT)

BIN       ?= bin/gpuprof
BENCH     ?= .
BENCHTIME ?= 1s
FUZZTIME  ?= 20000x

GOLANGCI_VERSION := v2.15.0
GOLANGCI         := .bin/golangci-lint
# A linter built by an older Go refuses newer source: the stamp names both versions.
GOLANGCI_STAMP   := .bin/.golangci-lint-$(GOLANGCI_VERSION)-$(shell go env GOVERSION)

DEADCODE_VERSION := v0.50.0
DEADCODE         := .bin/deadcode
DEADCODE_STAMP   := .bin/.deadcode-$(DEADCODE_VERSION)-$(shell go env GOVERSION)

GOVULNCHECK_VERSION := v1.9.0
GOVULNCHECK         := .bin/govulncheck
GOVULNCHECK_STAMP   := .bin/.govulncheck-$(GOVULNCHECK_VERSION)-$(shell go env GOVERSION)

# Packages that have benchmarks, found by reading: listing them through the test binaries would compile them all.
BENCH_PKGS = $(shell grep -rlE --include='*_test.go' '^func Benchmark[A-Z]' . 2>/dev/null | xargs -r -n1 dirname | sort -u)

.PHONY: browser browser-tools build docs docs-tools dist dist-test nocgo cross test race test-times nightly bench fuzz lint fmt lint-tools importrule-test tidy-check kernels inject ptxas sim-asan gorgonia test-torch gpu-bundle recount gallery generated programs vulnerabilities vulnerabilities-tools smoke launchers ci agent foreign-formats python-frameworks tune-programs seed-claims clean help

build: ## build the binary (BIN=bin/gpuprof)
	go build -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/gpuprof

# Both programs without cgo are linked, and run, by dist-test.
nocgo: ## compile and vet everything without cgo, the static build too; telemetry against NVIDIA's binding
	CGO_ENABLED=0 go vet ./...
	CGO_ENABLED=0 go vet -tags nodlopen ./cmd/gpuprof
	CGO_ENABLED=0 go test -count=1 ./probes/nvml ./internal/dynlib
	CGO_ENABLED=0 go test -count=1 -tags nodlopen ./probes/nvml ./internal/dynlib
	go test -count=1 -tags gonvml ./probes/nvml

# What this machine hides: a constant or a field of the system that is 32 bits wide, and
# what other systems do not have. Vetting takes the tests along, which use signals and
# numbers that 32 bits do not hold: it is for another 64-bit Unix. Each system compiles the
# whole program anew, minutes on two cores, so CI builds one of each kind: 32 bits, another
# Unix, no Unix.
CROSS := linux/386 linux/arm linux/arm64 darwin/arm64 windows/amd64
cross: ## build for other systems, without cgo, and vet
	for target in $(CROSS); do \
	  echo "cross: $$target"; \
	  export CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/}; \
	  go build -o /dev/null ./cmd/gpuprof; \
	  case $$target in linux/arm64) go vet ./... ;; esac; \
	done

# Go ends a package after ten minutes, which is less than a busy machine may need. One package more than there are
# processors runs at a time, since some wait for processes most of the time.
JOBS := $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )))
test: ## every test, without the race detector
	go test -p $(JOBS) -timeout 30m ./...

race: ## the tests of packages with goroutines, under the race detector
	packages=$$(go run ./scripts/check/testplan race); go test -p $(JOBS) -timeout 30m -vet=off -race $$packages

test-times: ## every test, and a table of the seconds that each package compiles and runs
	scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	go test -count=1 -vet=off -timeout 30m -json -debug-actiongraph="$$scratch/graph.json" ./... >"$$scratch/run.json" || status=$$?; \
	go run ./scripts/check/testtimes "$$scratch/run.json" "$$scratch/graph.json"; exit $${status:-0}

# What takes too long for every change: whole sweeps and statistics, the detector over every package, every system and
# GPU generation. The workflow nightly runs it, with programs, launchers and fuzzing as jobs of their own.
nightly: ## what takes too long for every change (an hour or so)
	packages=$$(go run ./scripts/check/testplan nightly); go test -timeout 60m -vet=off -tags nightly $$packages
	go test -timeout 60m -vet=off -race ./...
	$(MAKE) cross
	$(MAKE) sim-asan WHOLE=1
	$(MAKE) ptxas
	WHOLE=1 scripts/check/gpucheck_test.sh

bench: ## benchmarks (BENCH=regexp BENCHTIME=1s)
	@test -n "$(BENCH_PKGS)" || { echo 'bench: no package has a benchmark' >&2; exit 1; }
	go test -run '^$$' -bench '$(BENCH)' -benchtime '$(BENCHTIME)' -benchmem $(BENCH_PKGS)

fuzz: ## every fuzz target in turn (FUZZTIME=20000x inputs each)
	scripts/check/fuzz.sh $(FUZZTIME)

# The second pass sees the files that exist only without cgo; the import rule needs no types, so it is quick.
lint: $(GOLANGCI_STAMP) $(DEADCODE_STAMP) ## golangci-lint, the import rule included, the prose check, and functions that nothing calls
	go run ./scripts/check/prose
	go run ./scripts/check/plainness
	$(GOLANGCI) run ./...
	CGO_ENABLED=0 $(GOLANGCI) run --enable-only depguard ./...
	scripts/check/deadcode.sh $(DEADCODE)

fmt: $(GOLANGCI_STAMP) ## format every Go file and group its imports
	$(GOLANGCI) fmt ./...

lint-tools: $(GOLANGCI_STAMP) $(DEADCODE_STAMP) ## install the pinned linters into .bin

$(GOLANGCI_STAMP):
	mkdir -p .bin && rm -f .bin/.golangci-lint-*
	GOBIN='$(CURDIR)/.bin' go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	touch $@

$(DEADCODE_STAMP):
	mkdir -p .bin && rm -f .bin/.deadcode-*
	GOBIN='$(CURDIR)/.bin' go install golang.org/x/tools/cmd/deadcode@$(DEADCODE_VERSION)
	touch $@

importrule-test: $(GOLANGCI_STAMP) ## plant forbidden imports in a scratch module and see each one reported
	scripts/check/importrule_test.sh $(GOLANGCI)

tidy-check: ## go.mod and go.sum are what `go mod tidy` writes
	go mod tidy -diff

# The assembler takes a minute, so it is asked only where a PTX has no machine code yet; `make ptxas` compares all.
kernels: ## regenerate everything generated: go generate, PTX from every .cu and its machine code, the CUDA recorder
	go generate ./...
	scripts/build/kernels.sh
	go run ./workloads/op/tpgen/gen -dir workloads/op -sums
	go run ./workloads/device/cuda/machinecode/pack || WRITE=1 scripts/build/ptxas.sh
	scripts/build/inject.sh

inject: ## build the CUDA recorder for amd64 and arm64 (zig from a Python wheel, kept in .bin)
	scripts/build/inject.sh

ptxas: ## assemble every PTX for each GPU generation, with NVIDIA's assembler from a Python wheel (ARCHS="sm_90")
	ARCHS='$(ARCHS)' scripts/build/ptxas.sh

sim-asan: ## the CUDA tests on the simulated driver under AddressSanitizer (WHOLE=1: every one)
	WHOLE=$(WHOLE) scripts/check/sim_asan.sh ./workloads/device/cuda/... ./workloads/op

gorgonia: ## compile and test the gorgonia.org/cu driver against CUDA 12 headers
	scripts/check/gorgonia_check.sh

test-torch: ## gpuprof run on real PyTorch on the CPU (TORCH_PYTHON=python, else an environment of its own in .bin)
	scripts/check/test_torch.sh

agent: build ## a scripted agent that speaks only MCP finds and fixes planted faults (TORCH_PYTHON=python with torch; BUDGET=5m)
	scripts/check/agent.py --gpuprof $(BIN) --budget $(or $(BUDGET),5m) --python '$(or $(TORCH_PYTHON),python3)'

programs: build ## gpuprof run on testdata/programs/table (TORCH_PYTHON=python; ONLY=plain,torch; NIGHTLY=1: every package must be there)
	scripts/check/programs.py --gpuprof $(BIN) $(if $(TORCH_PYTHON),--python '$(TORCH_PYTHON)') $(if $(ONLY),--only '$(ONLY)') $(if $(NIGHTLY),--need all)

tune-programs: build ## gpuprof tune on programs with planted settings (TORCH_PYTHON=python with PyTorch; BUDGET=5m; NAMES='anomaly plain_mlp')
	python3 scripts/check/tune_programs.py --killed $(BIN) '$(or $(TORCH_PYTHON),python3)'
	python3 scripts/check/tune_programs.py --budget $(or $(BUDGET),5m) $(BIN) '$(or $(TORCH_PYTHON),python3)' $(NAMES)

seed-claims: ## the promises of tuning guides on five PyTorch programs, and docs/guides-on-pytorch.md (TORCH_PYTHON=python with PyTorch; NAMES='grid.py')
	'$(or $(TORCH_PYTHON),python3)' scripts/check/seed_claims.py measure --folder $(CURDIR)/bin/seed-claims $(NAMES)
	python3 scripts/check/seed_claims.py table --folder $(CURDIR)/bin/seed-claims -o docs/guides-on-pytorch.md

recount: build ## events of the fixtures counted again by a script of its own (FILES='traces or folders': of those)
	scripts/check/recount.py --gpuprof $(BIN) --self-test $(FILES)

foreign-formats: build ## files that other benchmark programs write here, read by compare (installs them: pip, Maven, apt-get as root)
	scripts/check/foreign_formats.sh $(BIN)

gpu-bundle: ## everything a GPU machine without Go needs, in gpu-bundle/
	VERSION='$(VERSION)' COMMIT='$(COMMIT)' scripts/build/gpu_bundle.sh

dist: ## binaries for every system, archives, Debian packages, wheels and an image's folders, in dist/ (TARGETS="host linux-amd64-static")
	VERSION='$(VERSION)' COMMIT='$(COMMIT)' python3 scripts/dist/dist.py $(if $(TARGETS),--targets '$(TARGETS)')

docs: ## the documentation as a site in bin/site, static pages without outside requests (needs python3 with venv)
	scripts/docs/build.sh

docs-tools: ## install the pinned generator of the documentation into .bin/docs
	scripts/docs/build.sh install

dist-test: ## install what dist makes for this machine into clean roots and do the main job there (needs groff, dpkg, pip's venv)
	scripts/check/dist_test.sh

gallery: ## make the outputs in docs/gallery.md and README.md again, and the pictures
	go test -count=1 -run '^TestGallery$$' ./cmd/gpuprof -update

browser-tools: ## install what the browser test needs from npm, pinned, into scripts/browser
	scripts/browser/run.sh tools

browser: browser-tools ## look at every HTML page in a headless Chromium (CHROMIUM=path KEEP=folder)
	scripts/browser/run.sh

generated: ## fail if regenerating changes or adds a file
	scripts/check/generated.sh

vulnerabilities-tools: $(GOVULNCHECK_STAMP) ## install the pinned govulncheck into .bin

$(GOVULNCHECK_STAMP):
	mkdir -p .bin && rm -f .bin/.govulncheck-*
	GOBIN='$(CURDIR)/.bin' go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	touch $@

vulnerabilities: $(GOVULNCHECK_STAMP) ## fail on known vulnerabilities that are called (says so where the database is out of reach)
	scripts/check/vulnerabilities_test.sh $(GOVULNCHECK)
	scripts/check/vulnerabilities.sh $(GOVULNCHECK)

smoke: ## build into a scratch folder and do the main job there
	scripts/check/smoke.sh

python-frameworks: ## the Python package with papermill, Lightning, Trainer, Accelerate and pytest in fresh environments (PARTS="wheel gate" WHEEL=file KEEP=folder)
	WHEEL='$(WHEEL)' KEEP='$(KEEP)' scripts/check/python_frameworks.sh $(PARTS)

launchers: build ## ranks under mpirun and srun on this machine (needs root, Open MPI and Slurm)
	scripts/check/fleet_launchers.sh $(BIN) short

ci: ## everything continuous integration does
	bash .ci/run

clean: ## remove what was built here (Go's caches stay)
	rm -rf bin .bin gpu-bundle dist

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' Makefile
