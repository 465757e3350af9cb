package figure

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/latency"
	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Requests draws a service under load from its callers' side: latency percentiles, latency and queue over time,
// batches.
func Requests(r *gpuprof.Run) *Figure {
	f := newRunFigure("requests", "Requests under load",
		"The latency within which each share of the requests was answered, on an axis of percentiles; p50 and p99 of each part of the load over time; the requests that waited; the sizes of batches.", r)
	q := r.Requests
	if q == nil {
		return f.setRunLacking(r, "the run served no requests")
	}
	if q.Latency.Count == 0 {
		return f.setRunLacking(r, "no request was answered")
	}
	curves, fault := percentilePanel(q)
	if fault != nil {
		return f.setLacking("its histograms cannot be read: " + fault.Error())
	}
	f.Panels = append(f.Panels, curves)
	if q.Told() > 0 {
		f.Legend = []Entry{{Text: "latency", Tone: "p0", Form: Stroke}}
	}
	if q.FromSent != nil {
		f.Legend = append(f.Legend, Entry{Text: "latency that the waiting sender sees", Tone: "p1", Form: Stroke})
	}
	if o := q.OnSchedule.Requests(); o != nil && o.Told() > 0 {
		f.Legend = append(f.Legend, Entry{Text: fmt.Sprintf("latency of %.4g requests per second on a schedule, as many as the callers sent", o.Rate), Tone: "p1", Form: Stroke})
	}
	if q.SenderLate != "" {
		f.Legend = append(f.Legend, Entry{Text: "delay of the sender", Tone: "p1", Form: Stroke})
		f.addNote(q.SenderLate + ": latencies that measure the sender are left out")
	}
	f.Panels = append(f.Panels, timePanels(q)...)
	f.Panels = append(f.Panels, batchPanel(q))
	switch q.Waits {
	case loadtest.WaitsRoom:
		f.addNote("the sender waited for room in the queue: the time for which it was held back is in the latency, and not in what it sees itself")
	case loadtest.WaitsAnswer:
		f.addNote("each caller waits for its answer before it sends again, so that a slow service is asked less often: these latencies hide how long requests on a schedule would have taken")
	}
	return f
}

// shareTicks returns ticks at usual percentiles on an axis of log10(1/(1-share)).
func shareTicks(most float64) []Tick {
	var out []Tick
	for _, t := range []struct {
		share float64
		label string
	}{{0, "0"}, {0.5, "50 %"}, {0.9, "90 %"}, {0.99, "99 %"}, {0.999, "99.9 %"}, {0.9999, "99.99 %"}, {0.99999, "99.999 %"}, {0.999999, "99.9999 %"}} {
		if at := -math.Log10(1 - t.share); at <= most+1e-9 {
			out = append(out, Tick{at, t.label})
		}
	}
	return out
}

func percentilePanel(q *loadtest.Requests) (Panel, error) {
	p := Panel{Height: 190}
	var most, longest float64
	type line struct {
		processes []loadtest.Served
		of        func(*loadtest.Served) *loadtest.Recorded
		upTo      float64 // largest share whose latency is the service's; above, it is the delay of a late sender
		tone      Tone
	}
	lines := []line{{q.Processes, func(s *loadtest.Served) *loadtest.Recorded { return &s.Latency }, q.Told(), "p0"}}
	if q.FromSent != nil {
		lines = append(lines, line{q.Processes, func(s *loadtest.Served) *loadtest.Recorded { return s.FromSent }, 1, "p1"})
	}
	if o := q.OnSchedule.Requests(); o != nil {
		lines = append(lines, line{o.Processes, lines[0].of, o.Told(), "p1"})
	}
	if q.SenderLate != "" {
		lines = append(lines, line{q.Processes, func(s *loadtest.Served) *loadtest.Recorded { return &s.Late }, 1, "p1"})
	}
	for _, l := range lines {
		if l.upTo == 0 {
			continue
		}
		var parts []loadtest.Recorded
		for i := range l.processes {
			if part := l.of(&l.processes[i]); part != nil {
				parts = append(parts, *part)
			}
		}
		h, err := latency.Merged(parts)
		if err != nil {
			return p, err
		}
		m := Mark{Kind: Line, Tone: l.tone, Form: Stroke}
		for _, c := range h.Curve(8) {
			x := -math.Log10(c[0])
			if c[0] < 1-l.upTo {
				break
			}
			most, longest = max(most, x), max(longest, c[1])
			m.Points = append(m.Points, [2]float64{x, c[1]})
		}
		p.Marks = append(p.Marks, m)
	}
	for _, c := range q.Latency.Percentiles {
		x := -math.Log10(1 - c.Share)
		text := fmt.Sprintf("p%g: %s", 100*c.Share, view.Seconds(c.S))
		if c.CI95 != nil {
			text += " (95 % " + view.Interval(*c.CI95, view.Seconds) + ")"
			p.Marks = append(p.Marks, Mark{Kind: Range, X0: x, X1: x, Y0: c.CI95[0], Y1: c.CI95[1], Tone: Ink})
			longest = max(longest, min(c.CI95[1], 2*longest))
		}
		p.Marks = append(p.Marks, Mark{Kind: Dot, X0: x, Y0: c.S, Tone: "p0", Tip: text})
	}
	most = max(most, 1)
	p.X = Axis{Max: most, Label: "share of the requests answered within", Ticks: shareTicks(most)}
	p.Y = titleAxis(&p, "latency by percentile", longest)
	if q.SLO > 0 && q.SLO <= p.Y.Max {
		p.Marks = append(p.Marks, Mark{Kind: Rule, Y0: q.SLO, Across: true, Tone: Ink, Form: Dashed, Tip: "answers of use come within " + view.Seconds(q.SLO)})
	}
	return p, nil
}

// titleAxis returns an axis of times up to most, s, and moves its title above the panel.
func titleAxis(p *Panel, title string, most float64) Axis {
	y := secondsAxis(title, max(most*1.05, 1e-6))
	p.Title, y.Label = y.Label, ""
	return y
}

// timePanels draws latency and queue over the blocks of the first process; processes have no common clock.
func timePanels(q *loadtest.Requests) []Panel {
	lat := Panel{Height: 92}
	queue := Panel{Title: "requests that waited when a batch began: mean (thick) and most (thin) of each part", Height: 62}
	forms := []Form{Stroke, Outline}
	shares := slices.DeleteFunc([]float64{0.5, 0.99}, func(share float64) bool { return share > q.Told() })
	lats, waits := make([]Mark, len(shares)), make([]Mark, 2)
	for i := range lats {
		lats[i] = Mark{Kind: Line, Tone: "p0", Form: forms[i]}
	}
	for i := range waits {
		waits[i] = Mark{Kind: Line, Tone: "p2", Form: forms[i]}
	}
	from, to := math.Inf(1), 0.0
	var longest, deepest float64
	for _, b := range q.Processes[0].Blocks {
		h, err := latency.Decode(b.Latency)
		if err != nil || h.Count() == 0 {
			continue
		}
		from, to = min(from, b.StartS), max(to, b.StartS+b.Seconds)
		at := b.StartS + b.Seconds/2
		for i, share := range shares {
			lats[i].Points = append(lats[i].Points, [2]float64{at, h.At(share)})
			longest = max(longest, h.At(share))
		}
		for i, n := range []float64{b.QueueMean, float64(b.QueueMax)} {
			waits[i].Points = append(waits[i].Points, [2]float64{at, n})
		}
		deepest = max(deepest, float64(b.QueueMax))
	}
	if len(waits[0].Points) == 0 {
		return nil
	}
	lat.X, queue.X = Axis{Min: from, Max: to, Bare: true}, Axis{Min: from, Max: to, Label: "time since the load began (s)"}
	title := "latency over time, p50 (thick) and p99 (thin) of each part"
	if len(shares) == 1 {
		title = "latency over time, p50 of each part"
	}
	lat.Y, queue.Y = titleAxis(&lat, title, longest), Axis{Max: max(deepest*1.05, 1)}
	lat.Marks, queue.Marks = addPoints(lats), addPoints(waits)
	if len(lats) == 0 {
		return []Panel{queue}
	}
	return []Panel{lat, queue}
}

// addPoints marks the points of lines with fewer than 40 points.
func addPoints(lines []Mark) []Mark {
	for _, m := range slices.Clone(lines) {
		if len(m.Points) < 40 {
			m.Kind, m.Form = Samples, Points
			lines = append(lines, m)
		}
	}
	return lines
}

func batchPanel(q *loadtest.Requests) Panel {
	sizes := q.Sum().Batches
	p := Panel{Title: "share of the batches by their size (%)", Height: 92, X: Axis{Min: 0.5, Max: float64(max(len(sizes), 1)) + 0.5, Label: "requests in a batch"}}
	if few := 10; len(sizes) <= few { // explicit ticks; automatic ones would include fractions of requests
		for i := range max(len(sizes), 1) {
			p.X.Ticks = append(p.X.Ticks, Tick{float64(i + 1), strconv.Itoa(i + 1)})
		}
	}
	total := int64(0)
	for _, n := range sizes {
		total += n
	}
	for i, n := range sizes {
		if n > 0 {
			share := float64(n) / float64(total)
			p.Marks = append(p.Marks, Mark{Kind: Bar, X0: float64(i) + 0.6, X1: float64(i) + 1.4, Y1: share, Tone: "p0",
				Tip: fmt.Sprintf("%d in a batch: %s of the batches", i+1, view.Percent(share))})
		}
	}
	top := 0.0
	if total > 0 {
		top = float64(slices.Max(sizes)) / float64(total)
	}
	p.Y = Axis{Max: max(top*1.05, 0.01), Unit: 0.01}
	return p
}
