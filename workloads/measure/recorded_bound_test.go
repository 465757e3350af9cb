package measure

import (
	"testing"

	"github.com/gpuprof/gpuprof"
)

// Runs recorded on an H200 with the bounds of then: the GRU in bf16 at 673 % of
// what float32 products would take, the harmonics with 114 to 158 ns for megabytes.
func TestBoundsOfRecordedRuns(t *testing.T) {
	const folder = "../../baselines/nvidia-h200/gpu-check/"
	rates := gpuprof.Ceilings{ // of that call; what it did not measure is set as high as a data sheet has it
		CopyBytesPerS: 4.229e12, ReadBytesPerS: 4.8e12, WriteBytesPerS: 4.8e12, CacheBytesPerS: 12e12,
		FlopsPerS: 51.28e12, FP64FlopsPerS: 34e12, TF32FlopsPerS: 367.8e12, BF16FlopsPerS: 683.8e12, FP16FlopsPerS: 647.3e12, LaunchS: 1e-6,
	}
	const cache = 60 << 20
	for _, r := range recordedRuns(t, folder+"sweeps/gruflow-energyflow-precision.json.gz") {
		s := r.Stage("gru")
		flops := int64(s.Counters["flops"])
		precision := r.Knobs["precision"]
		b := rates.Bound(gpuprof.Cost{Flops: flops}.In(precision, flops), cache)
		share := b.S / s.Device.Median
		if old := s.BoundS / s.Device.Median; precision == "bf16" && old < 2 {
			t.Errorf("the recorded bound of bf16 is %.0f %% of the time, so the recording shows nothing", 100*old)
		}
		if b.Missing != "" || b.By != precision+" arithmetic" || !(share > 0.2 && share <= 1) {
			t.Errorf("precision %s: bound %+v is %.0f %% of %g s", precision, b, 100*share, s.Device.Median)
		}
	}
	for _, preset := range []string{"mace-large", "deepaw", "nequip-lips"} {
		s := recorded(t, folder+"runs/e3nn-"+preset+".json.gz").Stage("sph")
		flops := int64(s.Counters["flops"])
		b := rates.Bound(gpuprof.Cost{Flops: flops, FP64: flops, BytesRead: int64(s.Counters["bytes_read"]), BytesWritten: int64(s.Counters["bytes_written"])}, cache)
		if b.By != "bytes" || b.S < 4*s.BoundS || b.S > s.Device.Median {
			t.Errorf("%s: the harmonics' bound is %+v, recorded bound %g, time %g", preset, b, s.BoundS, s.Device.Median)
		}
	}
}
