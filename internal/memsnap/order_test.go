//go:build !race

// One goroutine replays, which takes ten times as long under the race detector.

package memsnap

import (
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/memtest"
)

// Before PyTorch 2.12 blocks of equal size are chosen by address. Results about such a file are ranges if that
// matters. The range contains the result for a newer version, whose addresses rise like the recording's.
func TestSettingsThatDependOnAddresses(t *testing.T) {
	ranges, exact := 0, 0
	for seed := range uint64(30) {
		of := func(minor int) []WhatIf {
			r := memtest.New(2, minor)
			play(t, r, program(2*seed, 90, 1, 1))
			return analyzed(t, mustRead(t, memtest.Python(r.Snapshot(), 4))).Devices[0].WhatIf
		}
		now := of(15)
		for i, w := range of(10) {
			k := slices.IndexFunc(now, func(n WhatIf) bool { return n.Setting == w.Setting })
			if k < 0 || now[k].PeakReserved < w.LeastReserved || now[k].PeakReserved > w.PeakReserved || !now[k].Exact {
				t.Errorf("seed %d: %+v is said of 2.10, of 2.15 %+v", seed, w, now)
			}
			switch {
			case !w.Exact:
				ranges++
			default:
				exact++
			}
			if w.Exact != (w.LeastReserved == w.PeakReserved) || w.Setting == "expandable_segments:True" && !w.Exact || i == 0 && !w.Exact {
				t.Errorf("seed %d: %+v", seed, w)
			}
		}
	}
	if ranges == 0 || exact < 60 {
		t.Errorf("%d settings have a range and %d one figure; the test wants both", ranges, exact)
	}
}
