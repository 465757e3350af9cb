package advise_test

import (
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/advise"
	"github.com/gpuprof/gpuprof/workloads/collate"
	"github.com/gpuprof/gpuprof/workloads/e3nn"
	"github.com/gpuprof/gpuprof/workloads/gruflow"
	"github.com/gpuprof/gpuprof/workloads/serving"
)

// part is a stage of a made-up run, in microseconds. Nothing here was measured.
type part struct {
	name     string
	exposed  float64
	host     float64 // the caller's, 0 is the exposed time of a stage without device time
	device   bool
	launches float64
	bound    float64
	kernels  map[string]float64 // by name
	bytes    float64            // of all kernels, in equal parts
}

// made is a run of 40 steps of these stages, one percent of noise on each.
type made struct {
	cuda     bool
	workload string
	knobs    gpuprof.Settings
	parts    []part
	counters map[string]float64
	work     float64 // of a step; 0 is the batch, or 512
	seed     uint64
	spiky    bool // one step in eight takes ten times as long in every wait
}

const us = 1e-6

func (m made) run(t testing.TB) *gpuprof.Run {
	t.Helper()
	rng := rand.New(rand.NewPCG(m.seed, 11))
	r := &gpuprof.Run{
		Head: document.NewHead(document.Run, gpuprof.Tool{}), Status: gpuprof.Complete, Workload: m.workload, Preset: "small", Seed: 1, Mode: gpuprof.Steady,
		Knobs: gpuprof.Settings{}, Device: gpuprof.Env{Kind: "host", Name: "Made-up CPU", Cores: 2, CPUCores: 2, Memory: 8 << 30},
		Counters: map[string]float64{}, Calibration: map[string]float64{"null_launch_host": 1e-7}, PeakMemory: 48 << 20, Input: map[string]any{},
		Ceilings: gpuprof.Ceilings{CopyBytesPerS: 2e10, FlopsPerS: 7e10}, Telemetry: map[string]gpuprof.Track{},
	}
	if m.cuda {
		r.Device.Kind, r.Device.Name, r.Device.Arch, r.Device.Memory = "cuda", "Made-up GPU", "sm_90", 141<<30
		r.Device.DeviceInfo = map[string]string{"cublas": "13.0"}
		r.Ceilings = gpuprof.Ceilings{CopyBytesPerS: 4e12, FlopsPerS: 5e13, TF32FlopsPerS: 3.7e14}
	}
	maps.Copy(r.Knobs, m.knobs)
	maps.Copy(r.Counters, m.counters)
	const n = 40
	noisy := func(v float64, wait bool) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = v * us * math.Exp(0.01*rng.NormFloat64())
			if m.spiky && wait && i%8 == 0 {
				x[i] = 100 * us
			}
		}
		return x
	}
	period := make([]float64, n)
	for _, p := range m.parts {
		e := noisy(p.exposed, !p.device)
		for i := range e {
			period[i] += e[i]
		}
		st := gpuprof.StageResult{Name: p.name, Parent: "step", Exposed: stats.Summarise("s", e), BoundS: p.bound * us,
			Counters: map[string]float64{"launches": p.launches, "bytes_read": p.bytes}}
		if p.device {
			st.Device = stats.Summarise("s", e)
			r.Counters["launches"] += p.launches
		} else {
			st.Host = stats.Summarise("s", noisy(max(p.host, p.exposed), false))
		}
		r.Stages = append(r.Stages, st)
		for name, v := range p.kernels {
			r.Stages = append(r.Stages, gpuprof.StageResult{Name: name, Parent: p.name, Device: stats.Summarise("s", noisy(v, false)),
				Counters: map[string]float64{"launches": max(1, p.launches/float64(len(p.kernels))), "bytes_read": p.bytes / float64(len(p.kernels))}})
		}
	}
	work := m.work
	if b := r.Knobs.Int("batch"); work == 0 && b > 0 {
		work = float64(b)
	} else if work == 0 {
		work = 512
	}
	rate := make([]float64, n)
	for i := range rate {
		rate[i] = work / period[i]
		r.Order = append(r.Order, gpuprof.Order{Block: i / 10, StartS: float64(i)})
		r.Flags = append(r.Flags, nil)
	}
	r.Step = stats.Summarise("s", period)
	r.Throughput = &gpuprof.Throughput{Unit: "probes/s", Series: stats.Summarise("probes/s", rate)}
	return r
}

func settings(over gpuprof.Settings, base gpuprof.Settings) gpuprof.Settings {
	out := maps.Clone(base)
	maps.Copy(out, over)
	return out
}

func e3nnKnobs(over gpuprof.Settings) gpuprof.Settings {
	return settings(over, gpuprof.Settings{"batch": "512", "impl": "csr", "library": "auto", "precision": "fp32", "deterministic": "off", "graph": "off",
		"pinned": "on", "async_copy": "on", "streams": "2", "sync": "never", "item_reads": "packed", "reset_stats": "off", "pool_trim": "never", "threads": "all"})
}

func gruKnobs(over gpuprof.Settings) gpuprof.Settings {
	return settings(over, gpuprof.Settings{"flows": "256", "steps": "1", "impl": "fused", "library": "auto", "precision": "fp32", "deterministic": "on", "graph": "off",
		"sync": "never", "item_reads": "packed", "reset_stats": "off", "pool_trim": "never", "fill": "off", "threads": "all"})
}

func collateKnobs(over gpuprof.Settings) gpuprof.Settings {
	return settings(over, gpuprof.Settings{"batch": "64", "workers": "auto", "worker_kind": "goroutine", "persistent": "on", "epoch": "8", "impl": "cached",
		"pinned": "on", "async_copy": "on", "streams": "2", "sync": "never", "item_reads": "0", "threads": "all"})
}

func servingKnobs(over gpuprof.Settings) gpuprof.Settings {
	return settings(over, gpuprof.Settings{"network": "residual", "max_batch": "32", "depth": "2", "streams": "own", "preprocess": "device", "impl": "implicit", "layout": "nhwc", "bn": "fold",
		"precision": "fp32", "library": "auto", "autotune": "off", "pinned": "on", "async_copy": "on", "sync": "never", "item_reads": "packed", "graph": "off", "pad": "off", "threads": "all"})
}

// servingParts is a batch of the service with nothing wrong.
func servingParts() []part {
	return []part{
		{name: "preprocess"}, {name: "batch", host: 40}, {name: "h2d", exposed: 4, device: true}, {name: "prepare", exposed: 60, device: true, launches: 1, bound: 40},
		{name: "forward", exposed: 3000, device: true, launches: 40, bound: 1600, kernels: map[string]float64{"resnet_conv": 2950}}, {name: "d2h", exposed: 3, device: true},
		{name: "sync"}, {name: "backpressure", exposed: 2, host: 2900}, {name: "answer", host: 5}, {name: "launch", host: 80}, {name: "gap"},
	}
}

// e3nnParts is a step of the e3nn workload with nothing wrong.
func e3nnParts() []part {
	return []part{
		{name: "collate", host: 200}, {name: "h2d", exposed: 10, device: true},
		{name: "radial", exposed: 2000, device: true, launches: 3, bound: 1100, kernels: map[string]float64{"gemm": 1700, "basis": 290}},
		{name: "tensor_product", exposed: 2400, device: true, launches: 2, bound: 90}, {name: "d2h", exposed: 8, device: true},
		{name: "sync"}, {name: "backpressure", exposed: 2, host: 4200}, {name: "launch", host: 6}, {name: "gap"},
	}
}

func with(parts []part, change ...part) []part {
	out := append([]part(nil), parts...)
	for _, c := range change {
		found := false
		for i := range out {
			if out[i].name == c.name {
				out[i], found = c, true
			}
		}
		if !found {
			out = append(out, c)
		}
	}
	return out
}

// only is the findings of a rule.
func only(found []gpuprof.Finding, rule string) []gpuprof.Finding {
	var out []gpuprof.Finding
	for _, f := range found {
		if f.Rule == rule {
			out = append(out, f)
		}
	}
	return out
}

func of(r *gpuprof.Run, o advise.Options) []gpuprof.Finding {
	return findings([]*gpuprof.Run{r}, o)[0]
}

// workload is the one of a name, nil where there is none.
func workload(name string) workloads.Workload {
	for _, w := range []workloads.Workload{e3nn.New(), gruflow.New(), collate.New(), serving.New()} {
		if w.Name() == name {
			return w
		}
	}
	return nil
}

// findings returns the findings of runs of one workload.
func findings(runs []*gpuprof.Run, o advise.Options) [][]gpuprof.Finding {
	for _, r := range runs {
		if r != nil && o.Workload == nil {
			o.Workload = workload(r.Workload)
		}
	}
	return advise.Findings(runs, o)
}
