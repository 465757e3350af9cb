package page_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/page"
)

// TestFleetTop: the few printed rows are the ranks that others wait for and the figures with the slowest rank; the
// rows left out are counted, and HTML has all.
func TestFleetTop(t *testing.T) {
	r := fixture.Straggling()
	w := r.Waiting
	w.Rows, w.Stragglers, w.Ranks, r.World = nil, nil, 100, 100
	for rank := range 64 {
		w.Rows = append(w.Rows, fleet.RankWait{Rank: rank, WaitS: gpuprof.Number(1 - 0.001*float64(rank))})
		w.Stragglers = append(w.Stragglers, fleet.Straggler{Ranks: []int{rank}})
		r.Metrics = append(r.Metrics, fleet.Metric{Name: fmt.Sprint("m", rank), Unit: "s", Slowest: []fleet.RankValue{{Rank: rank, Worse: gpuprof.Number(0.01 * float64(rank))}}})
		r.Off = append(r.Off, fleet.Off{Rank: rank, Metric: "copy", Unit: "B/s"})
		r.Problems = append(r.Problems, fmt.Sprint("problem ", rank))
	}
	for _, c := range []struct {
		top               int
		format            page.Where
		ranks, figures    int // rows
		others            int // entries of lists
		firstRank, metric string
	}{
		{0, page.Terminal, 12, 12, 20, "63", "m0"},
		{0, page.HTML, 64, 64, 64, "63", "m0"},
		{3, page.Terminal, 3, 3, 3, "63", "m63"},
		{3, page.Markdown, 3, 3, 3, "63", "m63"},
		{3, page.HTML, 64, 64, 64, "63", "m63"},
		{50, page.Terminal, 50, 50, 50, "63", "m63"},
		{100, page.Markdown, 64, 64, 64, "0", "m0"},
	} {
		r.Top = c.top
		p, err := page.Fleet(r)
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, s := range p.Sections {
			for _, b := range s.Blocks {
				switch b := b.(type) {
				case page.Text:
					said += b.S
				case page.Table:
					_, rows, left := b.For(c.format)
					want, first := c.ranks, c.firstRank
					if b.Noun == "figure" {
						want, first = c.figures, c.metric
					}
					if len(rows) != want || left != 64-want || rows[0].Cells[0].Text != first || !strings.Contains(b.More, "%d more") {
						t.Errorf("--top %d, format %d: %d rows of %ss, %d left, the first %q", c.top, c.format, len(rows), b.Noun, left, rows[0].Cells[0].Text)
					}
				case page.List:
					if items, left := b.For(c.format); b.Noun != "note" && (len(items) != c.others || left != 64-c.others) {
						t.Errorf("--top %d, format %d: %d %ss, %d left", c.top, c.format, len(items), b.Noun, left)
					}
				}
			}
		}
		if !strings.Contains(said, "36 ranks that wait longer have no row.") {
			t.Errorf("%q", said)
		}
	}
	if !slices.IsSortedFunc(w.Rows, func(a, b fleet.RankWait) int { return a.Rank - b.Rank }) || r.Metrics[0].Name != "m0" {
		t.Error("the page sorted the document")
	}
}

// TestFleetNodes: torchrun numbers its nodes, and "rank 2 on 0" would tell nobody what 0 is.
func TestFleetNodes(t *testing.T) {
	for node, want := range map[string]string{"0": "rank 2 on node 0 ", "gpu-07": "rank 2 on gpu-07 ", "": "rank 2 costs"} {
		r := fixture.Straggling()
		r.Waiting.Stragglers = []fleet.Straggler{{Ranks: []int{2}, Node: node}}
		p, err := page.Fleet(r)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, s := range p.Sections {
			for _, b := range s.Blocks {
				if l, ok := b.(page.List); ok {
					for _, it := range l.Items {
						said = append(said, it.Text)
					}
				}
			}
		}
		if !slices.ContainsFunc(said, func(text string) bool { return strings.HasPrefix(text, want) }) {
			t.Errorf("node %q: %q do not begin with %q", node, said, want)
		}
	}
}

// TestFleetDevices: a row for each device, one that failed among them, with skew and
// scaling above; a device is called by its own name and not by a rank.
func TestFleetDevices(t *testing.T) {
	p, err := page.Fleet(fixture.Devices())
	if err != nil {
		t.Fatal(err)
	}
	var lines, rows, said []string
	for _, s := range p.Sections {
		for _, b := range s.Blocks {
			switch b := b.(type) {
			case page.Lines:
				for _, l := range b.Lines {
					lines = append(lines, l.Label+": "+l.Value+" ("+l.Note+")")
				}
			case page.Table:
				_, printed, _ := b.For(page.Terminal)
				for _, r := range printed {
					var cells []string
					for _, c := range r.Cells {
						cells = append(cells, c.Text)
					}
					rows = append(rows, strings.Join(cells, "|"))
				}
			case page.List:
				for _, it := range b.Items {
					said = append(said, it.Text)
				}
			}
		}
	}
	for want, in := range map[string][]string{
		"skew: the step of cuda:1 takes 1.10 times the devices' median (95 % 1.087 to 1.113, within process)":   lines,
		"scaling: together 93.4 % of the throughput that they have alone (95 % 0.926 to 0.942, within process)": lines,
		"cuda:0|H200|3.15 ms|3.13 to 3.18 ms|3.11 ms|1.01|81.3 kprobes/s|1.98 GHz|1.97 GHz":                     rows,
		"cuda:1|H200|3.87 ms|3.84 to 3.92 ms|3.47 ms|1.12|66.2 kprobes/s|1.53 GHz|-":                            rows,
		"cuda:2|-|failed|-|-|-|-|-|-":                                       rows,
		"step of cuda:1: 3.87 ms, 23 % worse than the median of 2 siblings": said,
		"driver: 580.159.04 ()":                                             lines,
		"cuda:2: the device is lost":                                        said,
	} {
		if !slices.Contains(in, want) {
			t.Errorf("%q is not among %q", want, in)
		}
	}
	if p.Title != "devices e3nn small" || !slices.Equal(p.Meta, []string{"3 devices"}) {
		t.Errorf("%q, %q", p.Title, p.Meta)
	}
}
