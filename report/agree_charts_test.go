package report_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/page"
)

// chartsOf are the charts of a page, in every section and item.
func chartsOf(sections []page.Section) (out []*figure.Figure) {
	var blocks func(all []page.Block)
	blocks = func(all []page.Block) {
		for _, b := range all {
			switch b := b.(type) {
			case page.Chart:
				if f := b.Figure(); f != nil && !f.Empty() {
					out = append(out, f)
				}
			case page.List:
				for _, item := range b.Items {
					blocks(item.More)
				}
			}
		}
	}
	for _, s := range sections {
		blocks(s.Blocks)
		out = append(out, chartsOf(s.Sections)...)
	}
	return out
}

// TestEveryChartIsAPicture: each chart of a page can be had as a picture, with the same marks.
func TestEveryChartIsAPicture(t *testing.T) {
	for _, g := range everyDocument(t) {
		for _, f := range chartsOf(g.page.Sections) {
			if strings.HasPrefix(g.name, "run sweep") && f.ID != "scaling" && f.ID != "load" {
				continue // its pictures are of the first run, the page has those of all
			}
			var panels []figure.Panel
			for _, drawn := range g.figures {
				if drawn.ID == f.ID || strings.HasPrefix(f.ID, drawn.ID+"-") {
					panels = append(panels, drawn.Panels...)
				}
			}
			if len(panels) == 0 {
				t.Errorf("%s: the chart %s is no picture", g.name, f.ID)
				continue
			}
			for i := range f.Panels {
				same := false
				for k := range panels {
					same = same || fmt.Sprint(f.Panels[i].Marks) == fmt.Sprint(panels[k].Marks) // a gap is not equal to itself
				}
				if !same {
					t.Errorf("%s: panel %d of the chart %s has other marks than the picture", g.name, i, f.ID)
				}
			}
		}
	}
}
