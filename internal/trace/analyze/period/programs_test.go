//go:build !race

// Under the race detector this takes a minute; it runs in one goroutine, where the detector finds nothing.

package period

import (
	"math/rand/v2"
	"testing"
)

// Of every made-up program the step found is the one that was made, or none where there is none.
func TestPrograms(t *testing.T) {
	for _, c := range programs {
		t.Run(c.name, func(t *testing.T) {
			seeds := uint64(10)
			if nightly {
				seeds = 40
			}
			for seed := range seeds {
				p := &program{r: rand.New(rand.NewPCG(1, seed)), names: map[string]int32{}}
				c.make(p)
				if wrong := p.check(Find(p.all)); wrong != "" {
					t.Errorf("seed %d: %s", seed, wrong)
				}
			}
		})
	}
}
