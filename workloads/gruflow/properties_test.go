package gruflow

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// A check that cannot fail checks nothing: break one thing at a time and see
// the stage that computes with it fail.
func TestCheckCatches(t *testing.T) {
	tests := []struct {
		name  string
		set   []string
		spoil func(s *session)
		stage string
	}{
		{"wrong input weight", nil, func(s *session) { device.Floats(s.net.layers[0].wi)[7] += 0.1 }, "gru"},
		{"wrong state weight", []string{"impl=plain"}, func(s *session) { device.Floats(s.net.layers[1].wh)[9] += 0.1 }, "gru"},
		{"wrong bias", []string{"impl=plain"}, func(s *session) { device.Floats(s.net.layers[1].bh)[3] += 0.1 }, "gru"},
		{"not a number among the weights", nil, func(s *session) { device.Floats(s.net.layers[1].wi)[0] = float32(math.NaN()) }, "gru"},
		{"b_hn outside the reset gate", nil, func(s *session) {
			b, h := s.net.layers[0], s.shape.H
			for j := 2 * h; j < 3*h; j++ {
				device.Floats(b.bi)[j] += device.Floats(b.bh)[j]
				device.Floats(b.bh)[j] = 0
			}
		}, "gru"},
		{"the energy is not put into the input", nil, func(s *session) { s.dropLaunch("gru_inject") }, "gru"},
		{"a pointwise kernel is left out", []string{"impl=plain"}, func(s *session) { s.dropLaunch("gru_tanh") }, "gru"},
		{"two bits where bf16 was asked for", []string{"precision=bf16"}, func(s *session) {
			for _, l := range s.net.layers {
				for _, b := range []device.Buffer{l.wi, l.wh} {
					for i, v := range viewHalves(device.Floats(b)) {
						viewHalves(device.Floats(b))[i] = v &^ 0x3f
					}
				}
			}
		}, "gru"},
		{"tf32 where fp32 was asked for", nil, func(s *session) {
			w := device.Floats(s.net.layers[0].wi)
			tf32.round(w, w)
		}, "gru"},
		{"wrong projection", nil, func(s *session) { device.Floats(s.flow.proj)[0] += 0.1 }, "flow"},
		{"wrong projection bias", []string{"impl=plain"}, func(s *session) { device.Floats(s.flow.bias)[2] = 1 }, "flow"},
		{"wrong source", []string{"depth=2"}, func(s *session) { device.Floats(s.flow.source)[1]++ }, "flow"},
		{"the carriers do not move", nil, func(s *session) { s.dropLaunch("gru_flow") }, "flow"},
		{"sums are not added up", nil, func(s *session) { s.dropLaunch("gru_sum_final") }, "metrics"},
		{"metrics are not cleared", []string{"deterministic=off"}, func(s *session) { s.dropLaunch("gru_fill") }, "metrics"},
		{"another step's input in the graph", []string{"graph=on"}, func(s *session) {
			first, second := loop.GraphKey{}, loop.GraphKey{Slot: 1}
			s.graphs.Of[first], s.graphs.Of[second] = s.graphs.Of[second], s.graphs.Of[first]
		}, "graph"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := openSession(t, "small", append(tt.set, "flows=64")...)
			tt.spoil(s)
			workloadtest.Fails(t, s, tt.stage)
		})
	}
}

// dropLaunch leaves a kernel out of every group.
func (s *session) dropLaunch(name string) {
	is := func(l op.Call) bool { return l.Kernel == name }
	for k := range s.slots {
		for i := range s.slots[k].groups {
			g := &s.slots[k].groups[i]
			g.once, g.each = slices.DeleteFunc(g.once, is), slices.DeleteFunc(g.each, is)
		}
	}
}

// A row of steps must be what the formulas give from the start: state handed
// over from step to step, carriers entering and leaving.
func TestTrajectory(t *testing.T) {
	for _, set := range [][]string{{}, {"impl=plain", "graph=on"}, {"steps=3"}, {"steps=2"}} {
		t.Run(strings.Join(set, ","), func(t *testing.T) {
			s := openSession(t, "small", append(set, "flows=13", "hidden=11", "depth=4", "input=5")...)
			sh, st := s.shape, drawState(s.shape, s.seed)
			h, sources := op.As[float64](st.h), drawSources(s.shape, s.seed)
			fleet := make([]carrier, sh.B)
			for c := range fleet {
				fleet[c] = carrier{float64(st.energy[c]), int(st.level[c]), float64(st.place[2*c]), float64(st.place[2*c+1])}
			}
			var layers []layer64
			for _, p := range s.params.layers {
				layers = append(layers, layer64{op.As[float64](p.wi), op.As[float64](p.wh), op.As[float64](p.bi), op.As[float64](p.bh)})
			}
			const n = 9
			run(t, s, n)
			var records []float64
			for i := range n {
				words := int(s.inputWords())
				x := op.As[float64](device.Floats(s.inputs)[i%s.batches*words:][:words])
				for row := range sh.T * sh.B {
					x[row*sh.I] = fleet[row%sh.B].energy
				}
				_, h = refForward(sh, layers, x, h)
				records = records[:0]
				for c := range fleet {
					next, rec, leaves := refFlow(fleet[c], h[((sh.L-1)*sh.B+c)*sh.H:][:sh.H], s.params.proj, s.params.bias, sh.D, float64(sources[c]))
					fleet[c], records = next, append(records, rec[:]...)
					for l := 0; leaves && l < sh.L; l++ {
						clear(h[(l*sh.B+c)*sh.H:][:sh.H])
					}
				}
			}
			var e op.ErrorNorm
			e.Add(contents(t, s, s.net.h), h)
			e.Add(device.Floats(s.slots[(n-1)%depth].out), records)
			if r := e.Relative(); !(r < 1e-5) {
				t.Errorf("after %d steps the error is %.3g", n, r)
			}
		})
	}
}

// What was there is deposited, carried on or has left.
func TestEnergyIsConserved(t *testing.T) {
	s := openSession(t, "small", "depth=5")
	before := 0.0
	for _, e := range contents(t, s, s.flow.energy) {
		before += float64(e)
	}
	run(t, s, 1)
	m := device.Floats(s.slots[0].metrics)
	after := float64(m[metDeposited]) + float64(m[metCarried]) + float64(m[metLeft])
	if math.Abs(after/before-1) > 1e-6 {
		t.Errorf("energy %.7f became %.7f", before, after)
	}
	if want := float32(math.Ceil(float64(s.shape.B) / 5)); math.Abs(float64(m[metLeaving]-want)) > 1 {
		t.Errorf("%v carriers left, want about %v", m[metLeaving], want)
	}
	dose := 0.0
	for _, d := range m[metFixed:] {
		dose += float64(d)
	}
	if math.Abs(dose/float64(m[metDeposited])-1) > 1e-6 {
		t.Errorf("doses add up to %v, deposits to %v", dose, m[metDeposited])
	}
}

// How a step is run does not decide what it computes.
func TestResultDoesNotDependOnTuning(t *testing.T) {
	result := func(set ...string) []float32 {
		s := openSession(t, "small", append(strings.FieldsFunc(strings.Join(set, ","), func(r rune) bool { return r == ',' }), "flows=150", "hidden=40", "depth=3")...)
		run(t, s, 5)
		out := slices.Clone(device.Floats(s.slots[0].out))
		out = append(out, contents(t, s, s.net.h)...)
		return append(out, contents(t, s, s.flow.metrics)...)
	}
	base := result()
	for _, set := range []string{
		"graph=on", "sync=step", "sync=every:2", "item_reads=3", "reset_stats=on", "reset_stats=sync",
		"pool_trim=every:1", "fill=on", "autotune=on", "threads=1", "threads=3", "threads=4",
	} {
		if got := result(set); !slices.Equal(got, base) {
			t.Errorf("%s changes bits of a deterministic result", set)
		}
	}
	taped := result("tape=saved") // by a kernel that rounds between the operations of a cell
	if !slices.Equal(result("tape=saved,windows_kept=3"), taped) {
		t.Error("windows_kept=3 changes bits of a deterministic result")
	}
	for _, set := range []string{"impl=plain", "deterministic=off", "tape=saved"} {
		got := result(set)
		for i := range base {
			if d := math.Abs(float64(got[i] - base[i])); d > 1e-5*math.Max(1, math.Abs(float64(base[i]))) {
				t.Fatalf("%s changes value %d from %v to %v", set, i, base[i], got[i])
			}
		}
	}
	for range 6 {
		if !slices.Equal(result("threads=4"), base) {
			t.Fatal("a deterministic result changed from run to run")
		}
	}
}

func TestBadKnobs(t *testing.T) {
	for kv, want := range map[string]string{
		"flows=0": "outside 1", "impl=fuse": `did you mean "fused"`, "imp=plain": `did you mean "impl"`, "sync=sometimes": "every:K",
		"pool_trim=every:0": "at least 1", "item_reads=0": "packed", "item_reads=5000": "from 1 to 4096", "precision=fp8": "bf16",
		"hidden=x": "whole number", "reset_stats=yes": "off, on or sync", "depth=-1": "outside 1", "pass=forces": "train", "window=0": "depth", "checkpoint=0": "off", "threads=0": "at least 1",
	} {
		k, v, _ := strings.Cut(kv, "=")
		_, err := workloads.Resolve(New(), "small", gpuprof.Settings{k: v})
		if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want usage error with %q", kv, err, want)
		}
	}
	on, gpu := device.Info{Kind: "host", Name: "a CPU", MaxThreads: 8}, device.Info{Kind: "cuda", Name: "a GPU", Arch: "sm_75"}
	full := device.Info{Kind: "cuda", Name: "a big GPU", Arch: "sm_90", Facts: map[string]string{"cublas": "12.8.4", "cudnn": "9.10.2"}}
	for _, tt := range []struct {
		device device.Info
		set    []string
		want   []string
	}{
		{on, []string{"impl=cudnn"}, []string{"impl=cudnn", "a CPU", "fused"}},
		{gpu, []string{"impl=cudnn"}, []string{"impl=cudnn", "a GPU", "fused"}},
		{on, []string{"library=on"}, []string{"library=on", "a CPU", "cuBLAS"}},
		{full, []string{"autotune=on", "impl=cudnn"}, []string{"autotune=on", "impl=cudnn"}},
		{on, []string{"graph=on", "pool_trim=every:5"}, []string{"pool_trim=every:5", "graph=on"}},
		{on, []string{"threads=9"}, []string{"threads=9", "at most 8"}},
		{gpu, []string{"threads=2"}, []string{"threads=2", "no CPU threads"}},
		{gpu, []string{"precision=tf32"}, []string{"precision=tf32", "sm_80"}},
		{gpu, []string{"precision=bf16"}, []string{"precision=bf16", "sm_75"}},
		{on, []string{"window=3"}, []string{"window=3", "pass=forward", "pass=train"}},
		{on, []string{"checkpoint=3"}, []string{"checkpoint=3", "pass=forward"}},
		{on, []string{"optimizer=loop"}, []string{"optimizer=loop", "pass=forward"}},
		{on, []string{"pass=train", "window=4", "checkpoint=5"}, []string{"checkpoint=5", "4 levels"}},
		{on, []string{"pass=train", "impl=plain"}, []string{"impl=plain", "pass=train"}},
		{on, []string{"pass=train", "impl=plain"}, []string{"impl=plain", "pass=train"}},
		{on, []string{"pass=train", "tape=saved"}, []string{"tape=saved", "pass=train", "anyway"}},
		{on, []string{"tape=saved", "impl=plain"}, []string{"impl=plain", "tape=saved", "auto or fused"}},
		{full, []string{"tape=saved", "impl=cudnn"}, []string{"impl=cudnn", "tape=saved"}},
		{on, []string{"windows_kept=2"}, []string{"windows_kept=2", "no record", "tape=saved or pass=train"}},
		{on, []string{"tape=saved", "windows_kept=2", "graph=on"}, []string{"windows_kept=2", "graph=on", "windows_kept=1"}},
		{on, []string{"pass=train", "windows_kept=2", "graph=on"}, []string{"windows_kept=2", "graph=on"}},
	} {
		err := New().Refuse(tt.device, resolve(t, "small", tt.set...).Knobs)
		if !errors.Is(err, gpuprof.ErrUsage) {
			t.Errorf("%v: %v, want a refusal", tt.set, err)
			continue
		}
		for _, w := range tt.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v: %q lacks %q", tt.set, err, w)
			}
		}
	}
	for _, set := range []string{"precision=fp16", "graph=on", "pool_trim=every:5"} {
		if err := New().Refuse(gpu, resolve(t, "small", set).Knobs); err != nil {
			t.Errorf("%s refused: %v", set, err)
		}
	}
}

func TestBadInput(t *testing.T) {
	tests := []struct {
		name  string
		set   []string
		limit int64
		kind  error
		text  []string
	}{
		{"too large for memory", []string{"flows=1000000", "hidden=512"}, 1 << 28, gpuprof.ErrMemory, []string{"GiB", "smaller --set flows"}},
		{"beyond 32-bit indices", []string{"flows=4000000", "steps=1000"}, 1 << 40, gpuprof.ErrUsage, []string{"32 bits", "smaller --set flows"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := openHost(t, host.Options{MemoryLimit: tt.limit})
			workloadtest.Refused(t, d, tt.kind, tt.text, func() error {
				_, err := open(context.Background(), d, resolve(t, "small", tt.set...))
				return err
			})
		})
	}
}

// An automatic choice takes what is there, and a setting that needs our own
// kernels gets them.
func TestAutomaticChoice(t *testing.T) {
	bare, blas := device.Info{}, device.Info{Facts: map[string]string{"cublas": "12.8.4"}}
	full := device.Info{Facts: map[string]string{"cublas": "12.8.4", "cudnn": "9.10.2"}}
	for _, tt := range []struct {
		device device.Info
		set    string
		impl   string
		vendor bool
	}{
		{bare, "impl=auto", implFused, false}, {blas, "impl=auto", implFused, true}, {full, "impl=auto", implCuDNN, false},
		{full, "tape=saved", implFused, true}, {full, "autotune=on", implFused, true}, {full, "library=off", implFused, false}, {full, "library=on", implFused, true},
		{full, "impl=fused", implFused, true}, {full, "impl=plain", implPlain, true},
		{blas, "impl=plain", implPlain, true}, {bare, "impl=plain", implPlain, false},
	} {
		k := readSettings(resolve(t, "small", tt.set).Knobs)
		impl := chooseImpl(tt.device, k)
		if vendor := chooseVendor(tt.device, k, impl); impl != tt.impl || vendor != tt.vendor {
			t.Errorf("%s with %v: %s, vendor %t", tt.set, tt.device.Facts, impl, vendor)
		}
	}
}
