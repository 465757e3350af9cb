package figure

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/sweep"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// LatencyOverLoad draws latency over load, with the knee: the largest load at which 99 of 100 answers are in time.
func LatencyOverLoad(runs []*gpuprof.Run) *Figure {
	f := newRunFigure("load", "Latency over load",
		"The latency within which a share of the answers came, by the load: the rate over the throughput at saturation of the same run. Vertical lines mark the knee, the horizontal one the time within which an answer is of use.", runs[0])
	curves, _ := sweep.Loads(runs)
	if curves == nil {
		return f.setLacking("fewer than two runs served requests at a rate, so sweep the load of a service first: gpuprof run " + view.Cut(runs[0].Workload, 40) + " --set KNOB=A,B,C -o sweep.json")
	}
	head, where := view.SweepHead(runs)
	f.Subject, f.Context = head, []string{where, gpuprof.Plural(len(runs), "run")}
	f.setDate(runs[0].Started)
	shares := []float64{0.5, 0.99}
	if len(curves) == 1 {
		shares = []float64{0.5, 0.9, 0.99, 0.999}
	}
	var all []curve
	for i, c := range curves {
		for j, share := range shares {
			out := curve{label: strings.TrimSpace(fmt.Sprintf("%s p%g", c.Label, 100*share)), tone: toneOf(i*len(shares) + j), joined: true}
			for _, p := range c.Points {
				at, ok := p.Requests.Latency.At(share)
				if !ok {
					continue
				}
				pt := curvePoint{x: p.Load, value: fmt.Sprintf("%.3g", p.Load), y: at.S, text: view.Seconds(at.S)}
				if at.CI95 != nil {
					pt.ci = *at.CI95
					pt.text += " (95 % " + view.Interval(*at.CI95, view.Seconds) + ")"
				}
				out.points = append(out.points, pt)
			}
			if len(out.points) > 0 {
				all = append(all, out)
				f.Legend = append(f.Legend, Entry{Text: view.Cut(out.label, 60), Tone: out.tone})
			}
		}
	}
	p, ok := curvePanel("load", "latency", "s", true, all)
	if !ok {
		for _, c := range curves {
			if len(c.Points) == 0 {
				return f.setRunLacking(runs[0], c.Text())
			}
		}
		return f.setRunLacking(runs[0], "no percentile of the latency was measured")
	}
	for i, c := range curves {
		if c.SLO >= p.Y.Min && c.SLO <= p.Y.Max && (i == 0 || c.SLO != curves[0].SLO) {
			p.Marks = append(p.Marks, Mark{Kind: Rule, Y0: c.SLO, Across: true, Tone: Ink, Form: Dashed, Tip: "answers of use come within " + view.Seconds(c.SLO)})
		}
		if knee, _ := c.Knee(); knee >= 0 {
			p.Marks = append(p.Marks, Mark{Kind: Rule, X0: knee, Y0: p.Y.Max, Tone: Soft, Form: Dashed, Text: "knee at " + fmt.Sprintf("%.3g", knee), Tip: c.Text()})
		}
		f.addNote(c.Text())
	}
	f.Panels = append(f.Panels, p)
	return f
}
