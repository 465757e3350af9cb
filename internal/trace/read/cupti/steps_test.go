package cupti

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

// loop writes steps of a copy and six kernels, after a warm-up; mark writes what marks a step.
func loop(b *builder, steps int, mark func(b *builder, step int, begin, end uint64)) {
	corr, at := uint32(0), second
	launch := func(name string) {
		corr++
		b.call("cudaLaunchKernel_v7000", at, at+10_000, corr, 5, 0)
		b.kernel(name, at+20_000, at+100_000, corr, 7, 0)
		at += 200_000
	}
	for i := range 9 {
		launch(fmt.Sprint("warm", i*i%5))
	}
	for s := range steps {
		begin := at
		corr++
		b.call("cudaMemcpyAsync_v3020", at, at+10_000, corr, 5, 0)
		b.copy(copyH2D, 1, 3, 4096, at+20_000, at+30_000, corr)
		at += 400_000
		for _, k := range []string{"gemm", "relu", "gemm", "relu", "loss", "update"} {
			launch(k)
		}
		if mark != nil {
			mark(b, s, begin, at)
		}
	}
	b.end()
}

func index(t *testing.T, b *builder, edit func(*model.Trace)) *analyze.Index {
	t.Helper()
	tr := b.read(t)
	if edit != nil {
		edit(tr)
	}
	x, err := analyze.NewIndex(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func dropped(x *analyze.Index) (n int) {
	for i := range x.Steps {
		if x.Steps[i].Dropped {
			n++
		}
	}
	return n
}

// A program without marks has the steps that its launches repeat; what the program is to be
// recorded without is left out, as long as some are left.
func TestStepsByLaunches(t *testing.T) {
	for skip, want := range map[int]int{0: 1, 5: 5, 100: 9} {
		b := newBuilder()
		loop(b, 13, nil)
		x := index(t, b, func(tr *model.Trace) { tr.Program.Skip = skip })
		if x.StepSource != "the order of launches" || x.StepLaunches != 7 || len(x.Steps) != 12 || dropped(x) != want {
			t.Errorf("skip %d: %d steps of %d launches by %s, %d left out, want %d", skip, len(x.Steps), x.StepLaunches, x.StepSource, dropped(x), want)
		}
		if s := x.Steps[3]; s.Name != "repeat 4" || s.Host.Len() != 1_600_000 {
			t.Errorf("%+v", s)
		}
	}
}

// Ranges come first; those in the domain of a library, and too few of them, mark no steps.
func TestStepsByRanges(t *testing.T) {
	mark := func(domain string, each int) func(b *builder, step int, begin, end uint64) {
		return func(b *builder, step int, begin, end uint64) {
			if step%each > 0 {
				return
			}
			id := uint32(0)
			if domain != "" {
				id = b.name(domain)
			}
			b.nvtx(opPush, "iteration", begin, 5, 0, id)
			b.nvtx(opPop, "", end, 5, 0, id)
		}
	}
	for _, c := range []struct {
		domain string
		each   int
		want   string
	}{
		{"", 1, "annotation iteration"}, {"mine", 1, "annotation iteration"}, {"NCCL", 1, "the order of launches"}, {"TSL", 1, "the order of launches"}, {"", 20, "the order of launches"},
	} {
		b := newBuilder()
		loop(b, 13, mark(c.domain, c.each))
		if x := index(t, b, nil); x.StepSource != c.want {
			t.Errorf("domain %q, every %d: %s, want %s", c.domain, c.each, x.StepSource, c.want)
		}
	}
}

// A program without a period has no steps, and is told how to mark them.
func TestNoSteps(t *testing.T) {
	b := newBuilder()
	loop(b, 2, nil)
	x := index(t, b, nil)
	if i := slices.IndexFunc(x.Warnings, func(w gpuprof.Warning) bool { return w.Code == "no-steps" && strings.Contains(w.Fix, "nvtxRangePush") }); i < 0 || x.Stepped() {
		t.Errorf("%s, %v", x.StepSource, x.Warnings)
	}
}

// A graph that is launched again and again is one launch of a name that its kernels make.
func TestStepsOfGraphs(t *testing.T) {
	b, at, corr := newBuilder(), second, uint32(0)
	for s := range 12 {
		for graph := range uint32(2) {
			corr++
			b.call("cudaGraphLaunch_v10000", at, at+10_000, corr, 5, 0)
			for k := range uint64(5) { // in streams that take turns
				b.kernel(fmt.Sprint("k", (k+uint64(s))%5, graph), at+20_000+k*50_000, at+60_000+k*50_000, corr, 7, graph+1)
			}
			at += 800_000
		}
	}
	b.end()
	if x := index(t, b, nil); x.StepLaunches != 2 || len(x.Steps) < 10 {
		t.Errorf("%d steps of %d launches by %s", len(x.Steps), x.StepLaunches, x.StepSource)
	}
}

// The part of a recording has the figures that its steps have in the whole, cut once or twice.
func TestCutKeepsFigures(t *testing.T) {
	for _, marks := range []bool{false, true} {
		b := newBuilder()
		loop(b, 13, func(b *builder, step int, begin, end uint64) {
			if marks {
				b.nvtx(opStart, fmt.Sprint("iteration ", step+1), begin, 5, uint64(step+1), 0)
				b.nvtx(opPush, "part", begin+100, 5, 0, 0)
				b.nvtx(opMark, "m", begin+150, 5, 0, 0)
				b.nvtx(opPop, "", begin+200, 5, 0, 0)
				b.nvtx(opEnd, "", end, 5, uint64(step+1), 0)
			}
		})
		whole := index(t, b, nil)
		want := steps(whole)
		part := cut(t, b.Bytes(), "3..9", want[2:9])
		again := cut(t, part, "3..5", want[2:5])
		if len(part) >= b.Len() || len(again) >= len(part) {
			t.Errorf("%d bytes, cut to %d and %d", b.Len(), len(part), len(again))
		}
		w, err := analyze.ParseWindow("5ms..9ms")
		if err != nil {
			t.Fatal(err)
		}
		asked, err := whole.WindowPart(w)
		if err != nil || len(asked.Steps) == 0 {
			t.Fatalf("%+v, %v", asked, err)
		}
	}
}

type stepFigures struct {
	Name         string
	Host, Window model.Span
}

func steps(x *analyze.Index) (out []stepFigures) {
	for _, s := range x.Steps {
		out = append(out, stepFigures{s.Name, s.Host, s.Window})
	}
	return out
}

// cut cuts steps out of a recording, and sees that they are there as they were.
func cut(t *testing.T, text []byte, asked string, want []stepFigures) []byte {
	t.Helper()
	tr, err := Read(t.Context(), bytes.NewReader(text), "x", 0)
	if err != nil {
		t.Fatal(err)
	}
	x, err := analyze.NewIndex(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	r, err := analyze.ParseSteps(asked)
	if err != nil {
		t.Fatal(err)
	}
	part, err := x.StepsPart(r)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Cut(t.Context(), bytes.NewReader(text), bytes.NewReader(text), "x", part, &out); err != nil {
		t.Fatal(err)
	}
	tr, err = Read(t.Context(), bytes.NewReader(out.Bytes()), "part", 0)
	if err != nil {
		t.Fatal(err)
	}
	if x, err = analyze.NewIndex(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, steps(x)); diff != "" {
		t.Error(diff)
	}
	if tr.Truncated || len(x.Devices) != 1 {
		t.Errorf("truncated %t, %d devices", tr.Truncated, len(x.Devices))
	}
	return out.Bytes()
}

// A recording that is shorter when it is read again, and a disk that is full, are errors.
func TestCutFails(t *testing.T) {
	b := newBuilder()
	loop(b, 13, nil)
	r, _ := analyze.ParseSteps("3..9")
	part, err := index(t, b, nil).StepsPart(r)
	if err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	if err := Cut(t.Context(), bytes.NewReader(whole), bytes.NewReader(whole[:len(whole)/2]), "x", part, io.Discard); err == nil || !strings.Contains(err.Error(), "longer when it was read before") {
		t.Error(err)
	}
	if err := Cut(t.Context(), bytes.NewReader(whole), bytes.NewReader(whole), "x", part, full{}); err == nil || !strings.Contains(err.Error(), "writing a part") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Cut(ctx, bytes.NewReader(whole), bytes.NewReader(whole), "x", part, io.Discard); err == nil {
		t.Error("cancelled, and no error")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// What lost records make doubtful is claimed by no finding, and trace-quality says what it would have been.
func TestLostRecordsMuteFindings(t *testing.T) {
	for lost, muted := range map[uint64]bool{0: false, 1: false, 9: true} {
		b := newBuilder()
		b.record(tLost, lost, uint64(0), uint64(0), uint64(0), uint64(0))
		at := second
		for s := range uint32(60) { // a copy that the device waits for, a kernel, and a host that is late
			b.call("cudaMemcpyAsync_v3020", at, at+10_000, 2*s+1, 5, 0)
			b.copy(copyH2D, 2, 3, 1<<20, at+20_000, at+400_000, 2*s+1)
			b.call("cudaLaunchKernel_v7000", at+30_000, at+40_000, 2*s+2, 5, 0)
			b.kernel("gemm", at+400_000, at+900_000, 2*s+2, 7, 0)
			at += 2_000_000
		}
		b.end()
		x := index(t, b, nil)
		claimed, quality := map[string]int64{}, ""
		for _, f := range rules.Rules(x, x.NewLedger()) {
			claimed[f.Rule] = f.ClaimNS
			if f.Rule == gpuprof.RuleTraceQuality {
				quality = f.Title + " " + strings.Join(f.Caveats, " ")
			}
		}
		for _, rule := range []string{gpuprof.RuleHostBound, gpuprof.RuleExposedCopy} {
			if claimed[rule] > 0 == muted || muted && !strings.Contains(quality, "suppressed: "+rule+" would have claimed up to") {
				t.Errorf("%d lost: %s claims %d; %s", lost, rule, claimed[rule], quality)
			}
		}
		if want := "up to 9 records were lost beside 240 that are there"; muted && !strings.Contains(quality, want) {
			t.Errorf("%q, want %q", quality, want)
		}
	}
}
