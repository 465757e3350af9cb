package kineto

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

// plain is an event as encoding/json sees it.
type plain struct {
	Ph, Cat, Name string
	Pid, Tid      any
	Ts, Dur       json.Number
	Args          map[string]any
}

func plainEvents(t *testing.T, text []byte) []plain {
	t.Helper()
	var events []plain
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var err error
	if text[0] == '[' {
		err = d.Decode(&events)
	} else {
		var doc struct{ TraceEvents []plain }
		err = d.Decode(&doc)
		events = doc.TraceEvents
	}
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func exact(t *testing.T, n json.Number) int64 {
	t.Helper()
	r, ok := new(big.Rat).SetString(n.String())
	if r.Mul(r, big.NewRat(1000, 1)); !ok || !r.IsInt() {
		t.Fatalf("%q", n)
	}
	return r.Num().Int64()
}

func argument(e plain, key string) int64 {
	switch v := e.Args[key].(type) {
	case json.Number:
		n, _ := v.Int64()
		return n
	case []any:
		n := int64(1)
		for _, x := range v {
			k, _ := x.(json.Number).Int64()
			n *= k
		}
		return n
	}
	return 0
}

// expected lists what a trace of tracetest holds, by the rules of this
// package but from another decoder.
func expected(t *testing.T, text []byte) (events int, rows []string) {
	t.Helper()
	all := plainEvents(t, text)
	for _, e := range all {
		if e.Ph != "X" && e.Name != "[memory]" {
			continue
		}
		start := exact(t, e.Ts)
		if e.Name == "[memory]" {
			rows = append(rows, fmt.Sprintf("memory %d %d %d %d", start, argument(e, "Bytes"), argument(e, "Total Allocated"), argument(e, "Total Reserved")))
			continue
		}
		row := fmt.Sprintf("%s %d %d ", e.Name, start, start+exact(t, e.Dur))
		switch strings.ToLower(e.Cat) {
		case "kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset":
			row += fmt.Sprintf("device %d %d %d %d %d %d", argument(e, "correlation"), argument(e, "External id"), argument(e, "stream"), argument(e, "bytes"), argument(e, "grid"), argument(e, "block"))
		case "cuda_runtime", "runtime":
			row += fmt.Sprintf("api %d", argument(e, "correlation"))
		default:
			seq := int64(0)
			if _, ok := e.Args["Sequence number"]; ok {
				seq = argument(e, "Sequence number") + 1
			}
			stack, _ := e.Args["Call stack"].(string)
			frames := strings.Split(stack, ";")
			slices.Reverse(frames)
			args := ""
			if _, ok := e.Args["Input Dims"]; ok && opcost.Known(e.Name) {
				var parts []string
				for _, key := range []string{"Input Dims", "Input type", "Input Strides", "Concrete Inputs"} {
					parts = append(parts, compact(t, e.Args[key]))
				}
				args = model.ArgsMark + strings.Join(parts, opcost.Separator)
			}
			row += fmt.Sprintf("host %d %d %s%s", argument(e, "External id"), seq, strings.Join(frames, ";"), args)
		}
		rows = append(rows, row)
	}
	slices.Sort(rows)
	return len(all), rows
}

// compact is a value as JSON without spaces, "" without one.
func compact(t *testing.T, v any) string {
	t.Helper()
	if v == nil {
		return ""
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), " ", "")
}

func rowsOf(tr *model.Trace) []string {
	rows := make([]string, 0, len(tr.Host)+len(tr.GPU)+len(tr.Memory))
	for _, h := range tr.Host {
		row := fmt.Sprintf("%s %d %d ", tr.Name(h.Name), h.Start, h.End)
		if h.Kind == model.API {
			row += fmt.Sprintf("api %d", h.Corr)
		} else {
			row += fmt.Sprintf("host %d %d %s", h.Corr, h.Seq, tr.StackOf(&h))
			if args := tr.ArgsOf(&h); args != "" {
				row += model.ArgsMark + strings.ReplaceAll(args, " ", "")
			}
		}
		rows = append(rows, row)
	}
	for _, g := range tr.GPU {
		rows = append(rows, fmt.Sprintf("%s %d %d device %d %d %d %d %d %d", tr.Name(g.Name), g.Start, g.End, g.Corr, g.Ext, g.Stream, g.Bytes, g.Blocks, g.Threads))
	}
	for _, m := range tr.Memory {
		rows = append(rows, fmt.Sprintf("memory %d %d %d %d", m.At, m.Bytes, m.Allocated, m.Reserved))
	}
	slices.Sort(rows)
	return rows
}

// TestAgainstEncodingJSON reads traces in every form, through readers that give them
// in pieces, with every number of parsers. Of the several megabytes of a trace a quarter is
// still several of the largest blocks below.
func TestAgainstEncodingJSON(t *testing.T) { againstEncodingJSON(t, 4) }

func againstEncodingJSON(t *testing.T, part int64) {
	t.Helper()
	for _, o := range []tracetest.Options{
		{Seed: 1, Bytes: 4 << 20, Python: true, Stacks: true, Memory: true, Rank: 2, World: 4},
		{Seed: 2, Bytes: 3 << 20, Old: true, Stacks: true, Memory: true},
		{Seed: 3, Bytes: 3 << 20, Array: true},
		{Seed: 4, Bytes: 2 << 20, Compact: true, Layers: 3},
		{Seed: 5, Bytes: 1 << 20, Array: true, Compact: true, Python: true},
	} {
		o.Bytes /= part
		t.Run(fmt.Sprintf("seed %d", o.Seed), func(t *testing.T) {
			var text bytes.Buffer
			stats, err := tracetest.Write(&text, o)
			if err != nil {
				t.Fatal(err)
			}
			events, want := expected(t, text.Bytes())
			readers := map[string]io.Reader{
				"plain": bytes.NewReader(text.Bytes()),
				"gzip":  strings.NewReader(gz(text.String())),
				"zstd":  strings.NewReader(zst(t, text.String())),
				"half":  iotest.HalfReader(bytes.NewReader(text.Bytes())),
				"late":  iotest.DataErrReader(bytes.NewReader(text.Bytes())),
			}
			if o.Bytes <= 1<<20 {
				readers["bytewise"] = iotest.OneByteReader(bytes.NewReader(text.Bytes()))
			}
			parsers := 0
			for name, r := range readers {
				block := 1 << (9 + 3*parsers) // most events are cut in the smallest
				parsers = parsers%4 + 1
				tr, err := read(context.Background(), r, name, readOptions{parsers: parsers, block: block})
				if err != nil {
					t.Fatal(err)
				}
				if tr.Events != events || tr.Events != stats.Events || len(tr.Warnings) > 0 {
					t.Errorf("%s: %d events, want %d (%d written); %v", name, tr.Events, events, stats.Events, tr.Warnings)
				}
				if got := rowsOf(tr); !slices.Equal(got, want) {
					t.Errorf("%s: rows differ, %d and %d: %s", name, len(got), len(want), firstDifference(got, want))
				}
				checkOrder(t, tr)
				if o.World > 0 && (tr.Rank != o.Rank || tr.World != o.World) {
					t.Errorf("rank %d of %d", tr.Rank, tr.World)
				}
			}
		})
	}
}

func firstDifference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return a[i] + " | " + b[i]
		}
	}
	return ""
}

func checkOrder(t *testing.T, tr *model.Trace) {
	t.Helper()
	if !slices.IsSortedFunc(tr.Host, func(a, b model.Host) int {
		return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	}) {
		t.Error("host events are not in order")
	}
	if !slices.IsSortedFunc(tr.GPU, func(a, b model.GPU) int { return cmp.Compare(a.Start, b.Start) }) {
		t.Error("device events are not in order")
	}
}

// TestSameForAnyNumberOfParsers asks for the same numbers for names, lanes and
// stacks too, with events that cannot be read and names that look like events
// among the others.
func TestSameForAnyNumberOfParsers(t *testing.T) {
	var text bytes.Buffer
	if _, err := tracetest.Write(&text, tracetest.Options{Seed: 9, Bytes: 6 << 20, Stacks: true, Python: true}); err != nil {
		t.Fatal(err)
	}
	parts := bytes.SplitAfter(text.Bytes(), []byte("},\n  {"))
	var broken bytes.Buffer
	for i, part := range parts {
		broken.Write(part)
		switch {
		case i == 0 || i == len(parts)-1:
		case i%997 == 0:
			broken.WriteString(`"ph": "X", "cat": "cpu_op", "name": "nested", "args": {"list": [{"name": 1}, {"name": 2}, {"ph": "X", "cat": "cpu_op"}]}, "pid": 1, "tid": 1, "ts": 1700000000123456, "dur": 1}, {`)
		case i%1499 == 0:
			broken.WriteString(`"ph": "X", "cat": "cpu_op", "name": "a "quoted", "name", "pid": 1, "tid": 1, "ts": 1700000000123457, "dur": 1}, {`)
		case i%2003 == 0:
			broken.WriteString(`"ph": "X", "cat": "cpu_op" "name": unreadable}, {`)
		}
	}
	var first *model.Trace
	for parsers := 1; parsers <= 4; parsers++ {
		tr, err := read(context.Background(), bytes.NewReader(broken.Bytes()), "t", readOptions{parsers: parsers, block: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = tr
			if n := strings.Count(broken.String(), `"nested"`); countName(tr, "nested") != n || n == 0 {
				t.Errorf("%d events with nested arguments, want %d", countName(tr, "nested"), n)
			}
			if n := strings.Count(broken.String(), `"a "quoted"`); countName(tr, `a "quoted", "name`) != n || n == 0 {
				t.Errorf("%d events with quotation marks, want %d", countName(tr, `a "quoted", "name`), n)
			}
			continue
		}
		if tr.Events != first.Events || !slices.Equal(tr.Names, first.Names) || !slices.Equal(tr.Lanes, first.Lanes) || !slices.Equal(tr.Stacks, first.Stacks) ||
			!slices.Equal(tr.Host, first.Host) || !slices.Equal(tr.GPU, first.GPU) || !slices.Equal(tr.Warnings, first.Warnings) {
			t.Errorf("%d parsers give another trace: %d and %d events, %v and %v", parsers, tr.Events, first.Events, tr.Warnings, first.Warnings)
		}
	}
}

func countName(tr *model.Trace, name string) int {
	n := 0
	for i := range tr.Host {
		if tr.Name(tr.Host[i].Name) == name {
			n++
		}
	}
	return n
}

// TestNothingPerEvent holds parsing to no allocation for events.
func TestNothingPerEvent(t *testing.T) {
	var text bytes.Buffer
	if _, err := tracetest.Write(&text, tracetest.Options{Bytes: 1 << 20, Array: true, Python: true, Stacks: true, Memory: true}); err != nil {
		t.Fatal(err)
	}
	n := text.Len()
	buf := growBuffer(text.Bytes(), n)
	writePadding(buf, n)
	p := newParser(0)
	p.parseEvents(buf, n, 1, 0, true)
	events := p.out.events
	if got := testing.AllocsPerRun(5, func() { p.parseEvents(buf, n, 1, 0, true) }); got > 8 {
		t.Errorf("%v allocations for %d events", got, events)
	}
}
