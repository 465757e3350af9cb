package resnet

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// A search times every way of every convolution, and names one of them for each.
func TestTune(t *testing.T) {
	d := workloadtest.Host(t, host.Options{})
	s, err := d.NewStream("tune")
	if err != nil {
		t.Fatal(err)
	}
	workloadtest.Closing(t, s)
	o := Options{Shape: Small(), MaxBatch: 2, Slots: 3}
	got, err := Tune(context.Background(), d, s, o)
	if err != nil {
		t.Fatal(err)
	}
	names := o.Names()
	convs := names[:len(names)-1] // the linear layer has one way
	if got.Tried != 3*len(convs) || len(got.Ways) != len(convs) {
		t.Errorf("%+v, want %d ways of each of %v", got, 3, convs)
	}
	for _, name := range convs {
		if !slices.Contains(ownWays(), got.Ways[name]) {
			t.Errorf("%s is computed by %q", name, got.Ways[name])
		}
	}
	if in := d.Memory().InUse; in != 0 {
		t.Errorf("%d bytes are left", in)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Tune(ctx, d, s, o); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A way four times as slow as the best is not run again.
func TestFarOff(t *testing.T) {
	d := workloadtest.Host(t, host.Options{})
	n, s := opened(t, d, Options{Shape: Small(), MaxBatch: 2, Slots: 1})
	from, _ := d.NewEvent()
	to, _ := d.NewEvent()
	for best, passes := range map[int64]int64{0: 1, 1 << 62: 4} {
		before := d.Meter().Launches
		if _, err := n.shortestTime(s, 0, [2]device.Event{from, to}, best); err != nil {
			t.Fatal(err)
		}
		if got := d.Meter().Launches - before; got != passes {
			t.Errorf("%d passes beside a best of %d ns, want %d", got, best, passes)
		}
	}
}

// A network whose convolutions are computed in ways of their own passes the check of each.
func TestMixedWays(t *testing.T) {
	for _, layout := range []string{NHWC, NCHW} {
		for _, precision := range []string{FP32, BF16} {
			o := Options{Shape: Small(), MaxBatch: 3, Slots: 1, Layout: layout, Precision: precision, BN: Apart, Ways: map[string]string{}}
			for i, name := range o.Names() {
				o.Ways[name] = ownWays()[i%3]
			}
			d := workloadtest.Host(t, host.Options{})
			n, s := opened(t, d, o)
			checks, err := n.Check(context.Background(), s, 0, []int{5, 9, 2})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range checks {
				if !c.Pass {
					t.Errorf("%s %s: %+v", layout, precision, c)
				}
			}
			if need := n.o.Memory(d.Info()); d.Memory().InUse != need {
				t.Errorf("%s %s: %d bytes in use, %d were said", layout, precision, d.Memory().InUse, need)
			}
		}
	}
}
