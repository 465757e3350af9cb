package memsnap

import (
	"bytes"
	"context"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/memtest"
)

// BenchmarkRead reads a generated snapshot, and counts what is kept of each event.
func BenchmarkRead(b *testing.B) {
	var text bytes.Buffer
	events, err := memtest.Long(&text, 64<<20)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	var kept int64
	for b.Loop() {
		m := newMachine(context.Background(), bytes.NewReader(text.Bytes()), 1<<40)
		if err := m.run(); err != nil {
			b.Fatal(err)
		}
		kept = m.all - m.room
	}
	b.ReportMetric(float64(kept)/float64(events), "B/event")
}

// BenchmarkAnalyze replays a generated snapshot that was read.
func BenchmarkAnalyze(b *testing.B) {
	var text bytes.Buffer
	if _, err := memtest.Long(&text, 64<<20); err != nil {
		b.Fatal(err)
	}
	s := mustRead(b, text.Bytes())
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := Analyze(context.Background(), []*Snapshot{s}, gpuprof.Tool{}, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWhatIf replays the check and every setting; the rate is of events and settings.
func BenchmarkWhatIf(b *testing.B) {
	s := fixture(b, "lengths")
	r := NewReplay(s, 0)
	replays := 0
	for b.Loop() {
		budget := &budget{ctx: b.Context(), left: mostWork}
		_, m, err := r.checkModel(budget, s.stackTraits(), 0)
		if err != nil {
			b.Fatal(err)
		}
		out, whole, err := r.replaySettings(budget, m, &Device{}, Options{})
		if err != nil || !whole {
			b.Fatal(err)
		}
		replays += 1 + len(out)
	}
	b.ReportMetric(float64(replays*r.Events())/b.Elapsed().Seconds()/1e6, "Mevents/s")
}
