package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/health"
)

// Norm is a figure's distribution over comparable GPUs, by which doctor --bench --against judges another GPU.
type Norm struct {
	Name        string  `json:"name"` // name of the GPU model
	Driver      string  `json:"driver,omitempty"`
	PowerLimitW float64 `json:"power_limit_w,omitempty"`
	MIG         bool    `json:"mig,omitempty"`
	Metric      string  `json:"metric"`
	Unit        string  `json:"unit"`
	GPUs        int     `json:"gpus"`
	// Median is in Unit. Spread is the robust standard deviation of the logarithm. Apart is the median difference
	// between the logarithms of a GPU's two best rounds; 0 with one round.
	Median gpuprof.Number `json:"median"`
	Spread gpuprof.Number `json:"spread"`
	Apart  gpuprof.Number `json:"apart,omitempty"`
}

// fleetNorms computes the norms of a fleet's figures, sorted by name and metric.
func fleetNorms(values []value, gpus []gpu) []Norm {
	var out []Norm
	for of, at := range groupBySiblings(values) {
		n, first := normOf(values, at), values[at[0]]
		c := gpus[first.of].card
		sign := 1.0
		if !first.more {
			sign = -1
		}
		out = append(out, Norm{Name: c.Name, Driver: c.Facts["driver"], PowerLimitW: c.Condition.PowerLimitW, MIG: c.Condition.MIG, Metric: of.metric, Unit: health.Unit(of.metric),
			GPUs: n.n, Median: gpuprof.Number(math.Exp(sign * n.c)), Spread: gpuprof.Number(n.s), Apart: gpuprof.Number(n.apart)})
	}
	slices.SortFunc(out, func(a, b Norm) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.PowerLimitW, b.PowerLimitW), cmp.Compare(fmt.Sprint(a.MIG), fmt.Sprint(b.MIG)), cmp.Compare(a.Metric, b.Metric))
	})
	return out
}

// matchesCard reports whether a norm covers the device of c. differs names a different driver or power limit; "" if
// both agree.
func (n *Norm) matchesCard(c *health.Card) (ok bool, differs string) {
	switch {
	case n.Name != c.Name || n.MIG != c.Condition.MIG:
		return false, ""
	case n.Driver != c.Facts["driver"]:
		differs = fmt.Sprintf("the driver is %s, of the reference %s", cmp.Or(c.Facts["driver"], "not known"), cmp.Or(n.Driver, "not known"))
	case n.PowerLimitW != c.Condition.PowerLimitW:
		differs = fmt.Sprintf("the power limit is %.4g W, of the reference %.4g W", c.Condition.PowerLimitW, n.PowerLimitW)
	}
	return true, differs
}

// nearestNorm returns a norm of the device's model for a metric: the one with the same driver and power limit, else the
// one over the most GPUs; nil without any.
func (r *Report) nearestNorm(c *health.Card, metric string) (best *Norm, differs string) {
	for i := range r.Reference {
		n := &r.Reference[i]
		ok, how := n.matchesCard(c)
		switch {
		case !ok || n.Metric != metric:
		case how == "":
			return n, ""
		case best == nil || n.GPUs > best.GPUs:
			best, differs = n, how
		}
	}
	return best, differs
}

// Beside judges the figures of other devices by the fleet's norms and the fleet's rule. Figures without a norm have no
// entry. notes has the limits of the comparison.
func (r *Report) Beside(cards []health.Card) (found map[health.Figure]health.Beside, notes []string) {
	var all []judged
	rare := make([]bool, len(cards)) // devices of a model with too few GPUs
	for i := range cards {
		c := &cards[i]
		why, few := map[string]bool{}, 0
		for _, s := range health.Scores(c) {
			n, differs := r.nearestNorm(c, s.Metric)
			if n == nil {
				continue
			}
			if differs != "" && !why[differs] {
				why[differs] = true
				notes = append(notes, fmt.Sprintf("%s: %s", c.Device, differs))
			}
			if n.GPUs < LeastSiblings {
				few = n.GPUs
				continue
			}
			middle := norm{n: n.GPUs, c: math.Log(float64(n.Median)), s: float64(n.Spread), apart: float64(n.Apart)}
			if !s.More {
				middle.c = -middle.c
			}
			j := middle.judgeAgainst(valueOf(i, c, &s))
			all = append(all, j)
		}
		if few > 0 {
			rare[i] = true
			notes = append(notes, fmt.Sprintf("%s: the reference has %d of its kind, too few to judge it by: that takes %d", c.Device, few, LeastSiblings))
		}
	}
	markOff(all)
	found = map[health.Figure]health.Beside{}
	for _, j := range all {
		b := health.Beside{Expected: math.Exp(j.median), Off: j.off}
		if !j.more {
			b.Expected = math.Exp(-j.median)
		}
		if j.isDoubtful() {
			notes = append(notes, unsteadyText(&j, cards[j.of].Device, "the reference"))
		}
		found[health.Figure{Card: j.of, Metric: j.metric}] = b
	}
	for i := range cards {
		if !rare[i] && !slices.ContainsFunc(all, func(j judged) bool { return j.of == i }) && cards[i].Error == "" {
			notes = append(notes, fmt.Sprintf("%s: the reference has no GPU of its name (%s)", cards[i].Device, cards[i].Name))
		}
	}
	return found, notes
}

// UsableReference returns ErrInput if the report has no norms or invalid ones. path is the report's file.
func (r *Report) UsableReference(path string) error {
	if len(r.Reference) == 0 {
		return gpuprof.Errorf(gpuprof.ErrInput, "reading the reference %s: it is a report without figures of GPUs", path).WithFix("give what gpuprof fleet -o FILE.json wrote of nodes that ran gpuprof doctor --bench -o DIR/")
	}
	for _, n := range r.Reference {
		if !(n.Median > 0) || math.IsInf(float64(n.Median), 0) || !(n.Spread > 0) || math.IsInf(float64(n.Spread), 0) || !(n.Apart >= 0) || math.IsInf(float64(n.Apart), 0) || n.GPUs < 1 {
			return gpuprof.Errorf(gpuprof.ErrInput, "reading the reference %s: %s of %s cannot be %g with a spread of %g on %d GPUs", path, n.Metric, n.Name, float64(n.Median), float64(n.Spread), n.GPUs).WithFix("write it again with gpuprof fleet -o FILE.json")
		}
	}
	return nil
}

// valueOf converts a device's figure for judging.
func valueOf(of int, c *health.Card, s *health.Score) value {
	return value{of: of, group: c.Siblings(), metric: s.Metric, log: s.Log, more: s.More, slack: s.Slack, apart: s.Apart}
}

// unsteadyText explains why a worse figure is not off: its rounds differ too much, or its interval is too wide.
func unsteadyText(j *judged, who, others string) string {
	why := "its two best rounds differ by " + gpuprof.FormatPercent(math.Expm1(j.unsteady), 2)
	if j.unsteady == 0 {
		half := j.half()
		why = "its own interval is " + gpuprof.FormatPercent(math.Expm1(half), 2) + " wide to each side"
		if math.IsInf(half, 0) {
			why = "it has too few samples for an interval"
		}
	}
	return fmt.Sprintf("%s of %s is %s worse than %s, but %s, so it is not called off: measure it again", j.metric, who, gpuprof.FormatPercent(j.worseShare(j.median), 2), others, why)
}
