//go:build !race

// Under the race detector these sessions take five times as long. TestCUDA has what differs in its goroutines there.

package e3nn

import "testing"

// Every knob on the CUDA device, as TestCUDA looks at a setting, and presets at their own shapes.
func TestCUDAKnobs(t *testing.T) {
	for libraries, sets := range map[bool][]string{
		false: {
			"impl=csr", "impl=fused", "impl=unfused", "impl=unfused,deterministic=on", "layout=mul_ir",
			"basis=bessel,lmax=2", "graph=on", "graph=on,impl=unfused", "graph=on,impl=csr,streams=1", "graph=on,precision=bf16",
			"precision=tf32", "precision=bf16", "precision=fp16,impl=fused", "library=off", "pinned=off", "async_copy=off", "streams=1",
			"pinned=off,async_copy=off,streams=1,sync=step", "item_reads=2,sync=every:2", "reset_stats=on", "reset_stats=sync,pool_trim=every:2",
			"autotune=on,impl=fused", "points=atoms,cutoff=4",
			"pass=forces,recompute=weights", "pass=forces,recompute=all,impl=fused", "pass=train,recompute=weights", "pass=train,optimizer=foreach,graph=on,recompute=all",
		},
		true: { // where there are matrix products to tell apart
			"impl=csr", "graph=on", "graph=on,precision=bf16", "graph=on,impl=csr,streams=1", "precision=tf32", "precision=bf16",
			"precision=fp16,impl=fused", "library=off", "autotune=on,impl=fused",
		},
	} {
		for nth, set := range sets {
			if !nightly && nth%2 != 0 {
				continue // by day every other setting
			}
			onCUDA(t, libraries, set)
		}
	}
	for _, preset := range []string{"deepaw", "nequip-lips"} {
		t.Run(preset, func(t *testing.T) {
			s := openOn(t, openSimulated(t, true), preset, "batch=2", "edges=6", "mul=10", "lmax=2")
			passes(t, s)
			closed(t, s)
		})
	}
}
