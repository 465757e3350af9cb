package op

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
)

// All rows if there are few, otherwise the required ones and random ones, in order and each once.
func TestPickRows(t *testing.T) {
	for n := range 70 {
		rows := PickRows(rand.New(rand.NewPCG(1, 2)), n, 60, 0, n-1)
		switch {
		case !slices.IsSorted(rows) || len(slices.Compact(slices.Clone(rows))) != len(rows):
			t.Errorf("of %d rows: %v", n, rows)
		case n <= 60 && len(rows) != n, n > 60 && (len(rows) < 20 || len(rows) > 62 || rows[0] != 0 || rows[len(rows)-1] != n-1):
			t.Errorf("of %d rows %d were picked: %v", n, len(rows), rows)
		}
	}
}

// After an error a Checker reads zeros of the right length, and keeps that error.
func TestCheckerKeepsItsError(t *testing.T) {
	d, err := host.Open(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := d.NewStream("check")
	if err != nil {
		t.Fatal(err)
	}
	a := &Arena{Dev: d}
	b := a.Upload(s, "three numbers", []float32{1, 2, 3})
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	c := Checker{Mem: a, Stream: s, Errs: make([]ErrorNorm, 1)}
	c.Compare(0, b, 1, []float64{2, 4})
	if got := c.Errs[0].Relative(); got != 1/math.Sqrt(20) || c.Err != nil {
		t.Errorf("error %g, %v", got, c.Err)
	}
	first := errors.New("first")
	if !c.Stops(first) || !c.Stops(errors.New("second")) || !c.Stops(nil) || !errors.Is(c.Err, first) {
		t.Errorf("keeps %v", c.Err)
	}
	if got := c.Read64(b, 0, 3); !slices.Equal(got, []float64{0, 0, 0}) {
		t.Errorf("reads %v after an error", got)
	}
	if err := a.Free(); err != nil {
		t.Error(err)
	}
}

// Need counts what is held at the same time, on the host with host memory, and on a GPU device memory alone.
func TestNeed(t *testing.T) {
	d, err := host.Open(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	failed := errors.New("later")
	open := func(d device.Device) error {
		a := &Arena{Dev: d}
		s, err := d.NewStream("need")
		if err != nil {
			return err
		}
		first := a.Words("a large one", 1000, device.OnDevice)
		a.Words("on the host", 100, device.Pinned)
		if err := a.Drop(first); err != nil {
			return err
		}
		a.Upload(s, "a small one", make([]float32, 10)) // through host memory of the same size
		if a.Err != nil {
			return a.Err
		}
		return failed
	}
	for _, tt := range []struct {
		d    device.Device
		want int64
	}{{d, 4400}, {elsewhere{d}, 4000}} {
		if got, err := Need(tt.d, open); got != tt.want || !errors.Is(err, failed) {
			t.Errorf("%s: %d bytes, want %d, %v", tt.d.Info().Kind, got, tt.want, err)
		}
	}
	if m := d.Memory(); m.Peak != 0 || d.HostMemory().Peak != 0 {
		t.Errorf("counting took %+v", m)
	}
	if Counts(d) {
		t.Error("a device counts")
	}
}

// elsewhere is a device that is not the host.
type elsewhere struct{ device.Device }

func (e elsewhere) Info() device.Info { return device.Info{Kind: "cuda"} }
