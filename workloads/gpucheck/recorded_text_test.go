package gpucheck

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// The text about the H200, outside of the marked tables, equals the text that the same files give.
func TestRecordedSentences(t *testing.T) {
	r := newRecordedCheck(t)
	ms := func(s float64) string { return fmt.Sprintf("%.2f", s*1e3) }
	us := func(s float64) string { return fmt.Sprintf("%.4g", s*1e6) }
	csr := func(layer string) string { return "tensor_product/" + layer + "/csr" }
	eager := func(layer string) float64 { return r.peers["tensor_product/"+layer+" e3nn"] / r.value(csr(layer)) }
	steps := func(path string) (out []any) {
		for _, run := range r.runs(path) {
			out = append(out, ms(run.Step.Median))
		}
		return out
	}
	large, deepaw := r.run("e3nn-mace-large"), r.run("e3nn-deepaw")
	earlier := func(name string) string { return ms(r.runs("../gpu-check/runs/" + name)[0].Step.Median) }
	precise, back := r.runs("by-hand/mace-large-tf32x3-streams3")[0], r.run("e3nn-mace-large-forces").Stage("tensor_product_bwd")
	sorted := "scatter/158000x1152/sorted"
	gru := r.run("gruflow-energyflow").Stage("gru")
	kernel := func(run *gpuprof.Run, stage string) float64 {
		t.Helper()
		for _, s := range run.Stages {
			if s.Parent == stage && s.Name == stage {
				return s.Device.Median
			}
		}
		t.Fatalf("%s has no kernel %s", run.Preset, stage)
		return 0
	}
	// The harmonics' bound is the time of their bytes at the rates of the same day.
	sph := func(run *gpuprof.Run) float64 { return 100 * run.Stage("sph").BoundS / kernel(run, "sph") }
	least, most := r.loading()
	for page, sentences := range map[string][]string{
		performancePage: {
			fmt.Sprintf("%s and %s us, %s and %s times the roofline bound of bytes", us(r.value(csr("mace-large"))), us(r.value(csr("deepaw"))), r.over(csr("mace-large")), r.over(csr("deepaw"))),
			fmt.Sprintf("e3nn eager takes %.1fx and %.1fx as long", eager("mace-large"), eager("deepaw")),
			fmt.Sprintf("%s and %s ms (%s and %s ms on 2026-11-22)", ms(large.Step.Median), ms(deepaw.Step.Median), earlier("e3nn-mace-large"), earlier("e3nn-deepaw")),
			fmt.Sprintf("%s ms [%s, %s] (target 1.6)", ms(precise.Step.Median), ms(precise.Step.CI95[0]), ms(precise.Step.CI95[1])),
			fmt.Sprintf("%s ms, %.1f times the bound of bytes (target 3)", ms(back.Device.Median), back.Device.Median/back.BoundS),
			fmt.Sprintf("takes %.1fx as long |", r.peers["tensor_product_bwd/mace-large e3nn autograd"]/back.Device.Median),
			fmt.Sprintf("%s us, %s times the bound; segment_reduce takes %.2fx, a deterministic index_add %.1fx as long", us(r.value(sorted)), r.over(sorted),
				r.peers[sorted+" segment_reduce"]/r.value(sorted), r.peers[sorted+" index_add deterministic"]/r.value(sorted)),
			fmt.Sprintf("%s ms against %s ms, %s times the bound", ms(gru.Device.Median), ms(r.peers["gruflow/energyflow torch.nn.GRU"]), over(gru.Device.Median, gru.BoundS)),
			fmt.Sprintf("%+.2f %% [%.2f, %.2f]; no gap between kernels", 100*(large.Overhead.Ratio-1), 100*(large.Overhead.CI95[0]-1), 100*(large.Overhead.CI95[1]-1)),
			fmt.Sprintf("Kernels took %.0f to %.0f ms to load", least*1e3, most*1e3),
			fmt.Sprintf("deepaw with `precision=tf32`, bf16, fp16: %[2]s, %[3]s, %[4]s ms of %[1]s; ", steps("../gpu-record/sweeps/e3nn-deepaw-precision")...),
			fmt.Sprintf("energyflow: %[2]s, %[3]s, %[4]s ms of %[1]s (", steps("../gpu-record/sweeps/gruflow-energyflow-precision")...),
			fmt.Sprintf("| %s ms; %.0f %% of the bound |", ms(large.Stage("radial").Device.Median), 100*large.Stage("radial").BoundS/large.Stage("radial").Device.Median),
			fmt.Sprintf("| **%.0f us** (308 before); %.0f %% |", 1e6*large.Stage("linear_gate").Device.Median, 100*large.Stage("linear_gate").BoundS/large.Stage("linear_gate").Device.Median),
			fmt.Sprintf("| **%s ms** (1.18 before); %.0f %% |", ms(deepaw.Stage("linear_gate").Device.Median), 100*deepaw.Stage("linear_gate").BoundS/deepaw.Stage("linear_gate").Device.Median),
			fmt.Sprintf("the kernel %.1f and %.1f us, **%.0f and %.0f %%**", 1e6*kernel(large, "sph"), 1e6*kernel(deepaw, "sph"), sph(large), sph(deepaw)),
			fmt.Sprintf("%.1f us of %.0f exposed", 1e6*precise.Stage("d2h").Exposed.Median, 1e6*precise.Stage("d2h").Device.Median),
		},
	} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sentences {
			if !strings.Contains(string(text), s) {
				t.Errorf("%s does not say %q, which the recorded files give", filepath.Base(page), s)
			}
		}
	}
}

// loading is the least and the longest time that kernels took to load in the runs of the later call's day, in s.
func (r *recordedCheck) loading() (least, most float64) {
	r.t.Helper()
	least = math.Inf(1)
	for _, folder := range []string{"runs", "by-hand"} {
		files, err := filepath.Glob(filepath.Join(recordedFolder, folder, "*.json.gz"))
		if err != nil || len(files) == 0 {
			r.t.Fatal(folder, err)
		}
		for _, f := range files {
			took := float64(r.runs(folder + "/" + strings.TrimSuffix(filepath.Base(f), ".json.gz"))[0].Calibration["kernel_loading"])
			least, most = min(least, took), max(most, took)
		}
	}
	return least, most
}
