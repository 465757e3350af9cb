package op

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

func TestArena(t *testing.T) {
	r := newRig(t, 1)
	before := r.dev.Memory().InUse
	a := &Arena{Dev: r.dev}
	want := []float32{1, -2.5, 3}
	up := a.Upload(r.s, "weights", want)
	empty, early := a.Upload(r.s, "nothing", nil), a.Bytes("a batch", 100, device.OnDevice)
	if a.Err != nil || up.Len() != 12 || empty.Len() != 4 || early.Len() != 100 {
		t.Fatalf("%v, %v, %v, error %v", up, empty, early, a.Err)
	}
	if got, err := Receive(r.dev, r.s, up, 0, 3); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v came back, error %v", got, err)
	}
	if err := Send(r.dev, r.s, up, []float32{7}); err != nil {
		t.Fatal(err)
	}
	if got, err := Receive(r.dev, r.s, up, 1, 2); err != nil || !slices.Equal(got, want[1:]) {
		t.Errorf("%v came back from element 1, error %v", got, err)
	}
	if got, err := Receive(r.dev, r.s, up, 3, 0); err != nil || len(got) != 0 {
		t.Errorf("%v came back of nothing, error %v", got, err)
	}
	// Through the staging buffer, and past it.
	long := a.Upload(r.s, "many", make([]float32, stagingBytes))
	for _, n := range []int{0, 1, stagingBytes / floatBytes, stagingBytes/floatBytes + 1} {
		if got, err := a.Receive(r.s, up, 1, min(n, 2)); err != nil || !slices.Equal(got, want[1:][:min(n, 2)]) {
			t.Errorf("%v came back from element 1, error %v", got, err)
		}
		if got, err := a.Receive(r.s, long, 0, n); err != nil || len(got) != n || n > 0 && got[n-1] != 0 {
			t.Errorf("%d elements came back, want %d, error %v", len(got), n, err)
		}
	}
	if err := errors.Join(a.Drop(early), a.Drop(nil), a.Free()); err != nil {
		t.Error(err)
	}
	if use := r.dev.Memory().InUse; use != before {
		t.Errorf("%d bytes in use after Free, %d before", use, before)
	}
}

// TestArenaKeepsItsFirstError: a list of requests needs one look at Err.
func TestArenaKeepsItsFirstError(t *testing.T) {
	r := newRig(t, 1)
	for name, ask := range map[string]func(*Arena) device.Buffer{
		"too much": func(a *Arena) device.Buffer { return a.Words("the moon", 1<<50, device.OnDevice) },
		"overflow": func(a *Arena) device.Buffer { return a.Words("the moon", math.MaxInt/2, device.OnDevice) },
	} {
		a := &Arena{Dev: r.dev}
		a.Words("the result", 4, device.OnDevice)
		if b := ask(a); b != nil || !errors.Is(a.Err, gpuprof.ErrMemory) || !strings.HasPrefix(a.Err.Error(), "allocating the moon: ") {
			t.Errorf("%s: %v, error %v", name, b, a.Err)
		}
		first := a.Err
		if a.Upload(r.s, "later", []float32{1}) != nil || a.Words("overflow", math.MaxInt, device.OnDevice) != nil || !errors.Is(a.Err, first) {
			t.Errorf("%s: after %v came %v", name, first, a.Err)
		}
		if err := a.Free(); err != nil {
			t.Error(err)
		}
	}
}
