package measure

import (
	"math"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// TestDeviceClock: the reading beside the last sample, not one of an idle device
// after it, and none where nothing is known.
func TestDeviceClock(t *testing.T) {
	track := func(values ...float64) gpuprof.Track {
		out := gpuprof.Track{Unit: "Hz"}
		for i, v := range values {
			out.TimeS, out.Value = append(out.TimeS, float64(i)), append(out.Value, gpuprof.Number(v))
		}
		return out
	}
	for name, c := range map[string]struct {
		track gpuprof.Track
		want  float64
	}{
		"while sampling":        {track(1e9, 1.98e9, 1.5e9, 3e8, 3e8), 1.5e9},
		"not known at the end":  {track(1e9, 1.98e9, math.NaN(), 3e8), 1.98e9},
		"only known afterwards": {track(math.NaN(), math.NaN(), math.NaN(), 3e8, 2e8), 3e8},
		"never known":           {track(math.NaN(), 0), 0},
		"nothing was watched":   {gpuprof.Track{}, 0},
	} {
		r := &runner{run: &gpuprof.Run{Device: gpuprof.Env{Kind: "cuda"}, Telemetry: map[string]gpuprof.Track{"gpu_sm_clock": c.track, "cpu_frequency": track(4e9)},
			Order: []gpuprof.Order{{StartS: 1}, {StartS: 2.5}}}}
		if got := r.deviceClock(); got != c.want {
			t.Errorf("%s: %g Hz, want %g", name, got, c.want)
		}
	}
}
