package kineto_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

// index reads a trace.
func index(t *testing.T, text []byte) *analyze.Index {
	t.Helper()
	tr, err := kineto.Read(t.Context(), bytes.NewReader(text), "trace.json", 0)
	if err != nil {
		t.Fatal(err)
	}
	x, err := analyze.NewIndex(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func analysisOf(t *testing.T, x *analyze.Index) *analyze.Analysis {
	t.Helper()
	a, err := analyze.SummariseIndexes(t.Context(), []*analyze.Index{x}, analyze.Options{Rules: rules.Rules})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func cut(t *testing.T, text []byte, x *analyze.Index, part *model.Cut) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := kineto.Cut(t.Context(), bytes.NewReader(text), "trace.json", part, x.T.Shift, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// elements are those of a trace's array of events, and how many of them are metadata.
type elements struct {
	from map[string]bool
	meta int
}

// elementsOf decodes a whole file, once for all the parts that are cut from it.
func elementsOf(t *testing.T, text []byte) elements {
	t.Helper()
	var whole struct{ TraceEvents []json.RawMessage }
	if json.Unmarshal(text, &whole) != nil && json.Unmarshal(text, &whole.TraceEvents) != nil {
		t.Fatal("the whole file is no JSON")
	}
	all := elements{from: make(map[string]bool, len(whole.TraceEvents))}
	var e struct{ Ph string }
	for _, raw := range whole.TraceEvents {
		all.from[string(raw)] = true
		if hasDuration(raw) {
			continue
		}
		if _ = json.Unmarshal(raw, &e); e.Ph == "M" {
			all.meta++
		}
	}
	return all
}

// hasDuration knows most events of PyTorch, which begin with their phase, from a few bytes.
func hasDuration(raw []byte) bool {
	return bytes.Contains(raw[:min(24, len(raw))], []byte(`"ph": "X"`))
}

// checkKept holds a cut trace to the file it was cut from: every event stands there
// byte for byte, every arrow has both of its ends, and all metadata is there.
func checkKept(t *testing.T, all elements, part []byte) {
	t.Helper()
	var kept struct{ TraceEvents []json.RawMessage }
	if err := json.Unmarshal(part, &kept); err != nil {
		t.Fatalf("the cut file is no JSON: %v", err)
	}
	var e struct {
		Ph, Cat string
		ID      any
	}
	meta := all.meta
	ends := map[string]map[string]bool{}
	for _, raw := range kept.TraceEvents {
		if !all.from[string(raw)] {
			t.Fatalf("%s is not in the file", raw)
		}
		if hasDuration(raw) {
			continue
		}
		e.Ph, e.Cat, e.ID = "", "", nil
		_ = json.Unmarshal(raw, &e)
		switch e.Ph {
		case "M":
			meta--
		case "s", "f":
			k := fmt.Sprint(e.Cat, e.ID)
			if ends[k] == nil {
				ends[k] = map[string]bool{}
			}
			ends[k][e.Ph] = true
		}
	}
	if meta != 0 {
		t.Errorf("%d metadata events are missing", meta)
	}
	for k, phs := range ends {
		if len(phs) != 2 {
			t.Errorf("an arrow %s has one end", k)
		}
	}
}

// A trace that is cut by steps or by time is smaller, holds events of the file byte for
// byte, and its steps have the figures that they have in the whole file. TestEveryCut tries
// all recordings: cutting has no goroutines but the reader's, which one small recording uses.
func TestCut(t *testing.T) {
	t.Parallel()
	text, err := outside.ReadFound(filepath.Join("..", "..", "..", "..", "testdata", "traces", "h200", "deterministic-fill-clean.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	testCut(t, text, index(t, text))
}

func testCut(t *testing.T, text []byte, x *analyze.Index) {
	t.Helper()
	before, all := analysisOf(t, x), elementsOf(t, text)
	numbers := x.StepNumbers()
	ask := func(format string, args ...any) analyze.Range {
		r, err := analyze.ParseSteps(fmt.Sprintf(format, args...))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, c := range [][2]int{{1, len(numbers) - 1}, {1, 2}, {2, 2}, {0, 1}} {
		part, err := x.StepsPart(ask("%d..%d", numbers[c[0]], numbers[c[1]]))
		if err != nil {
			t.Fatal(err)
		}
		out := cut(t, text, x, part)
		checkKept(t, all, out)
		if len(out) >= len(text)+2000 {
			t.Errorf("steps %v: %d bytes of %d", c, len(out), len(text))
		}
		y := index(t, out)
		after := analysisOf(t, y)
		if after.StepSource != before.StepSource {
			t.Errorf("steps by %q, in the whole by %q", after.StepSource, before.StepSource)
		}
		if diff := cmp.Diff(before.Steps[c[0]:c[1]+1], after.Steps); diff != "" {
			t.Errorf("steps %v: %s", c, diff)
		}
		if c == [2]int{1, len(numbers) - 1} { // all that count
			if diff := cmp.Diff(before.Step, after.Step); diff != "" {
				t.Errorf("the mean step: %s", diff)
			}
		}
		again, err := y.StepsPart(ask("%d", y.StepNumbers()[0]))
		if err != nil {
			t.Fatal(err)
		}
		twice := analysisOf(t, index(t, cut(t, out, y, again)))
		twice.Steps[0].Dropped = after.Steps[0].Dropped // the only one counts
		if diff := cmp.Diff(after.Steps[:1], twice.Steps); diff != "" {
			t.Errorf("a part of a part: %s", diff)
		}
	}
	// From the middle of one step to the middle of another.
	first := min(x.T.First, x.Span.Start)
	from, to := x.Steps[0].Host.Start+x.Steps[0].Host.Len()/2-first, x.Steps[3].Host.Start+x.Steps[3].Host.Len()/2-first
	w, err := analyze.ParseWindow(fmt.Sprintf("%dns..%dns", from, to))
	if err != nil {
		t.Fatal(err)
	}
	part, err := x.WindowPart(w)
	if err != nil {
		t.Fatal(err)
	}
	out := cut(t, text, x, part)
	checkKept(t, all, out)
	for _, s := range analysisOf(t, index(t, out)).Steps {
		for _, b := range before.Steps {
			if b.Name == s.Name && b.HostNS == s.HostNS {
				if diff := cmp.Diff(b, s); diff != "" {
					t.Errorf("window: %s", diff)
				}
			}
		}
	}
}

func TestCutRanges(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "..", "x", "9..5", "-3..4", "1...2", "1..2..3", "5s..6s"} {
		if _, err := analyze.ParseSteps(bad); !errors.Is(err, gpuprof.ErrUsage) {
			t.Errorf("--steps %q: %v", bad, err)
		}
	}
	for _, bad := range []string{"", "..", "1", "1..2", "2s..1s", "1s..1s", "1s", "-1s..2s", "1s..2", "1s...2s"} {
		if _, err := analyze.ParseWindow(bad); !errors.Is(err, gpuprof.ErrUsage) {
			t.Errorf("--window %q: %v", bad, err)
		}
	}
}

// FuzzCut cuts files of any kind: what comes out of JSON is JSON, and a trace again.
func FuzzCut(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":1,"traceEvents":[{"ph":"M","name":"process_name","pid":1},{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":5},{"ph":"B","name":"b","pid":1,"tid":1,"ts":2},{"ph":"E","pid":1,"tid":1,"ts":3}],"x":[1]} `), int64(0), int64(3000))
	f.Add([]byte(`[{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":1,"dur":5},{"ph":"s","id":1,"cat":"ac2g","pid":1,"tid":1,"ts":1},{"ph":"f","id":1,"cat":"ac2g","pid":1,"tid":1,"ts":1}]`), int64(0), int64(9000))
	f.Add([]byte("\xef\xbb\xbfnoise {\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":1},{]"), int64(0), int64(1))
	f.Add([]byte(`{"gpuprofPart":{"host":{"start_ns":0,"end_ns":9},"device":{"start_ns":0,"end_ns":9},"step_source":"x","after":-9223372036854775808,"steps":[{"name":"s","host":{"start_ns":0,"end_ns":9}}]},"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":0,"dur":5}]}`), int64(0), int64(9))
	f.Fuzz(func(t *testing.T, data []byte, from, to int64) {
		tr, err := kineto.Read(t.Context(), bytes.NewReader(data), "fuzz", 0)
		if err != nil {
			return
		}
		x, err := analyze.NewIndex(t.Context(), tr)
		if err != nil {
			t.Fatal(err)
		}
		r, err := analyze.ParseWindow(fmt.Sprintf("%dns..%dns", from, to))
		if err != nil {
			return
		}
		part, err := x.WindowPart(r)
		if err != nil {
			return
		}
		out := cut(t, data, x, part)
		if json.Valid(data) && !json.Valid(out) {
			t.Fatalf("%q was cut out of %q", out, data)
		}
		if y, err := kineto.Read(t.Context(), bytes.NewReader(out), "part", 0); err == nil {
			if _, err := analyze.NewIndex(t.Context(), y); err != nil {
				t.Fatal(err)
			}
		}
	})
}
