package serving

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// Every knob of waits and reads asks the device for the number of waits that it states, on both devices.
func TestWaits(t *testing.T) {
	devices := map[string]device.Device{"host": workloadtest.Host(t, host.Options{}), "cuda": workloadtest.Simulated(t, false)}
	for name, d := range devices {
		for _, c := range []struct {
			set          string
			syncs, reads int64 // in six steps, beyond the default's
		}{
			{"sync=step", 6, 0}, {"sync=every:3", 2, 0}, {"async_copy=off", 12, 0}, {"item_reads=3", 18, 18},
		} {
			usual, got := sixSteps(t, d), sixSteps(t, d, c.set)
			if syncs, reads := got.SyncPoints-usual.SyncPoints, got.CopiesD2H-usual.CopiesD2H; syncs != c.syncs || reads != c.reads {
				t.Errorf("%s on %s: %d synchronizations and %d copies more than the default, want %d and %d", c.set, name, syncs, reads, c.syncs, c.reads)
			}
		}
	}
}

func sixSteps(t *testing.T, d device.Device, set ...string) device.Meter {
	t.Helper()
	s := openOn(t, d, "synthetic", fast(append(set, "max_batch=2")...)...)
	before := d.Meter()
	for i := range 6 {
		if err := s.Step(i, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
	}
	after := d.Meter()
	return device.Meter{SyncPoints: after.SyncPoints - before.SyncPoints, CopiesD2H: after.CopiesD2H - before.CopiesD2H}
}

// There is a graph for each slot and size, and one of another size gives answers that are none.
func TestGraphs(t *testing.T) {
	s := openOn(t, workloadtest.Host(t, host.Options{}), "small", "max_batch=6", "depth=3", "pad=on", "graph=on")
	if want := 3 * 4; s.Input()["graphs"] != want { // 1, 2, 4 and 6
		t.Errorf("%v graphs, want %d", s.Input()["graphs"], want)
	}
	workloadtest.Passes(t, s)
	s.graphs.Of[loop.GraphKey{Slot: 1, Count: 6}] = s.graphs.Of[loop.GraphKey{Slot: 1, Count: 2}]
	workloadtest.Fails(t, s, "answer")
}

// ordered is a network that says in which order it was asked.
type ordered struct {
	network
	calls []string
}

func (o *ordered) warmUp(ctx context.Context, d device.Device, s device.Stream) error {
	o.calls = append(o.calls, "warm")
	return o.network.warmUp(ctx, d, s)
}

func (o *ordered) run(on device.Stream, slot, batch, stage int, p workloads.Probe) error {
	o.calls = append(o.calls, fmt.Sprint("run ", batch))
	return o.network.run(on, slot, batch, stage, p)
}

func (o *ordered) loadTime() time.Duration { return time.Hour }

// The first request comes behind the warm-up, or before it and then with the time of loading.
func TestFirstRequest(t *testing.T) {
	for set, want := range map[string]string{"warm=on": "warm, run 1", "warm=off": "run 1, warm"} {
		s := openOn(t, workloadtest.Host(t, host.Options{}), "small", "max_batch=2", set)
		n := &ordered{network: s.net}
		s.net = n
		if err := s.firstRequest(context.Background()); err != nil || s.wrong > 0 {
			t.Fatal(err, s.wrong)
		}
		if got := strings.Join(n.calls, ", "); got != want || (s.first >= time.Hour) != (set == "warm=off") {
			t.Errorf("%s: %s, the first request took %v", set, got, s.first)
		}
		q, err := s.Serve(context.Background(), load())
		if err != nil || q.Processes[0].FirstS != s.first.Seconds() {
			t.Errorf("%s: %v, %+v", set, err, q)
		}
	}
}
