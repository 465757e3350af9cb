package report_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/figure"
)

// Texts of figures, in their tooltips and at their rows, by the column of the table that has the same number. Groups
// are the row and the cells of the columns.
var figureTexts = map[string][]struct {
	text    *regexp.Regexp
	columns []string
}{
	"stages":       {{regexp.MustCompile(`^(.+), device: (.+) \((.*)\)$`), []string{"device", "95 % interval"}}, {regexp.MustCompile(`^(.+), host: (.+) \(.*\)$`), []string{"host"}}, {regexp.MustCompile(`^(.+), exposed: (.+) \(.*\)$`), []string{"exposed"}}},
	"shares":       {{regexp.MustCompile(`^(.+): (.+ %), exposed (.+)$`), []string{"share", "exposed"}}},
	"effects":      {{regexp.MustCompile(`^(.+): x(\S+)(?: \((.*?)\))?, (.+?) to (.+?), (\w+)$`), []string{"ratio", "95 % interval", "old", "new", "verdict"}}},
	"knobs":        {{regexp.MustCompile(`^([^:]+): (\S+) to (\S+): x(\S+) \((.+)\), (\w+)$`), []string{"from", "to", "time ratio", "95 % interval", "verdict"}}},
	"claims":       {{regexp.MustCompile(`^([^:]+): .*: x(\S+) \((.+)\), guide: (.*), (\w+)$`), []string{"measured", "95 % interval", "guide's figure", "verdict"}}},
	"curve":        {{regexp.MustCompile(`^[^=]+=(\S+): (.+?) \(`), []string{"cost per probe"}}},
	"accounts":     {{regexp.MustCompile(`^([^,]+): (.+), (.+ %)$`), []string{"time", "share"}}},
	"distribution": {{regexp.MustCompile(`^(.+)\x00device\x00(.+)$`), []string{"device"}}, {regexp.MustCompile(`^(.+)\x00host\x00(.+)$`), []string{"host"}}, {regexp.MustCompile(`^(step)\x00\x00(.+)$`), []string{"value"}}},
}

// ofFigure reads what a figure says; kind is a key of figureTexts.
func ofFigure(kind string, f *figure.Figure) figures {
	out := figures{}
	say := func(text string) {
		for _, k := range figureTexts[kind] {
			m := k.text.FindStringSubmatch(text)
			if m == nil {
				continue
			}
			for i, column := range k.columns {
				if v := plain(m[i+2]); v != "" {
					out[[2]string{m[1], column}] = v
				}
			}
			return
		}
	}
	for i := range f.Panels {
		p := &f.Panels[i]
		if len(p.Right) > 0 {
			say(p.Name + "\x00" + p.Sub + "\x00" + p.Right[0])
		}
		for _, m := range p.Marks {
			say(m.Tip)
		}
	}
	return out
}

// figuresOfRun returns the figures of a run that repeat numbers of its tables.
func figuresOfRun(r *gpuprof.Run) map[string]figures {
	return map[string]figures{
		"stages": ofFigure("stages", figure.Stages(r)), "shares": ofFigure("shares", figure.Shares(r)),
		"distribution": ofFigure("distribution", figure.Distribution(r, figure.MostSamples)),
	}
}

// A figure that reads differently from the table is found: its texts are parsed,
// all of those with a number.
func TestFiguresAreRead(t *testing.T) {
	r := fixture.Three()
	for name, least := range map[string]int{"stages": len(r.Stages) / 2, "shares": 6, "distribution": 4} {
		if got := figuresOfRun(r)[name]; len(got) < least {
			t.Errorf("%s: only %d figures are read: %v", name, len(got), got)
		}
	}
	c := fixture.GateRegressed()
	if got := ofFigure("effects", figure.Effects(c)); len(got) < 3*len(c.Metrics) {
		t.Errorf("effects: only %d figures of %d metrics are read: %v", len(got), len(c.Metrics), got)
	}
	a, _ := fixture.Study(t, "item-fires.json")
	if got := ofFigure("accounts", figure.Accounts(a)); len(got) < 6 {
		t.Errorf("accounts: only %d figures are read: %v", len(got), got)
	}
	// Every bar, dot and row shows its number.
	for _, f := range []*figure.Figure{figure.Stages(r), figure.Shares(r), figure.Roofline(r), figure.Effects(c), figure.Waterfall(c), figure.Accounts(a), figure.Steps(a)} {
		for _, p := range f.Panels {
			for _, m := range p.Marks {
				if (m.Kind == figure.Bar || m.Kind == figure.Dot) && !strings.ContainsAny(m.Tip, "0123456789") {
					t.Errorf("%s: a mark says %q", f.ID, m.Tip)
				}
			}
		}
		if f.AltText() == "" || slices.Contains(f.Notes, "") {
			t.Errorf("%s has an empty text", f.ID)
		}
	}
}
