package search

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads/guides"
)

func (c *claimRunner) describeAB(k guides.Claim) string {
	if len(k.AB) == 0 {
		return ""
	}
	ab := k.AB[c.decidingIndex(k)]
	if k.Run == guides.Share || k.Run == guides.Overhead {
		return "one run of " + abSide(ab, ab.B)
	}
	return abText(ab)
}

func abSide(ab guides.AB, s gpuprof.Settings) string {
	return strings.TrimSpace(ab.Workload + " " + ab.Preset + " " + tune.DescribeSettings(s))
}

func abText(ab guides.AB) string {
	a, b := tune.DescribeSettings(ab.A), tune.DescribeSettings(ab.B)
	for k, v := range ab.EnvB {
		b += k + "=" + v
	}
	a = cmp.Or(a, "as preset")
	b = cmp.Or(b, "as preset")
	return fmt.Sprintf("%s %s: %s -> %s", ab.Workload, ab.Preset, a, b)
}
