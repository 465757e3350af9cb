package op_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/op"
)

func TestErrorNorm(t *testing.T) {
	var e op.ErrorNorm
	if e.Used || e.Relative() != 0 {
		t.Errorf("nothing compared: %+v is %g", e, e.Relative())
	}
	e.Add([]float32{3, 4}, []float64{3, 4})
	e.Add([]float32{0.5}, []float64{0})
	if got := e.Relative(); !e.Used || got != 0.1 {
		t.Errorf("0.5 off beside a norm of 5 is %g, want 0.1", got)
	}
	e.Same([]float32{float32(math.NaN())}, []float32{float32(math.NaN())})
	if got := e.Relative(); got != 0.1 {
		t.Errorf("the same bits, although no numbers, made it %g", got)
	}
	e.Same([]float32{0}, []float32{float32(math.Copysign(0, -1))})
	if got := e.Relative(); !math.IsInf(got, 1) {
		t.Errorf("other bits made it %g, want infinity", got)
	}
	var zero op.ErrorNorm
	zero.Add([]float32{1e-30}, []float64{0})
	if got := zero.Relative(); !math.IsInf(got, 1) {
		t.Errorf("a difference from all zeros is %g, want infinity", got)
	}
	var nan op.ErrorNorm
	nan.Add([]float32{float32(math.NaN())}, []float64{1})
	if got := nan.Relative(); !math.IsNaN(got) {
		t.Errorf("NaN against 1 is %g, want NaN", got)
	}
}

func TestMergeChecks(t *testing.T) {
	a := []gpuprof.Check{{Stage: "sph", RelativeError: 1, Rows: "all"}, {Stage: "d2h", RelativeError: 0, Rows: "all"}}
	b := []gpuprof.Check{{Stage: "sph", RelativeError: 2, Rows: "some"}, {Stage: "d2h", RelativeError: 0, Rows: "some"}, {Stage: "gate", RelativeError: 3, Rows: "some"}}
	want := []gpuprof.Check{{Stage: "sph", RelativeError: 2, Rows: "all"}, {Stage: "d2h", RelativeError: 0, Rows: "all"}, {Stage: "gate", RelativeError: 3, Rows: "some"}}
	if d := cmp.Diff(want, op.MergeChecks(a, b)); d != "" {
		t.Error(d)
	}
}

// Wherever it comes, an error that is not a number is the worst.
func TestMergeChecksKeepsNaN(t *testing.T) {
	nan := math.NaN()
	for _, errs := range [][]float64{{nan, 1, 2}, {1, nan, 2}, {1, 2, nan}} {
		var merged []gpuprof.Check
		for _, e := range errs {
			merged = op.MergeChecks(merged, []gpuprof.Check{{Stage: "gru", RelativeError: gpuprof.Number(e), Pass: e <= 3}})
		}
		if len(merged) != 1 || merged[0].Pass || !math.IsNaN(float64(merged[0].RelativeError)) {
			t.Errorf("%v became %+v", errs, merged)
		}
	}
}
