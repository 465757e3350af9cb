package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/latency"
	"github.com/gpuprof/gpuprof/internal/loadtest"
)

// kneeShare is the share of requests that must be answered within the SLO.
const kneeShare = 0.99

// LoadCurve is a service under several loads; its other settings are fixed.
type LoadCurve struct {
	Label  string
	SLO    float64 // s; 0 if the runs have several
	Points []LoadPoint
	Late   []float64 // loads left out, because a late sender may have delayed the answers
}

// LoadPoint is one run of a LoadCurve.
type LoadPoint struct {
	Load     float64 // request rate divided by the throughput of the same run
	Requests *loadtest.Requests
}

// Keeps reports whether 99 of 100 requests were answered within the SLO. Refused and failed requests count as
// unanswered, since refusals must not make a service look fast. known is false if the requests are too few.
func (p LoadPoint) Keeps() (keeps, known bool) {
	if !latency.Enough(kneeShare, p.Requests.Latency.Count) {
		return false, false
	}
	sum := p.Requests.Sum()
	return float64(sum.InTime) >= kneeShare*float64(sum.Scheduled-sum.Open), true
}

// hasLateSender reports whether a late sender may have delayed the answers.
func (p LoadPoint) hasLateSender() bool {
	keeps, known := p.Keeps()
	return p.Requests.Told() == 0 || p.Requests.Told() < 1 && known && !keeps
}

// Knee returns the largest load at which the SLO is kept. above is the smallest load below the knee at which the SLO is
// not kept, because noise or a burst decided one of the two results. Each is -1 if there is none.
func (c LoadCurve) Knee() (knee, above float64) {
	knee, above = -1, -1
	for _, p := range c.Points { // by rising load
		keeps, known := p.Keeps()
		switch {
		case !known || c.SLO <= 0:
		case keeps:
			knee = p.Load
		case above < 0:
			above = p.Load
		}
	}
	if above > knee {
		above = -1
	}
	return knee, above
}

// Bar divides the range of loads, from 0 to 1 (saturation) or to the largest measured load, into three parts: in time
// up to the knee, not measured up to the next load, and too late above it. It is nil without a knee, or if a load below
// the knee was too late.
func (c LoadCurve) Bar() *gpuprof.Bar {
	knee, above := c.Knee()
	if knee <= 0 || above >= 0 {
		return nil
	}
	most, next := max(1, c.Points[len(c.Points)-1].Load), 0.0
	for _, p := range c.Points {
		if _, known := p.Keeps(); known && p.Load > knee && next == 0 {
			next = p.Load
		}
	}
	parts := []gpuprof.BarPart{{Name: "in time", Value: knee / most}}
	if next > 0 {
		parts = append(parts, gpuprof.BarPart{Name: "not measured", Value: (next - knee) / most}, gpuprof.BarPart{Name: "too late", Value: (most - next) / most})
	} else {
		parts = append(parts, gpuprof.BarPart{Name: "not measured", Value: (most - knee) / most})
	}
	return gpuprof.WholeBar(fmt.Sprintf("load from 0 to %.3g", most), "1", 1, parts)
}

// Text states the knee of the curve, or why it has none.
func (c LoadCurve) Text() string {
	name := ""
	if c.Label != "" {
		name = c.Label + ": "
	}
	if c.SLO <= 0 {
		return name + "no knee: the runs have several values of what is in time"
	}
	if len(c.Late) > 0 {
		late := make([]string, len(c.Late))
		for i, load := range c.Late {
			late[i] = fmt.Sprintf("%.3g", load)
		}
		if len(c.Points) == 0 {
			return name + "no knee: at every load the sender was late"
		}
		return name + c.kneeText() + "; left out: load " + strings.Join(late, ", ") + ", where the sender was late"
	}
	return name + c.kneeText()
}

func (c LoadCurve) kneeText() string {
	within := "99 of 100 requests within " + gpuprof.FormatSeconds(c.SLO)
	knee, above := c.Knee()
	switch {
	case knee < 0:
		for _, p := range c.Points {
			if _, known := p.Keeps(); known {
				return "no knee: at no load here were " + within + " answered"
			}
		}
		return "no knee: too few requests came for a p99; --min-time makes the load longer"
	case above >= 0:
		return fmt.Sprintf("knee at load %.3g, the largest with %s; but at %.3g, below it, fewer were: measure again", knee, within, above)
	case knee == c.Points[len(c.Points)-1].Load:
		return fmt.Sprintf("knee above load %.3g, the largest measured: it answers %s", knee, within)
	}
	return fmt.Sprintf("knee at load %.3g, the largest with %s", knee, within)
}

// Loads splits runs with a request rate into curves over the load; nil without a curve of two measured loads. A run
// is not a point of its curve if its request sender fell behind and may have delayed answers. Its load is then in
// Late. only reports whether the runs differ only in load.
func Loads(runs []*gpuprof.Run) (curves []LoadCurve, only bool) {
	var rateKnobs []string
	served := false
	for _, r := range runs {
		if q := r.Requests; q != nil && q.Rate > 0 && q.Throughput > 0 {
			served, rateKnobs = true, append(rateKnobs, q.RateKnobs...)
		}
	}
	if !served {
		return nil, false
	}
	others := slices.DeleteFunc(slices.Clone(Vary(runs)), func(n string) bool { return slices.Contains(rateKnobs, n) })
	index := map[string]int{}
	for _, r := range runs {
		q := r.Requests
		if q == nil || q.Rate <= 0 || q.Throughput <= 0 || q.Latency.Count == 0 || q.Waits != "" {
			continue
		}
		label := strings.TrimSpace(SettingText(r, others))
		at, has := index[label]
		if !has {
			at = len(curves)
			index[label], curves = at, append(curves, LoadCurve{Label: label, SLO: q.SLO})
		}
		c := &curves[at]
		if c.SLO != q.SLO {
			c.SLO = 0
		}
		p := LoadPoint{q.Rate / q.Throughput, q}
		if p.hasLateSender() {
			c.Late = append(c.Late, p.Load)
			continue
		}
		c.Points = append(c.Points, p)
	}
	enough := false
	for _, c := range curves {
		slices.SortStableFunc(c.Points, func(a, b LoadPoint) int { return cmp.Compare(a.Load, b.Load) })
		slices.Sort(c.Late)
		enough = enough || len(c.Points)+len(c.Late) > 1
	}
	if !enough {
		return nil, false
	}
	return curves, len(others) == 0
}
