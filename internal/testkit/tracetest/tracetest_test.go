package tracetest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
)

func TestWriteIsJSONAndDeterministic(t *testing.T) {
	for _, o := range []tracetest.Options{
		{},
		{Bytes: 300_000, Seed: 1, Python: true, Stacks: true, Memory: true},
		{Bytes: 300_000, Seed: 2, Old: true, Stacks: true, Memory: true},
		{Seed: 3, Array: true, Compact: true},
		{Seed: 4, Compact: true, World: 8, Rank: 3},
	} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			var a, b bytes.Buffer
			stats, err := tracetest.Write(&a, o)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tracetest.Write(&b, o); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a.Bytes(), b.Bytes()) {
				t.Error("two runs differ")
			}
			if stats.Bytes != int64(a.Len()) || stats.Bytes < o.Bytes {
				t.Errorf("wrote %d bytes, says %d, asked for %d", a.Len(), stats.Bytes, o.Bytes)
			}
			var events []map[string]any
			if o.Array {
				err = json.Unmarshal(a.Bytes(), &events)
			} else {
				var doc struct{ TraceEvents []map[string]any }
				err = json.Unmarshal(a.Bytes(), &doc)
				events = doc.TraceEvents
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(events) != stats.Events {
				t.Errorf("%d events, says %d", len(events), stats.Events)
			}
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	const size = 32 << 20
	b.SetBytes(size)
	for b.Loop() {
		if _, err := tracetest.Write(io.Discard, tracetest.Options{Bytes: size}); err != nil {
			b.Fatal(err)
		}
	}
}
