//go:build !race

// One goroutine replays, which takes ten times as long under the race detector.

package memsnap

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/pool"
	"github.com/gpuprof/gpuprof/internal/testkit/memtest"
)

// scattered takes n blocks and frees every second one: so many pieces are free at once.
func scattered(t *testing.T, n int) *Snapshot {
	t.Helper()
	r := memtest.New(2, 15)
	var held []*pool.Block
	for range n {
		held = append(held, r.Alloc(512, nil))
	}
	for i := n - 1; i >= 0; i -= 2 { // from above, so that each goes before all others
		r.Free(held[i], nil)
	}
	return mustRead(t, memtest.Python(r.Snapshot(), 4))
}

// A recording with many free blocks at once is replayed with every setting: an event looks at few of them.
func TestManyFreeBlocks(t *testing.T) {
	blocks := 40_000 // half of them are free at once, forty times the entries that the bound allows an event
	if nightly {
		blocks = 200_000
	}
	s := scattered(t, blocks)
	r := NewReplay(s, 0)
	b := &budget{ctx: t.Context(), left: mostWork}
	check, m, err := r.checkModel(b, s.stackTraits(), 0)
	if err != nil || !check.Passed {
		t.Fatalf("%+v, %v", check, err)
	}
	out, whole, err := r.replaySettings(b, m, &Device{}, Options{})
	if per := (mostWork - b.left) / int64(r.Events()*(1+len(out))); err != nil || !whole || per > 500 {
		t.Errorf("%d entries for each event and setting, %v, %v", per, whole, err)
	}
}

// The work of a replay is bounded, whatever the file holds. What needs no
// replay is still said, and why there is none.
func TestWorkIsBounded(t *testing.T) {
	s := scattered(t, 40_000)
	r := NewReplay(s, 0)
	b := &budget{ctx: t.Context(), left: 1 << 20}
	check, m, err := r.checkModel(b, s.stackTraits(), 0)
	if err != nil || check.Passed || check.Reason != reasonWork {
		t.Fatalf("%+v, %v", check, err)
	}
	if done := m.p.Work(); done > 1<<20+40_000 {
		t.Errorf("%d entries were looked at, with %d allowed", done, 1<<20)
	}
	// Enough for the check, and not for all settings.
	b = &budget{ctx: t.Context(), left: mostWork}
	check, m, err = r.checkModel(b, s.stackTraits(), 0)
	if err != nil || !check.Passed {
		t.Fatalf("%+v after %d entries, %v", check, m.p.Work(), err)
	}
	b.left = 1 << 20
	out, whole, err := r.replaySettings(b, m, &Device{}, Options{})
	if err != nil || whole || len(out) > 0 {
		t.Errorf("%d settings, whole %v, %v; a part of them would pass for all", len(out), whole, err)
	}
	a := &Analysis{Devices: []Device{{Events: 1, Complete: true, Inferred: true, Replay: r, Check: Check{Reason: reasonWork}}}}
	a.addWarnings([]*Snapshot{s})
	if !slices.ContainsFunc(a.Warnings, func(w gpuprof.Warning) bool { return w.Code == "replay-stopped" }) {
		t.Errorf("%+v", a.Warnings)
	}
}

// ending is a context that ends when it is asked for the n-th time.
type ending struct {
	context.Context
	asked, last int
}

func (e *ending) Err() error {
	if e.asked++; e.asked >= e.last {
		return context.Canceled
	}
	return nil
}

// A replay ends with its context, at most 1024 events later.
func TestReplayIsCancelled(t *testing.T) {
	s := scattered(t, 4_000)
	ctx := &ending{Context: t.Context(), last: 3} // the first is asked for before the device
	_, err := Analyze(ctx, []*Snapshot{s}, gpuprof.Tool{}, Options{})
	if !errors.Is(err, context.Canceled) || ctx.asked != ctx.last {
		t.Errorf("%v, asked %d times", err, ctx.asked)
	}
}

// The bound is far above what real recordings need.
func TestWorkOfRecordings(t *testing.T) {
	for _, name := range fixtures(t) {
		s := fixture(t, name)
		r := NewReplay(s, 0)
		b := &budget{ctx: t.Context(), left: mostWork}
		check, m, err := r.checkModel(b, s.stackTraits(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if !check.Passed {
			continue
		}
		out, whole, err := r.replaySettings(b, m, &Device{}, Options{})
		if per := float64(mostWork-b.left) / float64(r.Events()*(1+3*len(out))); err != nil || !whole || per > 100 {
			t.Errorf("%s: %.1f entries for each event and setting, %v", name, per, err)
		}
	}
}

// Ranges of pages: the ranges at the end minus the ranges that came later.
func TestSpansOfPages(t *testing.T) {
	got := coveredSpans([]edge{{0, 1}, {100, -1}, {20, -1}, {40, 1}, {200, 1}, {240, -1}, {240, 1}, {260, -1}})
	want := []span{{0, 20, true}, {40, 100, true}, {200, 260, true}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
