package gpucheck

import (
	"fmt"
	"math"
	"testing"

	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// The smallest difference that the event clock shows.
func TestEventTick(t *testing.T) {
	r := newRig(t)
	marks := r.events(pick(r, 2000, 50))
	for _, e := range marks {
		r.ok(r.s.Record(e))
	}
	r.ok(r.s.Sync())
	tick := math.Inf(1)
	for i := range marks[1:] {
		d := r.between(marks[i], marks[i+1])
		if d < 0 {
			t.Errorf("event %d lies %g s before the one recorded before it", i+1, -d)
		}
		if d > 0 {
			tick = min(tick, d)
		}
	}
	if math.IsInf(tick, 1) {
		t.Fatalf("%d events all have the same time", len(marks))
	}
	r.keep(figure{Name: "protocol/event_tick", Unit: "s", Value: &tick, Limit: "at most 2 us", Pass: ptr(tick <= 2e-6)})
}

// Kernels that run for a known time are measured as long as they are: over 5
// to 1,000 us the measured time grows by 1 for 1, within half a percent. What a
// launch costs is the same for all and stands in the offset.
func TestSpinSlope(t *testing.T) {
	r := newRig(t)
	f, err := r.dev.Load(&device.Kernel{Name: "spin", Sig: "i"})
	r.ok(err)
	var asked, took []float64
	for _, us := range []int{5, 10, 20, 50, 100, 200, 500, 1000} {
		var args device.Args
		args.SetInt(0, us*1000)
		got := median(r.clock(pick(r, 41, 3), func() error { return r.s.Launch(f, 1, &args) }))
		if got < float64(us)*1e-6*0.9 {
			t.Errorf("a kernel of %d us was measured as %.3g us", us, got*1e6)
		}
		asked, took = append(asked, float64(us)*1e-6), append(took, got)
	}
	slope := theilSen(asked, took)
	r.keep(figure{Name: "protocol/spin_slope", Unit: "1", Value: &slope, Limit: "1 within 0.5 %", Pass: ptr(math.Abs(slope-1) <= 0.005),
		Extra: map[string]float64{"offset_s": median(took) - slope*median(asked)}})
}

// A kernel too short for the event clock is measured by how much longer more of
// them take. The slope over k, 2k and 4k launches has to be that over 4k, 8k
// and 16k.
func TestShortKernelSlopes(t *testing.T) {
	r := newRig(t)
	k := pick(r, 128, 2)
	out := r.alloc(4*4096, device.OnDevice)
	fill, err := op.Fill{Value: 1}.Bind(r.dev, out, 4096, 0, 0)
	r.ok(err)
	null, err := r.dev.Load(&device.Kernel{Name: "null"})
	r.ok(err)
	for _, kernel := range []struct {
		name string
		run  func() error
	}{
		{"null", func() error { return r.s.Launch(null, 1, &device.Args{}) }},
		{"fill", r.enqueue(fill)},
	} {
		counts := []float64{1, 2, 4, 8, 16}
		ops := make([]device.Op, len(counts))
		for i := range counts {
			counts[i] *= float64(k)
			ops[i], err = r.dev.Capture(r.s, func() error {
				for range int(counts[i]) {
					if err := kernel.run(); err != nil {
						return err
					}
				}
				return nil
			})
			r.ok(err)
			if n := len(ops[i].Parts()); n != int(counts[i]) {
				t.Fatalf("a capture of %g launches has %d", counts[i], n)
			}
		}
		times := make([][]float64, len(counts))
		for range pick(r, 15, 2) { // in turn, so that a drift meets all of them
			for i, o := range ops {
				times[i] = append(times[i], r.clock(1, func() error { return o.Enqueue(r.s) })...)
			}
		}
		var y []float64
		for _, v := range times {
			y = append(y, median(v))
		}
		low, high := theilSen(counts[:3], y[:3]), theilSen(counts[2:], y[2:])
		r.keep(figure{Name: "protocol/short_kernel/" + kernel.name, Unit: "s", Value: &low, Extra: map[string]float64{"from_4k_s": high, "ratio": low / high},
			Limit: "slopes from k and from 4k within 1 %", Pass: ptr(math.Abs(low/high-1) <= 0.01), Note: fmt.Sprintf("k = %d, one graph", k)})
	}
	r.ok(fill.Close())
}

// Reading what the cache holds and what was just driven out of it are told apart.
func TestColdAndHot(t *testing.T) {
	r := newRig(t)
	f, err := r.dev.Load(&device.Kernel{Name: "ceiling_copy", Sig: "bb"})
	r.ok(err)
	size := int(pick(r, max(r.dev.Info().CacheBytes, 8<<20)/5, 64<<10)) &^ 4095
	x, y := upload(r, r.random(size/4)), r.alloc(size, device.OnDevice)
	r.poison(y)
	var args device.Args
	args.SetBuf(0, y)
	args.SetBuf(1, x)
	launch := func() error { return r.s.Launch(f, size/16, &args) }
	rounds, n := pick(r, 8, 2), pick(r, 10, 2)
	var hot, cold [][]float64
	for range rounds {
		r.clock(3, launch)
		hot = append(hot, r.clock(n, launch))
		marks := r.events(2 * n)
		for i := range n {
			r.ok(r.dev.FlushCache(r.s))
			r.ok(r.s.Record(marks[2*i]))
			r.ok(launch())
			r.ok(r.s.Record(marks[2*i+1]))
		}
		r.ok(r.s.Sync())
		var took []float64
		for i := range n {
			took = append(took, r.between(marks[2*i], marks[2*i+1]))
		}
		cold = append(cold, took)
	}
	a, b := r.download(x, size), r.download(y, size)
	for i, v := range device.Floats(a) {
		if device.Floats(b)[i] != v {
			t.Fatalf("value %d of the copy is %g, expected %g: clearing the cache must not touch it", i, device.Floats(b)[i], v)
		}
	}
	ratio, ok := stats.MedianRatio(cold, hot)
	if !ok {
		t.Fatal("too few blocks for an interval")
	}
	r.keep(figure{Name: "protocol/cold_over_hot", Unit: "1", Value: &ratio.Ratio, Limit: "lower end of the 95 % interval above 1.05", Pass: ptr(ratio.CI95[0] > 1.05),
		Extra: map[string]float64{"ci95_low": ratio.CI95[0], "ci95_high": ratio.CI95[1], "hot_s": median(hot[0]), "cold_s": median(cold[0]), "bytes": float64(size)}})
	r.free(x, y, a, b)
}

// What events cost: a step of twenty kernels of 200 us bare, with an event on
// either side of its four stages, and with one on either side of every kernel,
// in turn. Events around stages are what a run is measured with where they cost
// less than 1 %: on an H100 an event takes 1.65 us, so that the eight of a step
// of 1 ms are too dear, and those of 4 ms, as the main presets have, are not.
func TestOverheadLadder(t *testing.T) {
	const kernels, perStage = 20, 5
	r := newRig(t)
	f, err := r.dev.Load(&device.Kernel{Name: "spin", Sig: "i"})
	r.ok(err)
	var args device.Args
	args.SetInt(0, pick(r, 200_000, 1000))
	marks := r.events(2 * kernels)
	rungs := []int{0, perStage, 1} // launches between events; 0 is none
	step := func(every int) func() error {
		return func() error {
			for i := range kernels {
				if every > 0 && i%every == 0 {
					if err := r.s.Record(marks[2*i]); err != nil {
						return err
					}
				}
				if err := r.s.Launch(f, 1, &args); err != nil {
					return err
				}
				if every > 0 && (i+1)%every == 0 {
					if err := r.s.Record(marks[2*i+1]); err != nil {
						return err
					}
				}
			}
			return nil
		}
	}
	times := make([][][]float64, len(rungs))
	for round := range pick(r, 12, 4) {
		for i := range rungs {
			if round%2 == 1 { // mirrored
				i = len(rungs) - 1 - i
			}
			times[i] = append(times[i], r.clock(pick(r, 8, 2), step(rungs[i])))
		}
	}
	for i, name := range []string{"", "stages", "kernels"} {
		if i == 0 {
			continue
		}
		ratio, ok := stats.MedianRatio(times[i], times[0])
		if !ok {
			t.Fatal("too few blocks for an interval")
		}
		fig := figure{Name: "protocol/ladder/" + name, Unit: "1", Value: &ratio.Ratio, Extra: map[string]float64{"ci95_low": ratio.CI95[0], "ci95_high": ratio.CI95[1],
			"event_s": (ratio.Ratio - 1) * median(times[0][0]) / float64(2*kernels/rungs[i])}}
		if name == "stages" {
			fig.Limit, fig.Pass = "upper end of the 95 % interval at most 1.01", ptr(ratio.CI95[1] <= 1.01)
		}
		r.keep(fig)
	}
}
