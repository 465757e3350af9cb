package table_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/report/internal/fixture"
	"github.com/gpuprof/gpuprof/report/table"
)

func TestAnalysisGolden(t *testing.T) {
	one, _ := fixture.Study(t, "item-fires.json")
	job, _ := fixture.Study(t, "exposed-comm-fires.json", "exposed-comm-quiet.json")
	for name, a := range map[string]*trace.Analysis{"analysis": one, "analysis-ranks": job} {
		for _, width := range []int{80, 120} {
			var b bytes.Buffer
			if err := table.Analysis(&b, a, table.Options{Width: width}); err != nil {
				t.Fatal(err)
			}
			for l := range strings.Lines(b.String()) {
				if w := twwidth.Width(strings.TrimSuffix(l, "\n")); w > width {
					t.Errorf("%s: a line of %d columns: %s", name, w, l)
				}
			}
			golden(t, fmt.Sprintf("%s-%d", name, width), b.String())
		}
	}
	old, _ := fixture.Study(t, "dataloader-stall-fires.json")
	now, _ := fixture.Study(t, "dataloader-stall-quiet.json")
	var b bytes.Buffer
	if err := table.Comparison(&b, trace.Compare(old, now), table.Options{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "comparison-80", b.String())
}

// TestAnalysisFitsAScreen: five findings, the devices and the classes.
func TestAnalysisFitsAScreen(t *testing.T) {
	a, _ := fixture.Study(t, "item-fires.json")
	for len(a.Findings) < 12 {
		a.Findings = append(a.Findings, a.Findings[0])
	}
	var b bytes.Buffer
	if err := table.Analysis(&b, a, table.Options{Width: 100}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n"); n > 50 {
		t.Errorf("%d lines", n)
	}
	if !strings.Contains(b.String(), "7 findings more") {
		t.Errorf("the rest of the findings is not mentioned:\n%s", b.String())
	}
}

func TestAnalysisQuietAndPlain(t *testing.T) {
	a, _ := fixture.Study(t, "item-fires.json")
	a.Findings[0].Title = gpuprof.CleanText("evil \x1b[31m title\n\nwith lines")
	var b bytes.Buffer
	if err := table.Analysis(&b, a, table.Options{Quiet: true}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "\x1b") || strings.Contains(b.String(), "busy with") || strings.Contains(b.String(), "\n\nwith") {
		t.Errorf("%q", b.String())
	}
}
