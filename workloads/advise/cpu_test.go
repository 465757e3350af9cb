package advise_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/workloads/advise"
)

// had gives a run telemetry of ten seconds in which it used and idled so many CPUs.
func had(r *gpuprof.Run, used, idle float64) {
	r.Telemetry = maps.Clone(r.Telemetry)
	if r.Telemetry == nil {
		r.Telemetry = map[string]gpuprof.Track{}
	}
	for name, cpus := range map[string]float64{"process_cpu_time": used, "cpu_idle": idle} {
		r.Telemetry[name] = gpuprof.Track{Unit: "s", TimeS: []float64{0, 10}, Value: []gpuprof.Number{0, gpuprof.Number(10 * cpus)}}
	}
}

// needCPU are the rules whose claim is a CPU's that another program may have: on
// either device, and on the host alone.
var (
	needCPU     = []string{"few-threads", "dataloader-stall"}
	needHostCPU = []string{"explicit-sync", "item", "reset-stats", "allocator-churn", "blocking-copy", "exposed-copy", "launch-bound", "pin-every-batch"}
)

// A claim about CPUs is made only where they were to be had: the same planted
// problems beside programs that take them claim nothing, and claim what they did
// where the CPUs idled.
func TestClaimsNeedTheCPUsTheyCount(t *testing.T) {
	tested := map[string]bool{}
	for name, p := range plantedProblems() {
		claim := func(change func(*gpuprof.Run)) (sum float64) {
			r := p.run.run(t)
			if p.change != nil {
				p.change(r)
			}
			change(r)
			for _, f := range only(of(r, advise.Options{}), p.rule) {
				sum += f.ClaimS
			}
			return sum
		}
		unknown := claim(func(*gpuprof.Run) {})
		if idle := claim(func(r *gpuprof.Run) { had(r, 1, float64(r.Device.CPUCores)-1) }); math.Abs(idle-unknown) > 0.02*unknown {
			t.Errorf("%s: claims %g s with idle CPUs and %g s where that is not known", name, idle, unknown)
		}
		rests := slices.Contains(needCPU, p.rule) || slices.Contains(needHostCPU, p.rule) && !p.run.cuda
		busy := claim(func(r *gpuprof.Run) { had(r, 1, 0.1) })
		if rests {
			tested[p.rule] = true
		}
		if rests && busy > 0 || p.run.cuda && !rests && p.rule != "collate-bound" && math.Abs(busy-unknown) > 0.02*unknown { // made up anew, its noise differs
			t.Errorf("%s: claims %g s beside other programs, %g s alone", name, busy, unknown)
		}
		if quota := claim(func(r *gpuprof.Run) { had(r, 0.6, 1.4); r.Device.CPUQuota = 0.7 }); rests && p.rule == "few-threads" && quota > 0 {
			t.Errorf("%s: claims %g s under a quota below one CPU", name, quota)
		}
	}
	if !tested["few-threads"] || !tested["dataloader-stall"] || !tested["explicit-sync"] {
		t.Errorf("tested %v", tested)
	}
}

// What reads of four bytes cost is known: at small sizes the wait that belongs to
// something else is not theirs.
func TestItemReadsClaimNoMoreThanReadsCost(t *testing.T) {
	r := made{workload: "gruflow", knobs: gruKnobs(gpuprof.Settings{"item_reads": "16"}),
		parts: []part{{name: "gru", exposed: 300, device: true, launches: 7}, {name: "sync", exposed: 60, host: 360}, {name: "launch", exposed: 1, host: 1}, {name: "gap", exposed: 1}}}.run(t)
	claim := func(read float64) (sum float64) {
		r.Calibration["item_read"] = read
		for _, f := range only(of(r, advise.Options{}), "item") {
			sum += f.ClaimS
		}
		return sum / us
	}
	for _, c := range []struct{ read, least, most float64 }{
		{0, 50, 62}, {10e-6, 50, 62}, {2e-6, 32, 35}, {0.2e-6, 0, 0}, // 5 us are below what is worth saying
	} {
		if got := claim(c.read); got < c.least || got > c.most {
			t.Errorf("a read of %g s: claims %.1f us, want %g to %g", c.read, got, c.least, c.most)
		}
	}
}

// Exposed times are of the step with stage events; the claim is of the step that is
// reported, where that is another one.
func TestClaimsAreOfTheStepReported(t *testing.T) {
	p := plantedProblems()["item reads"]
	claim := func(share float64) float64 {
		r := p.run.run(t)
		if share != 1 {
			probed := *r.Step
			r.ProbedStep = &probed
			r.Step = stats.Summarise("s", scaled(probed.Runs[0], share))
		}
		f := only(of(r, advise.Options{}), p.rule)
		if len(f) != 1 {
			t.Fatalf("%+v", f)
		}
		return f[0].ClaimS
	}
	for _, share := range []float64{0.9, 1.2} {
		if got, want := claim(share), max(1, share)*claim(1); math.Abs(got-want) > 0.02*want {
			t.Errorf("a step of %g times the probed one: claims %g s, want %g", share, got, want)
		}
	}
}

func scaled(x []float64, by float64) []float64 {
	out := slices.Clone(x)
	for i := range out {
		out[i] *= by
	}
	return out
}
