package sampler

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"
)

// counted is a quantity that counts its own readings, and those that work.
func counted(name string, works func(reading int) bool) Quantity {
	n := 0
	return Quantity{Name: name, Unit: "1", Read: func() (float64, bool) {
		n++
		return float64(n), works(n)
	}}
}

func always(int) bool { return true }

func TestUnknownReadings(t *testing.T) {
	total := counted("total", func(n int) bool { return n > 1 })
	total.Total = true
	s := Start(t.Context(), time.Hour, []Quantity{counted("once", func(n int) bool { return n == 1 }), counted("never", func(int) bool { return false }), total})
	s.sample()
	tracks := s.Stop()
	if _, ok := tracks["never"]; ok {
		t.Error("a quantity that was never known has a track")
	}
	if v := tracks["once"].Value; len(v) != 3 || v[0] != 1 || !math.IsNaN(float64(v[1])) || !math.IsNaN(float64(v[2])) {
		t.Errorf("%v: a reading that failed must be unknown", v)
	}
	// It counts from the first reading that worked, not from the first.
	if v := tracks["total"].Value; !math.IsNaN(float64(v[0])) || v[1] != 0 || v[2] != 1 {
		t.Errorf("total %v", v)
	}
	if tr := tracks["total"]; tr.Unit != "1" || len(tr.TimeS) != 3 || !slices.IsSorted(tr.TimeS) {
		t.Errorf("%+v", tr)
	}
}

func TestPause(t *testing.T) {
	s := Start(t.Context(), time.Hour, []Quantity{counted("n", always)})
	s.Pause()
	s.sample()
	s.Resume()
	s.sample()
	if v := s.Stop()["n"].Value; len(v) != 3 || v[2] != 3 {
		t.Errorf("%v: a reading was taken while paused", v)
	}
}

// A full track keeps every second reading in the room it has, and the loop goes on.
func TestThins(t *testing.T) {
	s := Start(t.Context(), time.Hour, []Quantity{counted("n", always)})
	for len(s.times) < Capacity {
		s.sample()
	}
	s.thinSamples()
	tr := s.Stop()["n"]
	if len(tr.Value) != Capacity/2+1 || cap(tr.Value) != Capacity || len(tr.TimeS) != len(tr.Value) {
		t.Fatalf("%d values with room for %d at %d times", len(tr.Value), cap(tr.Value), len(tr.TimeS))
	}
	if tr.Value[0] != 1 || tr.Value[1] != 3 || tr.Value[Capacity/2] != Capacity+1 {
		t.Errorf("kept %v, %v … %v", tr.Value[0], tr.Value[1], tr.Value[Capacity/2])
	}
}

func TestEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	read := make(chan struct{}, 8*Capacity)
	s := Start(ctx, time.Millisecond, []Quantity{{Name: "n", Read: func() (float64, bool) {
		read <- struct{}{}
		return 1, true
	}}})
	for range 3 { // it samples by itself
		<-read
	}
	cancel()
	<-s.done
	if n := len(s.Stop()["n"].Value); n < 3 {
		t.Errorf("%d readings are left, want at least the 3 that were taken", n)
	}
}
