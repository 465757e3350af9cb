//go:build !race

// Under the race detector these sessions take ten times as long. TestCUDA and TestChecksPass have each implementation there.

package gruflow

import "testing"

// Every variant of a step on the CUDA device that TestCUDA leaves out.
func TestCUDASettings(t *testing.T) {
	onCUDA(t, "impl=plain", "deterministic=off", "steps=3", "impl=plain,steps=2,precision=tf32",
		"precision=bf16", "precision=fp16,steps=2", "precision=tf32", "layers=1,steps=4",
		"impl=fused,precision=bf16", "impl=fused,steps=2", "layers=1,steps=3,precision=bf16")
}

// Checks of more settings than TestChecksPass has, and of the presets for GPUs.
func TestMoreChecksPass(t *testing.T) {
	checksPass(t, [][]string{
		{"small", "deterministic=off"},
		{"small", "graph=on"},
		{"small", "steps=5", "flows=7", "impl=plain", "hidden=9"},
		{"small", "steps=3", "flows=77", "layers=3", "hidden=21", "depth=3"},
		{"small", "precision=tf32"},
		{"small", "precision=fp16", "impl=plain", "steps=2"},
		{"small", "precision=bf16", "layers=3", "steps=3"},
		{"energyflow", "flows=70", "hidden=96"},
		{"energyflow", "flows=400", "hidden=300", "layers=2"},
		{"deepbench", "hidden=64", "input=64", "steps=50"},
	})
}
