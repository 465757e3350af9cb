package memsnap

import (
	"errors"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// A moment has the levels of its event; the peak, the end and the error are those of the
// analysis; and the largest blocks come first.
func TestLook(t *testing.T) {
	a := analyzed(t, fixture(t, "oom"))
	d := &a.Devices[0]
	var all []Level
	var micros []int64
	d.Replay.Levels(func(_ int, _ Action, l Level, at int64) { all, micros = append(all, l), append(micros, at) })
	for text, event := range map[string]int{"peak": d.Peak.Event, "end": d.Events - 1, "oom": d.OOMs[0].Event, "event:0": 0, "event:120": 120, "0s": 0} {
		if err := a.Look(text); err != nil || d.At.Event != event {
			t.Errorf("%s: %v, %+v; want event %d", text, err, d.At, event)
			continue
		}
		if m := &d.At.Moment; text != "end" && (m.Requested != all[event].Requested || m.Reserved != all[event].Reserved) {
			t.Errorf("%s: %d and %d bytes, want %v", text, m.Requested, m.Reserved, all[event])
		}
		checkMoments(t, text, d)
	}
	for n, s := range d.Steps {
		if err := a.Look("step:" + string(rune('1'+n))); err != nil || d.At.Requested != s.Peak || d.At.Step != n+1 {
			t.Errorf("step %d: %v, %+v; its peak is %d", n+1, err, d.At, s.Peak)
		}
	}
	if err := a.Look("3ms"); err != nil || micros[d.At.Event]-micros[0] > 3000 || micros[d.At.Event+1]-micros[0] <= 3000 {
		t.Errorf("%v, %+v: the last event up to 3 ms is meant", err, d.At)
	}
	blocks := d.Peak.Blocks
	for i, b := range blocks {
		if i > 0 && b.Bytes > blocks[i-1].Bytes || b.Where == "" || b.Category == "" {
			t.Errorf("block %d: %+v", i, b)
		}
	}
	if len(blocks) < 5 || len(blocks) > mostBlocks || blocks[0].Bytes != 256<<20 || blocks[0].Blocks != 8 {
		t.Errorf("%d sizes, the first %+v", len(blocks), blocks[0])
	}
}

func TestLookRefuses(t *testing.T) {
	a := analyzed(t, fixture(t, "clean"))
	for _, text := range []string{"", "oom", "step:0", "step:7", "step:x", "step", "event:-1", "event:2274", "event:99999999999999999999", "-1s", "9999h", "middle", "peak:1"} {
		if err := a.Look(text); !errors.Is(err, gpuprof.ErrUsage) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
