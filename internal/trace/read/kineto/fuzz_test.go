package kineto

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

func FuzzRead(f *testing.F) {
	for _, o := range []tracetest.Options{{Layers: 1, Steps: 1, Python: true, Stacks: true, Memory: true, World: 2}, {Layers: 1, Steps: 1, Old: true, Array: true, Compact: true}} {
		var b bytes.Buffer
		if _, err := tracetest.Write(&b, o); err != nil {
			f.Fatal(err)
		}
		// The ends of a file of some 20 kB: small inputs mutate faster.
		f.Add(b.Bytes()[:3000])
		f.Add(append(b.Bytes()[:1000:1000], b.Bytes()[b.Len()-1000:]...))
	}
	f.Add([]byte(gz(list(op("a", 1)))))
	f.Add([]byte(list(op(`a "b", "c`, 1), `{"ph":"B","cat":"kernel","name":"k","pid":0,"tid":"stream 7","ts":1e3}`, `{"ph":"E","pid":0,"tid":"stream 7","ts":"2.5"}`)))
	f.Add([]byte(`{"deviceProperties":[{"id":0,"name":"a"}],"distributedInfo":{"rank":1},"baseTimeNanoseconds":17,"traceEvents":[{"ph":"i","name":"[memory]","ts":1},{]}`))
	f.Add([]byte(`[{"ph":"X","args":{"grid":[1,-2,9999999999],"block":[[]],"Call stack":";;a;"},"cat":"Kernel","ts":-1,"dur":1e99}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		// Blocks are small, so that short inputs are cut too.
		tr, err := readAlone(data, 256)
		if err != nil {
			if !errors.Is(err, gpuprof.ErrInput) {
				t.Fatalf("%v is no input error", err)
			}
			return
		}
		checkSound(t, tr)
		if !json.Valid(data) {
			return
		}
		whole, err := readAlone(data, 1<<20)
		if err != nil {
			t.Fatalf("in one block: %v", err)
		}
		if a, b := show(tr), show(whole); a != b {
			t.Fatalf("in small blocks\n%s\nin one\n%s", a, b)
		}
	})
}

// readAlone is Read without goroutines: fuzzing is blind where the order of
// work differs from run to run.
func readAlone(data []byte, size int) (*model.Trace, error) {
	tr, _, err := readCounted(data, size)
	return tr, err
}

// readCounted also returns how many bytes were looked at, each as often as it was.
func readCounted(data []byte, size int) (tr *model.Trace, looked int64, err error) {
	src := openSource(bytes.NewReader(data), size)
	defer src.close()
	if src.empty {
		return nil, 0, gpuprof.Errorf(gpuprof.ErrInput, "empty")
	}
	m, p := newMerger("fuzz", 1), newParser(1)
	for first := true; ; first = false {
		k := &block{}
		if !src.nextBlock(k) {
			break
		}
		var guess *batch
		if !first {
			guess = p.parseEvents(k.buf, k.n, 0, k.at, false)
		}
		m.mergeBlock(k, guess)
	}
	m.finishText()
	tr, err = m.buildTrace(src)
	return tr, m.ownParser.looked + p.looked, err
}

// checkSound holds a trace to what its users rely on.
func checkSound(t *testing.T, tr *model.Trace) {
	t.Helper()
	for _, h := range tr.Host {
		if h.End < h.Start || int(h.Lane) >= len(tr.Lanes) || int(h.Name) >= len(tr.Names) || int(h.Stack) > len(tr.Stacks) || h.Kind < model.Op || h.Kind > model.Instant {
			t.Fatalf("unsound host event %+v", h)
		}
	}
	for _, g := range tr.GPU {
		if g.End < g.Start || int(g.Device) >= len(tr.Devices) || int(g.Name) >= len(tr.Names) || int(g.Launch) >= len(tr.Host) || g.Kind < model.Kernel || g.Blocks < 0 || g.Threads < 0 || g.Bytes < 0 {
			t.Fatalf("unsound device event %+v", g)
		}
	}
	for _, m := range tr.Memory {
		if int(m.Lane) >= len(tr.Lanes) {
			t.Fatalf("unsound allocation %+v", m)
		}
	}
	for _, s := range append(tr.Names, tr.Stacks...) {
		if !utf8.ValidString(s) {
			t.Fatalf("%q is no UTF-8", s)
		}
	}
	checkOrder(t, tr)
}

// TestHostileText holds files made to be slow to an amount of work in
// proportion to their length: a search that starts over for every event, or a
// text read again for every block, looks at a hundred times as many bytes.
func TestHostileText(t *testing.T) {
	const size, blocks, most = 1 << 18, 1 << 12, 20
	first := `[` + op("a", 1) + ","
	for name, unit := range map[string]string{
		"open braces":            `{"ph":{{{{},`,
		"open braces, events":    `{"x":{"ph":{{{{}},{"ph":{{`,
		"open strings":           `},{"ph":"x`,
		"open names":             `{"ph":"X","name":"abc},`,
		"open brackets":          `[`,
		"closed brackets":        `]`,
		"closed braces":          `}`,
		"marks":                  `"`,
		"backslashes":            `\`,
		"backslashes and marks":  `\\\\\\"x`,
		"commas":                 `,`,
		"unknown first keys":     `{"zzz" bad},`,
		"unknown keys, unclosed": `{"zzz":[[{"a" bad},`,
		"spaces":                 ` `,
		"braces and spaces":      `{     `,
		"no separators":          op("a", 1),
		"careful names":          `{"ph":"X","name":"a"b, "c": d"e, "pid":1 "tid"},`,
		"one long string":        `abc `,
	} {
		t.Run(name, func(t *testing.T) {
			text := first
			if name == "one long string" {
				text += `{"ph":"X","name":"`
			}
			text += strings.Repeat(unit, size/len(unit))
			tr, looked, err := readCounted([]byte(text), blocks)
			if err != nil {
				t.Fatal(err)
			}
			if len(tr.Host) == 0 {
				t.Error("the good event was lost")
			}
			each := float64(looked) / float64(len(text))
			if t.Logf("each byte was looked at %.2f times", each); each > most || each < 0.5 {
				t.Errorf("each byte was looked at %.1f times, want %d at most", each, most)
			}
		})
	}
}

// TestMemoryStaysFlat reads text of which hardly anything is kept.
func TestMemoryStaysFlat(t *testing.T) {
	flow := `{"ph": "s", "id": 8198, "pid": 19392, "tid": 19392, "ts": 1419247333072.495, "cat": "fwdbwd", "name": "fwdbwd"},` + "\n"
	var before, after runtime.MemStats
	r, w := io.Pipe()
	go func() {
		_, _ = w.Write([]byte("[" + op("a", 1) + ",\n"))
		many := bytes.Repeat([]byte(flow), 1000)
		for range 400 {
			_, _ = w.Write(many)
		}
		_ = w.Close()
	}()
	runtime.GC()
	runtime.ReadMemStats(&before)
	tr, err := Read(context.Background(), r, "t", 0)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if tr.Events != 400_001 {
		t.Errorf("%d events", tr.Events)
	}
	text := uint64(400_000 * len(flow))
	if got := after.TotalAlloc - before.TotalAlloc; got > text/2 {
		t.Errorf("allocated %d bytes for %d bytes of text", got, text)
	}
}
