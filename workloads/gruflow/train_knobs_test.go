package gruflow

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// A scale that is a power of two changes no bit of float32, tf32 and bf16, nor do the places
// where the norm and the overflow are read, nor how gradients begin.
func TestSettingsThatChangeNoBit(t *testing.T) {
	for _, precision := range []string{"fp32", "tf32", "bf16"} {
		base := []string{"window=4", "precision=" + precision}
		want := trained(t, 5, base...)
		for _, set := range []string{"scaler=static", "scaler=dynamic,found_inf=host", "clip_where=host", "zero=fill", "loss_read=step"} {
			if got := trained(t, 5, append(slices.Clone(base), strings.Split(set, ",")...)...); !slices.Equal(got, want) {
				t.Errorf("%s: %s changes bits of the parameters", precision, set)
			}
		}
	}
}

// fp16 loses small gradients of a GRU over 40 steps that a scale saves; bf16 does not need it.
func TestScaledGradients(t *testing.T) {
	gradients := func(set ...string) (all []float64) {
		s := openSession(t, "small", append(set, "pass=train", "flows=64", "hidden=64", "layers=1", "depth=1", "steps=40", "window=1", "clip=1000000")...)
		c := s.newChecker(t.Context())
		// Cotangents as small as those of a mean over many.
		if err := s.send(&s.slots[0], 0, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
		for i := range s.slots[0].groups {
			g := &s.slots[0].groups[i]
			if err := s.run(g); err != nil {
				t.Fatal(err)
			}
			if g.stage == stLoss {
				scale, err := s.train.step.Scale(s.stream)
				if err != nil {
					t.Fatal(err)
				}
				for _, b := range []device.Buffer{s.train.ddose, s.train.dplace} {
					v := make([]float32, b.Len()/4)
					for k := range v[:len(v)-1] { // the last dose is the energy of those that leave
						v[k] = float32(scale) * 1e-5
					}
					if err := op.Send(s.mem.Dev, s.stream, b, v); err != nil {
						t.Fatal(err)
					}
				}
			}
			if g.stage == stClip {
				break
			}
		}
		for _, b := range c.gradsOf(0)[:2] {
			all = append(all, op.As[float64](contents(t, s, b))...)
		}
		return all
	}
	want := gradients()
	off := func(set ...string) float64 {
		var d, n float64
		for i, v := range gradients(set...) {
			d, n = d+(v-want[i])*(v-want[i]), n+want[i]*want[i]
		}
		return math.Sqrt(d / n)
	}
	half, scaled := off("precision=fp16"), off("precision=fp16", "scaler=static")
	brain, same := gradients("precision=bf16"), gradients("precision=bf16", "scaler=static")
	t.Logf("fp16 %.2g, scaled %.2g, bf16 %.2g", half, scaled, off("precision=bf16"))
	if !(scaled < 1e-3 && half > 4*scaled) {
		t.Errorf("the gradients in fp16 are off by %.2g, and with a scale by %.2g", half, scaled)
	}
	if !slices.Equal(brain, same) {
		t.Error("a scale changes bits of bf16")
	}
}

// Every read by the host is one wait.
func TestTrainingWaitsAreCounted(t *testing.T) {
	for _, tt := range []struct {
		set   string
		waits int64
	}{
		{"window=2", 0}, {"clip_where=host", 1}, {"precision=fp16,scaler=dynamic", 0}, {"precision=fp16,scaler=dynamic,found_inf=host,clip_where=host", 2},
		{"loss_read=step", 1}, {"loss_read=every:2", 1}, {"loss_read=every:3", 0}, {"accumulate=3,reset_stats=on", 0}, {"accumulate=3,reset_stats=sync", 3}, {"reset_stats=sync", 1},
	} {
		s := openSession(t, "small", append(slices.Clone(lessonSize), strings.Split(tt.set, ",")...)...)
		run(t, s, 3)
		before := s.mem.Dev.Meter()
		if err := s.Step(3, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
		if m := s.mem.Dev.Meter().Sub(before); m.SyncPoints != tt.waits {
			t.Errorf("%s: %d waits, want %d", tt.set, m.SyncPoints, tt.waits)
		}
	}
}

// What a step of training cannot be, and what other passes have not, is refused by name.
func TestTrainingRefusals(t *testing.T) {
	for _, tt := range []struct {
		set   string
		words []string
	}{
		{"pass=train,accumulate=5", []string{"accumulate=5", "flows=256", "divide"}},
		{"pass=train,scaler=dynamic", []string{"scaler=dynamic", "precision=fp32", "no bit"}},
		{"pass=train,scaler=static,precision=bf16", []string{"scaler=static", "precision=bf16"}},
		{"pass=train,scaler=static,precision=tf32", []string{"scaler=static", "precision=tf32"}},
		{"pass=train,found_inf=host", []string{"found_inf=host", "scaler=off"}},
		{"pass=train,graph=on,clip_where=host", []string{"clip_where=host", "graph=on"}},
		{"pass=train,graph=on,scaler=dynamic,precision=fp16,found_inf=host", []string{"found_inf=host", "graph=on"}},
		{"pass=train,graph=on,accumulate=2,reset_stats=on", []string{"reset_stats=on", "graph=on", "accumulate=2"}},
		{"accumulate=2", []string{"accumulate=2", "pass=forward"}},
		{"scaler=dynamic,precision=fp16", []string{"scaler=dynamic", "pass=forward"}},
		{"clip_where=host", []string{"clip_where=host", "pass=forward"}},
		{"loss_read=step", []string{"loss_read=step", "pass=forward"}},
		{"zero=fill", []string{"zero=fill", "pass=forward"}},
	} {
		err := New().Refuse(device.Info{Kind: "host", MaxThreads: 8}, resolve(t, "small", strings.Split(tt.set, ",")...).Knobs)
		for _, w := range tt.words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, want %q in it", tt.set, err, w)
			}
		}
	}
}

// Gradients filled with zeros cost a launch per tensor and four written bytes per parameter;
// nothing else that a step writes changes.
func TestZerosAreCounted(t *testing.T) {
	costs := func(zero string) (fills int, filled int64, all gpuprof.Cost, params int64, tensors int) {
		s := openSession(t, "small", append(slices.Clone(lessonSize), "window=3", "zero="+zero)...)
		for _, st := range s.Stages() {
			all = all.Add(st.Cost())
			for _, p := range st.Parts {
				if st.Name == "loss" && p.Kernel == "fill" {
					fills, filled = fills+1, filled+p.Cost.BytesWritten
				}
			}
		}
		for _, p := range s.train.step.Params() {
			params, tensors = params+int64(len(p.Values)), tensors+1
		}
		return fills, filled, all, params, tensors
	}
	fills, filled, with, params, tensors := costs("fill")
	if none, _, without, _, _ := costs("overwrite"); none != 0 || fills != tensors || filled != 4*params ||
		with.BytesWritten-without.BytesWritten != filled || with.Launches-without.Launches != int64(fills) {
		t.Errorf("%d launches of zeros (%d without) fill %d bytes of %d tensors of %d parameters; a step writes %d bytes more in %d launches more",
			fills, none, filled, tensors, params, with.BytesWritten-without.BytesWritten, with.Launches-without.Launches)
	}
}
