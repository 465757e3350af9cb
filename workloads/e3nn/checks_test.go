//go:build !race

// Under the race detector these sessions take ten times as long. TestChecksPass has every implementation there.

package e3nn

import (
	"strings"
	"testing"
)

// Checks of more settings, and of the presets for GPUs at their full widths on a few dozen edges.
func TestMoreChecksPass(t *testing.T) {
	for _, set := range [][]string{
		{"small", "impl=unfused", "batch=24"},
		{"small", "impl=fused", "layout=mul_ir", "lmax=0", "batch=24"},
		{"small", "edges=601", "batch=70", "threads=1"},
		{"small", "points=atoms", "batch=6", "cutoff=7"},
		{"small", "graph=on", "impl=unfused", "batch=20"},
		{"small", "graph=on", "impl=fused", "batch=20", "sync=step"},
		{"small", "precision=tf32", "batch=24"},
		{"small", "precision=bf16", "impl=unfused", "batch=20", "library=off"},
		{"small", "autotune=on", "batch=24"},
		{"deepaw", "batch=3", "edges=40"},
		{"deepaw", "batch=3", "impl=unfused", "mul=50", "edges=40"},
		{"mace-medium", "edges=48", "batch=12"},
		{"mace-large", "edges=40", "impl=fused", "batch=10"},
	} {
		t.Run(strings.Join(set, ","), func(t *testing.T) {
			passes(t, openSession(t, set[0], set[1:]...))
		})
	}
}
