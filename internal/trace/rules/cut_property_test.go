package rules_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
)

// cutNoise is how much more than the worst step of the whole recording a cut one may claim for
// a step: a cut has few steps, and where the device idles before the first of them is as the
// steps before it left it.
const cutNoise = 1.1

// TestCutsClaimNoMore cuts every recording at random places, as --window does and as a profiler
// that was started and stopped there would have: for a step no cut claims more than the whole
// recording does for its worst one.
func TestCutsClaimNoMore(t *testing.T) {
	cuts := 3
	if nightly {
		cuts = 60
	}
	var paths []string
	for _, pattern := range []string{"*-fires.json", "h*00/*-planted.json.gz", "h*00/*-clean.json.gz"} {
		found, err := filepath.Glob(filepath.Join(traceFolder, pattern))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		paths = append(paths, found...)
	}
	for k, path := range paths {
		t.Run(filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			text, err := outside.ReadFound(path)
			if err != nil {
				t.Fatal(err)
			}
			whole := readText(t, text)
			worst, x := worstStep(t, whole)
			rng := rand.New(rand.NewPCG(uint64(k), 46))
			for range cuts {
				from := rng.Int64N(x.Span.Len() * 9 / 10)
				to := from + max(x.Span.Len()/20, rng.Int64N(x.Span.Len()-from))
				checkCut(t, fmt.Sprintf("--window %d..%d", from, to), windowed(t, text, x, from, to), worst, x)
				checkCut(t, fmt.Sprintf("recorded from %d to %d", from, to), stoppedAndStarted(t, text, x, from, to), worst, x)
			}
		})
	}
}

// worstStep is the most that the findings claim for one step, the first one included: without
// steps, for the recording.
func worstStep(t *testing.T, in *model.Trace) (int64, *analyze.Index) {
	t.Helper()
	a, x := analyse(t, in)
	if !x.Stepped() {
		return max(1, claimedIn(a, x.Span)), x
	}
	// The step that is left out has claims of its own, which a cut may find: at most its length.
	var worst int64
	for i := range x.Steps {
		if s := &x.Steps[i]; s.Dropped && !s.Empty {
			worst = max(worst, s.Window.Len())
		} else {
			worst = max(worst, claimedIn(a, s.Window))
		}
	}
	return worst, x
}

func claimedIn(a *analyze.Analysis, w model.Span) (ns int64) {
	for i := range a.Findings {
		ns += model.Spans(a.ClaimedBy(i)).TotalIn(w)
	}
	return ns
}

// checkCut compares what a cut claims for a step; nil is of an empty cut.
func checkCut(t *testing.T, name string, cut *model.Trace, worst int64, whole *analyze.Index) {
	t.Helper()
	if cut == nil {
		return
	}
	a, x := analyse(t, cut)
	var claimed int64
	for _, f := range a.Findings {
		claimed += f.ClaimNS
	}
	steps := int64(x.SteadySteps())
	if !x.Stepped() && whole.Stepped() { // parts of so many steps lie in it
		steps = x.Span.Len()/max(1, whole.Steps[len(whole.Steps)-1].Window.Len()) + 2
	}
	if got, most := float64(claimed)/float64(steps), cutNoise*float64(worst); got > most {
		t.Errorf("%s claims %.0f ns a step (%d of them, %s), the whole recording at most %d: %v", name, got, steps, x.StepSource, worst, ids(a))
	}
}

func readText(t *testing.T, text []byte) *model.Trace {
	t.Helper()
	tr, err := kineto.Read(t.Context(), bytes.NewReader(text), "whole.json", 0)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// windowed is the part that --window cuts out, nil where it is empty.
func windowed(t *testing.T, text []byte, x *analyze.Index, from, to int64) *model.Trace {
	t.Helper()
	r, err := analyze.ParseWindow(fmt.Sprintf("%dns..%dns", from, to))
	if err != nil {
		t.Fatal(err)
	}
	part, err := x.WindowPart(r)
	if err != nil {
		return nil
	}
	var out bytes.Buffer
	if _, err := kineto.Cut(t.Context(), bytes.NewReader(text), "part.json", part, x.T.Shift, &out); err != nil {
		return nil
	}
	return readText(t, out.Bytes())
}

// stoppedAndStarted is what a profiler records from one instant to another: host events that
// begin and end between them, and device operations that begin there.
func stoppedAndStarted(t *testing.T, text []byte, x *analyze.Index, from, to int64) *model.Trace {
	t.Helper()
	begin, end := x.Span.Start+from, x.Span.Start+to
	tr := readText(t, text)
	tr.Host = slices.DeleteFunc(tr.Host, func(h model.Host) bool { return h.Start < begin || h.End > end })
	tr.GPU = slices.DeleteFunc(tr.GPU, func(g model.GPU) bool { return g.Start < begin || g.Start >= end })
	if len(tr.Host)+len(tr.GPU) == 0 {
		return nil
	}
	tr.Gate = model.Gate{}
	tr.Finish()
	return tr
}
