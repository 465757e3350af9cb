package advise_test

import (
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/advise"
	"github.com/gpuprof/gpuprof/workloads/gridsim"
)

// Frames that are made every step and dropped, and full maps that are averaged on the
// host, are found with the share that can go, and with nothing of the law. The same run
// with the setting in place finds neither.
func TestUnseenCopies(t *testing.T) {
	w := gridsim.New()
	for _, tt := range []struct {
		set       gpuprof.Settings
		knob, to  string
		low, high float64 // claimed, in us
	}{
		{gpuprof.Settings{"view_when": "eager", "live": "every:10"}, "view_when", "lazy", 0.88 * 500, 0.92 * 500},
		{gpuprof.Settings{"pool_where": "host", "live": "every:1", "scale": "4"}, "pool_where", "device", 0.92 * 400, 0.95 * 400},
		{gpuprof.Settings{"live": "every:1"}, "", "", 0, 0},
		{gpuprof.Settings{"pool_where": "host", "live": "every:1", "scale": "1"}, "", "", 0, 0},
	} {
		knobs, err := workloads.Resolve(w, "small", tt.set)
		if err != nil {
			t.Fatal(err)
		}
		r := made{cuda: true, workload: w.Name(), knobs: knobs, seed: 3, work: 1000, counters: map[string]float64{"bytes_d2h": 1e6, "copies_d2h": 1}, parts: []part{
			{name: "law", exposed: 800, device: true, launches: 1, bound: 700},
			{name: "view", exposed: 100, device: true, launches: 1, bound: 90},
			{name: "d2h", exposed: 300, device: true}, {name: "reduce", exposed: 100},
		}}.run(t)
		var found []gpuprof.Finding
		for _, f := range advise.Findings([]*gpuprof.Run{r}, advise.Options{Workload: w, Base: knobs})[0] {
			if f.Rule == gpuprof.RuleExposedCopy {
				found = append(found, f)
			}
		}
		switch {
		case tt.knob == "" && len(found) > 0:
			t.Errorf("%v: %+v", tt.set, found)
		case tt.knob == "":
		case len(found) != 1 || found[0].Knob != tt.knob || found[0].To != tt.to || found[0].ClaimS < tt.low*us || found[0].ClaimS > tt.high*us:
			t.Errorf("%v: %+v", tt.set, found)
		}
	}
}

// Memory that the pool reserves and does not use is found with the setting that reserves
// less for the same requests, and nothing where no setting does, or by little.
func TestFragmentedPool(t *testing.T) {
	w := gridsim.New()
	const mib = 1 << 20
	for name, tt := range map[string]struct {
		input map[string]any
		found bool
	}{
		"a setting reserves less": {map[string]any{"memory_reserved_peak": 486. * mib, "memory_in_use_peak": 160. * mib, "memory_idle_mean": 250. * mib,
			gpuprof.InputReplayedPeak: 486. * mib, gpuprof.InputBestSetting: "max_split=none", gpuprof.InputBestPeak: 390. * mib}, true},
		"as Go has it": {map[string]any{"memory_reserved_peak": int64(486 * mib), "memory_in_use_peak": int64(160 * mib),
			gpuprof.InputReplayedPeak: int64(486 * mib), gpuprof.InputBestSetting: "max_split=none", gpuprof.InputBestPeak: int64(390 * mib)}, true},
		"by little": {map[string]any{"memory_reserved_peak": 486. * mib, "memory_in_use_peak": 160. * mib,
			gpuprof.InputReplayedPeak: 486. * mib, gpuprof.InputBestSetting: "max_split=none", gpuprof.InputBestPeak: 470. * mib}, false},
		"none does": {map[string]any{"memory_reserved_peak": 486. * mib, "memory_in_use_peak": 160. * mib, gpuprof.InputReplayedPeak: 486. * mib}, false},
		"all is in use": {map[string]any{"memory_reserved_peak": 486. * mib, "memory_in_use_peak": 480. * mib,
			gpuprof.InputReplayedPeak: 486. * mib, gpuprof.InputBestSetting: "max_split=none", gpuprof.InputBestPeak: 390. * mib}, false},
		"another workload's": {map[string]any{"memory_reserved_peak": 486. * mib, "memory_in_use_peak": 160. * mib,
			gpuprof.InputReplayedPeak: 486. * mib, gpuprof.InputBestSetting: "nothing=none", gpuprof.InputBestPeak: 390. * mib}, false},
	} {
		knobs, err := workloads.Resolve(w, "small", gpuprof.Settings{"allocator": "pool", "max_split": "128", "roi": "on"})
		if err != nil {
			t.Fatal(err)
		}
		r := made{cuda: true, workload: w.Name(), knobs: knobs, seed: 3, work: 1000, parts: []part{{name: "law", exposed: 800, device: true, launches: 1, bound: 700}}}.run(t)
		r.Input = tt.input
		var found []gpuprof.Finding
		for _, f := range advise.Findings([]*gpuprof.Run{r}, advise.Options{Workload: w, Base: knobs})[0] {
			if f.Rule == gpuprof.RuleFragmentation {
				found = append(found, f)
			}
		}
		switch {
		case len(found) > 1 || (len(found) == 1) != tt.found:
			t.Errorf("%s: %+v", name, found)
		case tt.found && (found[0].Knob != "max_split" || found[0].To != "none" || found[0].ClaimS != 0 || found[0].Evidence[gpuprof.EvidenceSavedBytes] != 96.*mib || found[0].PyTorch == ""):
			t.Errorf("%s: %+v", name, found[0])
		}
	}
}
