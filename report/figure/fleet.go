package figure

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// mostRanks limits the rows of a chart, one per rank.
const mostRanks = 24

// RankTimes divides each rank's step into work, idle time and waits in collectives, and marks what a straggler costs.
func RankTimes(r *fleet.Report) *Figure {
	f := &Figure{ID: "stragglers", Title: "Own time and waits of each rank", Tool: r.Tool.Version, Subject: "fleet " + view.Cut(strings.Join(r.Command, " "), 60),
		Desc:    "For each rank of the job the time per step in which it works, does nothing and waits for the other ranks. The rank that the others wait for waits least.",
		Context: []string{gpuprof.Plural(r.World, "rank"), gpuprof.Plural(len(r.Nodes), "node")}}
	w := r.Waiting
	if w == nil || len(w.Rows) == 0 {
		return f.setLacking("no two ranks with collectives were recorded")
	}
	shown := selectRanks(w)
	p := Panel{}
	most := 0.0
	var names []string
	for i, row := range shown {
		name := fmt.Sprint("rank ", row.Rank)
		if row.Node != "" {
			name += ", " + view.Cut(row.Node, 20)
		}
		names = append(names, name)
		at := 0.0
		for _, part := range []struct {
			name  string
			value float64
		}{{"works", float64(row.WorkS)}, {"does nothing", float64(row.IdleS)}, {"waits for other ranks", float64(row.WaitS)}} {
			if part.value > 0 {
				p.Marks = append(p.Marks, Mark{Kind: Bar, X0: at, X1: at + part.value, Y0: float64(i) + 0.15, Y1: float64(i) + 0.85, Tone: partTone(part.name),
					Tip: fmt.Sprintf("%s %s for %s per step", name, part.name, gpuprof.FormatSeconds(part.value))})
			}
			at += part.value
		}
		for _, s := range w.Stragglers {
			if slices.Contains(s.Ranks, row.Rank) && len(s.Ranks) == 1 {
				p.Marks = append(p.Marks, Mark{Kind: Label, X0: at, Y0: float64(i) + 0.5, Place: After, Tone: Ink, Text: "costs up to " + gpuprof.FormatSeconds(float64(s.CostS))})
			}
		}
		most = max(most, at)
	}
	p.Y, p.X = rowAxis(names), secondsAxis("time per step", most)
	p.Height = 22 * float64(len(names))
	f.Panels = []Panel{p}
	for _, name := range []string{"works", "does nothing", "waits for other ranks"} {
		f.Legend = append(f.Legend, Entry{Text: name, Tone: partTone(name)})
	}
	if more := w.Ranks - len(shown); more > 0 {
		f.addNote(fmt.Sprintf("not drawn: %s", gpuprof.Plural(more, "other rank")))
	}
	return f
}

// selectRanks returns the ranks to draw, ordered by rank: of many, those that wait least.
func selectRanks(w *fleet.Waiting) []fleet.RankWait {
	out := slices.Clone(w.Rows)
	if len(out) <= mostRanks {
		return out
	}
	slices.SortStableFunc(out, func(a, b fleet.RankWait) int { return cmp.Compare(a.WaitS, b.WaitS) })
	out = out[:mostRanks]
	slices.SortFunc(out, func(a, b fleet.RankWait) int { return a.Rank - b.Rank })
	return out
}
