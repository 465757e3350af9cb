package compare_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/compare"
)

// Processes that take one of two times are named so, with both times, and no verdict blames noise.
func TestTwoModesAreNamed(t *testing.T) {
	m := machine{shift: 0.005, sample: 0.002, samples: 1, modes: 0.5}
	rng := rand.New(rand.NewPCG(62, 1))
	g := files(t, m.run(20, 0, rng), m.run(20, 0, rng), judged(compare.Options{}))
	why, next := g.Metrics[0].Reason, strings.Join(g.Next, " ")
	if g.Verdict != compare.Inconclusive || !strings.Contains(why, "two modes, 1") || !strings.Contains(why, "1.3") || !strings.Contains(next, "two modes") {
		t.Errorf("%s %q, next %q", g.Verdict, why, next)
	}
}
