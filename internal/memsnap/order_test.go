//go:build !race

// One goroutine replays, which takes ten times as long under the race detector.

package memsnap

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/internal/memsnap/memtest"
)

// Before PyTorch 2.13 blocks of equal size are chosen by address. Where that matters to a
// setting, the replay says nothing of it; what it says is what it says of a newer version.
func TestSettingsThatDependOnAddresses(t *testing.T) {
	left, kept := 0, 0
	for seed := range uint64(30) {
		of := func(minor int) []WhatIf {
			r := memtest.New(2, minor)
			random(r, 70, rand.New(rand.NewPCG(seed, 2)).IntN)
			return analyzed(t, mustRead(t, memtest.Python(r.Snapshot(), 4))).Devices[0].WhatIf
		}
		old, now := of(12), of(15)
		left += len(now) - len(old)
		kept += len(old)
		for _, w := range old {
			if !slices.Contains(now, w) {
				t.Errorf("seed %d: %+v is said of 2.12 and not of 2.15: %+v", seed, w, now)
			}
		}
		if !slices.ContainsFunc(old, func(w WhatIf) bool { return w.Setting == "expandable_segments:True" }) {
			t.Errorf("seed %d: expandable segments do not depend on addresses: %+v", seed, old)
		}
	}
	if left == 0 || kept < 60 {
		t.Errorf("%d settings were left out and %d kept; the test wants both", left, kept)
	}
}
