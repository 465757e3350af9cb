package e3nn

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/loop"
)

// A scale that is a power of two changes no bit of float32 and bf16, nor do the places
// where the norm and the overflow are read, nor how gradients begin.
func TestSettingsThatChangeNoBit(t *testing.T) {
	for _, precision := range []string{"fp32", "tf32", "bf16"} {
		base := []string{"batch=12", "mul=3", "deterministic=on", "precision=" + precision}
		want := trained(t, 5, base...)
		for _, set := range []string{"scaler=static", "scaler=dynamic,found_inf=host", "clip_where=host", "zero=fill", "loss_read=step"} {
			if got := trained(t, 5, append(slices.Clone(base), strings.Split(set, ",")...)...); !slices.Equal(got, want) {
				t.Errorf("%s: %s changes bits of the parameters", precision, set)
			}
		}
	}
	base := []string{"batch=12", "mul=3", "precision=fp16"}
	if slices.Equal(trained(t, 5, base...), trained(t, 5, append(base, "scaler=static")...)) {
		t.Error("a scale changes no bit of fp16, which rounds small gradients away without it")
	}
}

// Micro-batches of half the rows have the gradients of the batch.
func TestTwoHalfBatchesAreTheBatch(t *testing.T) {
	of := func(set ...string) (all []float32) {
		s := openSession(t, "small", append(set, "batch=24", "mul=3", "pass=train", "clip=1000000")...)
		run(t, s, 1)
		for i, p := range s.train.step.Params() {
			all = append(all, read(t, s, s.train.step.Grad(i), len(p.Values))...)
		}
		return all
	}
	want := of()
	for _, set := range []string{"accumulate=2", "accumulate=4,zero=fill", "accumulate=2,layout=mul_ir"} {
		if strings.Contains(set, "mul_ir") {
			want = of("layout=mul_ir")
		}
		got := of(strings.Split(set, ",")...)
		var off, all float64
		for i, v := range want {
			off, all = off+math.Pow(float64(got[i]-v), 2), all+math.Pow(float64(v), 2)
		}
		if e := math.Sqrt(off / all); !(e < 1e-5) {
			t.Errorf("%s: the gradients are off by %.2g", set, e)
		}
	}
}

// Every read by the host is one wait, and stages list every launch.
func TestTrainingWaitsAreCounted(t *testing.T) {
	for _, tt := range []struct {
		set   string
		waits int64
	}{
		{"", 0}, {"clip_where=host", 1}, {"precision=fp16,scaler=dynamic", 0}, {"precision=fp16,scaler=dynamic,found_inf=host,clip_where=host", 2},
		{"loss_read=step", 1}, {"loss_read=every:3", 0}, {"loss_read=every:2", 1}, {"accumulate=3", 0}, {"accumulate=3,zero=fill,loss_read=step,clip_where=host", 2},
	} {
		var set []string
		if tt.set != "" {
			set = strings.Split(tt.set, ",")
		}
		s := openSession(t, "small", append(set, "batch=12", "mul=3", "pass=train")...)
		run(t, s, 3)
		before := s.dev.Meter()
		if err := s.Step(3, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
		m, parts := s.dev.Meter().Sub(before), int64(0)
		for _, st := range s.Stages() {
			parts += st.Cost().Launches
		}
		if m.SyncPoints != tt.waits || m.Launches != parts {
			t.Errorf("%s: %d waits and %d launches, want %d and the %d of the stages", tt.set, m.SyncPoints, m.Launches, tt.waits, parts)
		}
	}
}

// Memory is counted to the byte with what micro-batches need besides.
func TestTrainingMemoryIsCounted(t *testing.T) {
	for _, set := range []string{"accumulate=1", "accumulate=3", "zero=fill", "clip_where=host"} {
		s := openSession(t, "small", "batch=12", "mul=3", "pass=train", set)
		got := inUse(s)
		bound, err := s.countMemory(t.Context(), int64(s.edges))
		if err != nil || got > bound || bound > got+got/8 {
			t.Errorf("%s: %d bytes are in use, the bound is %d, %v", set, got, bound, err)
		}
	}
}
