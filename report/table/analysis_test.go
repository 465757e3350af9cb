package table_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
	"github.com/gpuprof/gpuprof/report/page"
	"github.com/gpuprof/gpuprof/report/table"
)

func analysis(t testing.TB, a *analyze.Analysis, o table.Options) string {
	t.Helper()
	p, err := page.Analysis(a, nil)
	return shown(t, p, err, o)
}

func TestAnalysisGolden(t *testing.T) {
	one, _ := fixture.Study(t, "item-fires.json")
	job, _ := fixture.Study(t, "exposed-comm-fires.json", "exposed-comm-quiet.json")
	for name, a := range map[string]*analyze.Analysis{"analysis": one, "analysis-ranks": job} {
		for _, width := range []int{80, 120} {
			out := analysis(t, a, table.Options{Width: width})
			for l := range strings.Lines(out) {
				if w := twwidth.Width(strings.TrimSuffix(l, "\n")); w > width && !isCommandLine(l) {
					t.Errorf("%s: a line of %d columns: %s", name, w, l)
				}
			}
			golden(t, fmt.Sprintf("%s-%d", name, width), out)
		}
	}
	old, _ := fixture.Study(t, "dataloader-stall-fires.json")
	now, _ := fixture.Study(t, "dataloader-stall-quiet.json")
	p, err := page.TraceComparison(rules.Compare(old, now), nil, nil)
	golden(t, "comparison-80", shown(t, p, err, table.Options{}))
}

// TestAnalysisFitsAScreen: five findings with their caveats, the devices and the classes.
func TestAnalysisFitsAScreen(t *testing.T) {
	a, _ := fixture.Study(t, "item-fires.json")
	for len(a.Findings) < 12 {
		a.Findings = append(a.Findings, a.Findings[0])
	}
	out := analysis(t, a, table.Options{Width: 100})
	if n := strings.Count(out, "\n"); n > 70 {
		t.Errorf("%d lines", n)
	}
	if !strings.Contains(out, "7 findings more") {
		t.Errorf("the rest of the findings is not mentioned:\n%s", out)
	}
}

func TestAnalysisQuietAndPlain(t *testing.T) {
	a, _ := fixture.Study(t, "item-fires.json")
	a.Findings[0].Title = document.CleanText("evil \x1b[31m title\n\nwith lines")
	out := analysis(t, a, table.Options{Quiet: true})
	if strings.Contains(out, "\x1b") || strings.Contains(out, "busy with") || strings.Contains(out, "\n\nwith") {
		t.Errorf("%q", out)
	}
}
