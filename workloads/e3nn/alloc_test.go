//go:build !race

// The race detector allocates on its own account: counts hold for normal builds only.

package e3nn

import (
	"strings"
	"testing"
)

func TestCUDAStepsAllocateNothing(t *testing.T) {
	for _, set := range []string{
		"impl=csr", "impl=fused", "impl=unfused", "graph=on", "precision=tf32", "precision=bf16,graph=on", "pinned=off,async_copy=off,streams=1",
		"item_reads=2,sync=step", "pool_trim=every:2", "reset_stats=on", "reset_stats=sync",
	} {
		t.Run(set, func(t *testing.T) {
			s := openOn(t, openSimulated(t, true), "small", append(strings.Split(set, ","), "batch=2", "edges=8", "mul=2", "lmax=1")...)
			noAllocations(t, s)
			closed(t, s)
		})
	}
}

func TestStepsAllocateNothing(t *testing.T) {
	for _, set := range []string{
		"impl=csr", "impl=fused", "impl=unfused", "graph=on", "graph=on,impl=unfused", "precision=tf32", "precision=bf16", "precision=fp16,graph=on",
		"pinned=off,async_copy=off,streams=1", "item_reads=4,sync=step", "autotune=on", "pass=forces", "pass=forces,recompute=all,layout=mul_ir,precision=bf16", "pass=train,optimizer=foreach,precision=bf16",
	} {
		t.Run(set, func(t *testing.T) {
			s := openSession(t, "small", append(strings.Split(set, ","), "batch=30")...)
			noAllocations(t, s)
		})
	}
}
