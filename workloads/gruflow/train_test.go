package gruflow

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// lessonSize is a training small enough for many runs: carriers leave inside the window.
var lessonSize = []string{"pass=train", "flows=21", "input=5", "hidden=9", "depth=7"}

// Training passes its checks whatever the settings.
func TestTrainingPasses(t *testing.T) {
	for _, set := range []string{
		"window=depth", "window=10,checkpoint=3", "window=4,checkpoint=1,layers=1", "steps=3,layers=3,window=3", "steps=2,checkpoint=2,graph=on",
		"precision=tf32", "precision=bf16,checkpoint=3", "precision=fp16,steps=2", "depth=1,window=3", "window=1,optimizer=foreach",
		"deterministic=off,optimizer=loop,graph=on,flows=90", "fill=on,pool_trim=every:1", "autotune=on,window=2",
		"accumulate=3,window=4,checkpoint=2", "accumulate=3,zero=fill,graph=on,window=2", "zero=fill,clip_where=host,window=3", "precision=fp16,scaler=dynamic,found_inf=host,window=3",
		"precision=fp16,scaler=static,accumulate=3,window=2,clip_where=host,found_inf=host",
		"window=3,windows_kept=4", "accumulate=3,window=2,windows_kept=2,precision=bf16", "window=5,checkpoint=2,windows_kept=3",
	} {
		t.Run(set, func(t *testing.T) { trainingPasses(t, set) })
	}
}

func trainingPasses(t *testing.T, set string) {
	t.Helper()
	s := openSession(t, "small", append(slices.Clone(lessonSize), strings.Split(set, ",")...)...)
	run(t, s, 3)
	for _, c := range workloadtest.PassesWhole(t, s) {
		t.Logf("%s %.2g of %s", c.Stage, float64(c.RelativeError), c.Rows)
	}
}

// trained is all parameters after so many steps.
func trained(t *testing.T, steps int, set ...string) (all []float32) {
	t.Helper()
	s := openSession(t, "small", append(slices.Clone(lessonSize), set...)...)
	run(t, s, steps)
	for _, p := range s.train.step.Params() {
		all = append(all, contents(t, s, p.P)...)
	}
	return all
}

// A hundred steps leave the same bits for any number of threads, launched or replayed, kept
// or made again.
func TestHundredStepsAreBitIdentical(t *testing.T) {
	want := trained(t, 100, "threads=1")
	for _, set := range []string{"threads=2", "threads=all", "graph=on", "checkpoint=3", "checkpoint=1", "windows_kept=3"} {
		if got := trained(t, 100, set); !slices.Equal(got, want) {
			t.Errorf("%s changes bits of the parameters after 100 steps", set)
		}
	}
	if got := trained(t, 100, "lr=0.002"); slices.Equal(got, want) {
		t.Error("the learning rate changes nothing")
	}
}

// The gradients of all parameters equal the whole window's in float64, from the batch and the parameters alone.
func TestGradientsOfTheWholeWindow(t *testing.T) {
	for _, set := range []string{"window=9", "window=9,checkpoint=4", "steps=3,window=4", "depth=1,window=2"} {
		t.Run(set, func(t *testing.T) {
			s := openSession(t, "small", append(append(slices.Clone(lessonSize), "clip=1000000"), strings.Split(set, ",")...)...)
			run(t, s, 1)
			want := refWindow(s, s.params)
			var got, ref []float64
			for l, g := range want.layers {
				for _, v := range [][]float64{g.wi, g.wh, g.bi, g.bh} {
					ref = append(ref, v...)
				}
				b := s.train.u.layers[l].g
				got = append(got, slices.Concat(op.As[float64](contents(t, s, b.wi)), op.As[float64](contents(t, s, b.wh)), op.As[float64](contents(t, s, b.bi)), op.As[float64](contents(t, s, b.bh)))...)
			}
			proj, bias := s.train.projection()
			var e, p op.ErrorNorm
			e.Add(op.As[float32](got), ref)
			p.Add(contents(t, s, proj), want.proj)
			p.Add(contents(t, s, bias), want.bias)
			if e.Relative() > 1e-5 || p.Relative() > 1e-5 {
				t.Errorf("the gradients are off by %.2g, the projection's by %.2g", e.Relative(), p.Relative())
			}
		})
	}
}

// refWindow are the gradients of a session's first step.
func refWindow(s *session, p params) trainGrads {
	st, sources, sh := drawState(s.shape, s.seed), drawSources(s.shape, s.seed), s.shape
	fields := make([]float32, s.inputWords())
	drawInputs(sh, s.seed, 0, fields)
	dose, place := make([]float64, sh.D), make([]float64, 0, 2*sh.B)
	var trips []trip
	for k := range sh.B {
		r := s.tripOf(st, k, float64(sources[k]), fields)
		for _, lv := range r.levels {
			dose[lv.at.level] += lv.dose
		}
		place = append(place, r.end.x, r.end.y)
		trips = append(trips, r)
	}
	_, ddose, dplace := refLoss(dose, op.As[float64](drawTargets(sh, s.train.window, s.seed)), place)
	g := newTrainGrads(sh)
	for k, r := range trips {
		r.propagate(ddose, carrierBack{x: dplace[2*k], y: dplace[2*k+1]}, g)
	}
	return g
}

// The CUDA kernels pass the same checks.
func TestTrainingOnCUDA(t *testing.T) {
	for _, set := range []string{"window=5,checkpoint=2,graph=on", "precision=bf16,steps=2,window=2,checkpoint=1", "window=2,windows_kept=2", "pass=forward,tape=saved,windows_kept=2"} {
		for _, libraries := range []bool{false, true} {
			t.Run(fmt.Sprintf("libraries=%t,%s", libraries, set), func(t *testing.T) {
				s := openOn(t, openSimulated(t, libraries), "small", append(slices.Clone(lessonSize), strings.Split(set+",depth=3", ",")...)...)
				workloadtest.PassesWhole(t, s)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if use := s.mem.Dev.Memory().InUse; use != 0 {
					t.Errorf("%d bytes are left", use)
				}
			})
		}
	}
}

// A check fails where what it compares with has another parameter, or another target.
func TestTrainingChecksCatch(t *testing.T) {
	for stage, spoil := range map[string]func(s *session){
		"weights":                    func(s *session) { s.params.layers[1].wh[0] += 0.01 },
		"gru":                        func(s *session) { s.params.layers[0].bi[0] += 0.01 },
		"recompute":                  func(s *session) { s.params.layers[0].bh[0] += 0.01 },
		"flow":                       func(s *session) { s.params.bias[0] += 0.01 },
		"flow_bwd":                   func(s *session) { s.params.proj[0] += 0.01 },
		"gru_bwd":                    func(s *session) { s.params.layers[1].bh[2*s.shape.H] += 0.01 },
		"gradient of the whole step": func(s *session) { s.params.layers[0].wi[0] += 0.2 },
		"loss":                       func(s *session) { s.seed++ },
	} {
		t.Run(stage, func(t *testing.T) {
			s := openSession(t, "small", append(slices.Clone(lessonSize), "window=4", "checkpoint=2")...)
			// The optimizer has the values that were drawn, the reference a copy of its own.
			p := params{proj: slices.Clone(s.params.proj), bias: slices.Clone(s.params.bias)}
			for _, l := range s.params.layers {
				p.layers = append(p.layers, layerParams{slices.Clone(l.wi), slices.Clone(l.wh), slices.Clone(l.bi), slices.Clone(l.bh)})
			}
			s.params = p
			spoil(s)
			workloadtest.Fails(t, s, stage)
		})
	}
}

// What a session allocates is what was counted before, to the byte; and what is kept for the
// way back is the documented formula.
func TestTrainingMemoryIsCounted(t *testing.T) {
	for _, tt := range []struct {
		set  string
		kept func(state int64) int64 // bytes, by those of a float32 state [L,B,H]
	}{
		{"window=10", func(n int64) int64 { return (5*10 + 1) * n }},
		{"window=10,checkpoint=3", func(n int64) int64 { return (4 + 5*3 + 1) * n }},
		{"window=10,checkpoint=1,optimizer=loop", func(n int64) int64 { return (10 + 5 + 1) * n }},
		{"window=10,checkpoint=3,precision=bf16", func(n int64) int64 { return 4*n + (5*3+1)*n/2 }},
		{"window=2,steps=3", func(n int64) int64 { return (5*2*3 + 1) * n }},
		{"window=10,windows_kept=4", func(n int64) int64 { return 4 * (5*10 + 1) * n }},
		{"window=10,windows_kept=4,precision=fp16", func(n int64) int64 { return 4 * (5*10 + 1) * n / 2 }},
		{"window=10,windows_kept=4,checkpoint=3", func(n int64) int64 { return (4*4 + 5*3 + 1) * n }},
	} {
		t.Run(tt.set, func(t *testing.T) {
			set := append([]string{"pass=train", "flows=20", "hidden=8", "input=5", "depth=7"}, strings.Split(tt.set, ",")...)
			s := openSession(t, "small", set...)
			memoryIsCounted(t, s, set...)
			sh := s.shape
			var kept int64
			for _, r := range append(s.train.u.requests(), s.train.requests()...) {
				if slices.Contains([]string{"states", "gates kept", "checkpoints"}, strings.TrimPrefix(r.what, "earlier ")) {
					kept += 4 * r.words
				}
			}
			if want := tt.kept(4 * int64(sh.L*sh.B*sh.H)); kept != want {
				t.Errorf("%d bytes are kept, the formula gives %d", kept, want)
			}
		})
	}
}

// Memory is refused before anything is allocated, with the settings that need less.
func TestTrainingRefusesMemory(t *testing.T) {
	d := openHost(t, host.Options{MemoryLimit: 1 << 30})
	workloadtest.Refused(t, d, gpuprof.ErrMemory, []string{"checkpoint=3", "window", "batch", "flows"}, func() error {
		_, err := open(t.Context(), d, resolve(t, "energyflow", "pass=train", "flows=12000", "hidden=1024", "layers=3", "depth=40"))
		return err
	})
}

// Adam lowers the loss of windows.
func TestTrainingLowersTheLoss(t *testing.T) {
	s := openSession(t, "small", append(slices.Clone(lessonSize), "lr=0.02", "flows=42")...)
	loss := func(k int) float32 { return device.Floats(s.slots[k].metrics)[s.metricWords()-1] }
	run(t, s, 1)
	first := loss(0)
	run(t, s, 200)
	if last := loss(1); !(last < first/2) {
		t.Errorf("the loss went from %g to %g", first, last)
	}
}

// The backward's work is the work of the product of every layer and level, to the flop.
func TestTrainingWork(t *testing.T) {
	s := openSession(t, "small", "pass=train", "flows=10", "hidden=12", "input=5", "layers=3", "window=4")
	const b, i, h, window = 10, 5, 12, 4
	var products, cells, biases int64
	for l := range 3 {
		k, width := int64(h), int64(h)
		if l == 0 {
			k, width = i, 1 // of the input the energy alone has a cotangent
		}
		products += window * b * 6 * h * ((h + width) + (h + k))
		cells += window * b * h * cellBackFlops
		biases += window * b * 6 * h
	}
	projection := int64(window * (2*outputs*b*h + outputs*b))
	got := map[string]int64{}
	for _, st := range s.Stages() {
		got[st.Name] += st.Minimum.Flops
	}
	if sum := got["gru_bwd"] + got["grads"]; sum != products+cells+biases+projection {
		t.Errorf("%d flops backward, want %d", sum, products+cells+biases+projection)
	}
	n := int64(0)
	for _, p := range s.train.step.Params() {
		n += int64(len(p.Values))
	}
	for _, st := range s.Stages() {
		if st.Name == "optimizer" && st.Minimum.Bytes() != 28*n {
			t.Errorf("the optimizer moves %d bytes, want %d", st.Minimum.Bytes(), 28*n)
		}
	}
}

// Gflop of a level backward as the roofline of the big presets has them: the products of
// chain and weights, without what the first layer's input does not need.
func TestTrainingGflop(t *testing.T) {
	for _, tt := range []struct {
		preset string
		want   float64
	}{{"energyflow", 794.3}, {"deepbench", 6852.2}} {
		c := resolve(t, tt.preset)
		sh := readSettings(c.Knobs).shape
		u := newUnroll(&gru{s: sh}, 1)
		var flops int64
		for l := range sh.L {
			flops += u.chainMinimum(l, backwardArgs{first: sh.T - 1}).Flops + u.gradsMinimum(l).Flops
		}
		rest := int64(sh.T) * int64(sh.B) * int64(sh.H) * int64(sh.L) * (cellBackFlops + 6)
		if got := float64(flops-rest) / 1e9; got < tt.want-0.06 || got > tt.want+0.06 {
			t.Errorf("%s: %.2f Gflop a level backward, want %.1f", tt.preset, got, tt.want)
		}
	}
}

// A loss that is not finite ends the run, and the error names the first stage that made it so.
func TestLossThatIsNotFinite(t *testing.T) {
	for _, set := range []string{"graph=off", "graph=on"} {
		s := openSession(t, "small", append(slices.Clone(lessonSize), "window=3", "checkpoint=2", set)...)
		s.params.proj[0] = float32(math.Inf(1)) // by what the optimizer starts from
		if err := s.restoreStart(); err != nil {
			t.Fatal(err)
		}
		var err error
		for i := 0; i < 9 && err == nil; i++ {
			err = s.Step(i, loop.Silent{})
		}
		if !errors.Is(err, gpuprof.ErrCheck) || !strings.Contains(err.Error(), "stage weights") {
			t.Errorf("%s: %v", set, err)
		}
	}
	s := openSession(t, "small", append(slices.Clone(lessonSize), "window=3")...)
	st := device.Floats(s.inputs)
	for i := range st { // the weights are of both signs
		st[i] = float32(math.Inf(1))
	}
	var err error
	for i := 0; i < 9 && err == nil; i++ {
		err = s.Step(i, loop.Silent{})
	}
	if !errors.Is(err, gpuprof.ErrCheck) || !strings.Contains(err.Error(), "stage gru") {
		t.Errorf("a field that is not finite: %v", err)
	}
}

// The stages list every launch of a step, and no step waits.
func TestTrainingLaunchesAreListed(t *testing.T) {
	for _, set := range []string{"window=4", "window=5,checkpoint=2,precision=bf16", "window=3,optimizer=loop,deterministic=off", "window=2,accumulate=3,zero=fill", "precision=fp16,scaler=dynamic,window=2"} {
		s := openSession(t, "small", append(slices.Clone(lessonSize), strings.Split(set, ",")...)...)
		run(t, s, 2)
		before := s.mem.Dev.Meter()
		if err := s.Step(2, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
		m, parts := s.mem.Dev.Meter().Sub(before), int64(0)
		for _, st := range s.Stages() {
			parts += st.Cost().Launches
		}
		if parts != m.Launches || m.SyncPoints != 0 {
			t.Errorf("%s: stages list %d launches, the device counted %d and %d waits", set, parts, m.Launches, m.SyncPoints)
		}
	}
}

// TestLeastCheckpoint: the suggested checkpoint needs no more memory than any other, but for rounding: states at
// checkpoints, and five arrays of a state's size for each time step of the levels between two of them.
func TestLeastCheckpoint(t *testing.T) {
	for _, c := range [][2]int{{1, 1}, {4, 1}, {100, 1}, {100, 4}, {1000, 8}, {10, 50}} {
		window, steps := c[0], c[1]
		arrays := func(k int) float64 { return float64(window)/float64(k) + 5*float64(steps*k) }
		k := leastCheckpoint(window, steps)
		for other := 1; other <= window; other++ {
			if arrays(k) > 1.02*arrays(other) {
				t.Errorf("window %d of %d steps: checkpoint=%d needs %g arrays, %d needs %g", window, steps, k, arrays(k), other, arrays(other))
			}
		}
	}
}
