package rules_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/nsys"
)

// rocpdLacks is why a fixture of a rule has other findings when rocprofv3 recorded it.
var rocpdLacks = map[string]string{
	"hidden-sync-fires":        "a copy does not tell pageable from pinned memory: the wait is a part of host-bound",
	"off-peak-gemm-fires":      "rocprofv3 records no shapes",
	"attention-off-peak-fires": "rocprofv3 records no shapes",
	"memory-bound-chain-fires": "without shapes the chain is elementwise-chain's, with the same claim",
	"small-collective-fires":   "rocprofv3 records no sizes of collectives: their time is exposed-comm's",
	"pageable-h2d-fires":       "a copy does not tell pageable from pinned memory: the copy is exposed-copy's alone",
}

type claim struct {
	Rule   string
	StepNS int64
}

func claimed(a *analyze.Analysis) []claim {
	var out []claim
	for _, f := range a.Findings {
		out = append(out, claim{Rule: f.Rule, StepNS: f.StepNS})
	}
	slices.SortFunc(out, func(a, b claim) int { return strings.Compare(a.Rule, b.Rule) })
	return out
}

// asRocpd is a trace as rocprofv3 would have recorded it.
func asRocpd(t *testing.T, in *model.Trace) *model.Trace {
	t.Helper()
	path := filepath.Join(t.TempDir(), "1_results.db")
	if err := tracetest.Rocpd(path, in, "_ab", false); err != nil {
		t.Fatal(err)
	}
	out, err := nsys.Read(t.Context(), path, path, 0)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
