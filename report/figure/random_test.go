//go:build !race

// Under the race detector this takes ten times as long; it runs in one goroutine, where the detector finds nothing.

package figure_test

import (
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/figure"
)

// TestSVGNeverBreaks draws every kind of every run, hostile ones too, and
// parses the result. What a run cannot give is refused with what it can.
func TestSVGNeverBreaks(t *testing.T) {
	for name, r := range hostileRuns() {
		for _, kind := range append(figure.Kinds(), "") {
			f, err := figure.OfRuns([]*gpuprof.Run{r, nil, fixture.One()}, kind)
			if err != nil {
				checkSVG(t, name+" "+kind, "", err)
				continue
			}
			checkAll(t, name+" "+kind, f)
		}
	}
}
