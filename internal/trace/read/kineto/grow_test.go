//go:build !race

// Under the race detector allocations are not those of the program.

package kineto_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

// allocated is what f allocates, bytes, freed or not.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// held is what f leaves reachable through what it returns, bytes.
func held(f func() any) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	v := f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(v)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

func generated(t *testing.T, size int64) ([]byte, tracetest.Stats) {
	t.Helper()
	var text bytes.Buffer
	stats, err := tracetest.Write(&text, tracetest.Options{Bytes: size, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return text.Bytes(), stats
}

// mostAllocated is what an analysis may allocate for each event of the file, bytes: 319 at
// most in five runs, and 459 while sets of times were made by appending.
const mostAllocated = 380

// What a trace takes is proportional to its events, and no more for each than the room is
// counted by; in a room that is too small for it, it is that of the room. Cutting takes
// what the part takes, however long the file is.
func TestMemoryOfLongTraces(t *testing.T) {
	small, few := generated(t, 6<<20)
	large, many := generated(t, 24<<20)
	if r := float64(many.Events) / float64(few.Events); r < 3.8 || r > 4.2 {
		t.Fatalf("%d and %d events", few.Events, many.Events)
	}
	indexed := func(text []byte, room int64) func() any {
		return func() any {
			tr, err := kineto.Read(t.Context(), bytes.NewReader(text), "trace.json", room)
			if err != nil {
				t.Fatal(err)
			}
			x, err := analyze.NewIndex(t.Context(), tr)
			if err != nil {
				t.Fatal(err)
			}
			return x
		}
	}
	// The parsers' blocks are the same for both: they are in neither of the sums below.
	a, b := held(indexed(small, 0)), held(indexed(large, 0))
	if r := float64(b) / float64(a); r > 4.4 {
		t.Errorf("%d events hold %d bytes and %d hold %d: %.1f times as many", few.Events, a, many.Events, b, r)
	}
	if per := b / int64(many.Events); per > model.HostBytes {
		t.Errorf("an event holds %d bytes, and the room is counted by %d", per, model.HostBytes)
	}
	// All that an analysis allocates, garbage included: the collector lets the heap grow to
	// twice what is in use, so garbage is resident memory too. The parsers' blocks are the
	// same for both. Most of it is the tables, once while they grow and once in one piece.
	whole := func(text []byte) int64 {
		return allocated(func() {
			x := indexed(text, 0)().(*analyze.Index)
			if _, err := analyze.SummariseIndexes(t.Context(), []*analyze.Index{x}, analyze.Options{Rules: rules.Rules}); err != nil {
				t.Fatal(err)
			}
		})
	}
	more := float64(whole(large)-whole(small)) / float64(many.Events-few.Events)
	if t.Logf("%.0f bytes allocated for each event", more); more > mostAllocated {
		t.Errorf("an analysis allocates %.0f bytes for each event, and %d are enough", more, mostAllocated)
	}
	const room = 4 << 20
	if one := held(indexed(small, room)); one > room {
		t.Errorf("in room for %d bytes %d are held", room, one)
	} else if four := held(indexed(large, room)); four > room {
		t.Errorf("in room for %d bytes %d are held of four times the events", room, four)
	}

	steps, err := analyze.ParseSteps("3..5")
	if err != nil {
		t.Fatal(err)
	}
	var parts [2][]byte
	var took [2]int64
	for i, text := range [][]byte{small, large} {
		x := index(t, text)
		p, err := x.StepsPart(steps)
		if err != nil {
			t.Fatal(err)
		}
		took[i] = allocated(func() { parts[i] = cut(t, text, x, p) })
	}
	if !bytes.Equal(parts[0], parts[1]) {
		t.Error("the same steps of a longer recording are other text")
	}
	if took[1] > took[0]+1<<20 {
		t.Errorf("cutting allocates %d bytes, and %d of a file four times as long", took[0], took[1])
	}
	t.Logf("%d and %d bytes held, cutting allocates %d and %d", a, b, took[0], took[1])
}

// A cut by time loses nothing: each event that touches the window, each arrow with both
// ends in it and all metadata is there, byte for byte.
func TestCutLosesNothing(t *testing.T) {
	text, _ := generated(t, 2<<20)
	text = bytes.Replace(text, []byte(`"traceEvents": [`), []byte(`"traceEvents": [
  {"name": "process_name", "ph": "M", "ts": 1700000000123456.789, "pid": 4242, "tid": 0, "args": {"name": "python"}},
  {"name": "thread_sort_index", "ph": "M", "pid": 4242, "tid": 4242, "args": {"sort_index": 7}},
  {"name": "process_labels", "ph": "M", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},`), 1)
	x, all := index(t, text), elementsOf(t, text)
	if all.meta < 3 {
		t.Fatalf("%d events of metadata", all.meta)
	}
	first := min(x.T.First, x.Span.Start)
	for _, at := range [][2]int64{{0, x.Span.Len()}, {x.Span.Len() / 3, x.Span.Len() / 2}, {x.Span.Len() - 5_000_000, x.Span.Len()}, {1_000_000, 1_000_400}} {
		w, err := analyze.ParseWindow(fmt.Sprintf("%dns..%dns", at[0], at[1]))
		if err != nil {
			t.Fatal(err)
		}
		part, err := x.WindowPart(w)
		if err != nil {
			t.Fatal(err)
		}
		out := cut(t, text, x, part)
		checkKept(t, all, out)
		from, to := first+at[0]-x.T.Shift, first+at[1]-x.T.Shift
		checkLost(t, text, out, from, to)
	}
}

// timed is what checkLost reads of an event.
type timed struct {
	Ph, Cat string
	ID      json.Number
	TS, Dur json.Number
}

// nanoseconds of the file's decimal microseconds.
func nanoseconds(t *testing.T, n json.Number) int64 {
	t.Helper()
	whole, part, _ := strings.Cut(string(n), ".")
	var ns int64
	if _, err := fmt.Sscan(whole+(part + "000")[:3], &ns); err != nil {
		t.Fatalf("%q: %v", n, err)
	}
	return ns
}

// checkLost names an event of the file that touches a stretch of time, ns of the file, and
// is not in the part.
func checkLost(t *testing.T, text, part []byte, from, to int64) {
	t.Helper()
	kept := elementsOf(t, part).from
	var whole struct{ TraceEvents []json.RawMessage }
	if err := json.Unmarshal(text, &whole); err != nil {
		t.Fatal(err)
	}
	arrows := map[string]map[string]string{}
	touched := 0
	for _, raw := range whole.TraceEvents {
		var e timed
		if err := json.Unmarshal(raw, &e); err != nil {
			t.Fatal(err)
		}
		if e.TS == "" || e.Ph == "M" {
			continue
		}
		start := nanoseconds(t, e.TS)
		end := start
		if e.Dur != "" {
			end += nanoseconds(t, e.Dur)
		}
		if start >= to || end <= from && start < from {
			continue
		}
		touched++
		if e.Ph == "s" || e.Ph == "f" {
			k := e.Cat + string(e.ID)
			if arrows[k] == nil {
				arrows[k] = map[string]string{}
			}
			arrows[k][e.Ph] = string(raw)
		} else if !kept[string(raw)] {
			t.Fatalf("%d to %d: lost %s", from, to, raw)
		}
	}
	for k, ends := range arrows {
		for _, raw := range ends {
			if len(ends) == 2 && !kept[raw] {
				t.Fatalf("lost an end of arrow %s: %s", k, raw)
			}
		}
	}
	if touched == 0 {
		t.Errorf("nothing is in %d to %d", from, to)
	}
}
