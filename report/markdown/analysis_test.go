package markdown_test

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
	"github.com/gpuprof/gpuprof/report/page"
)

func TestAnalysis(t *testing.T) {
	a, _ := fixture.Study(t, "item-fires.json")
	a.Warnings = append(a.Warnings, gpuprof.Warning{Code: "x", Text: "a | b @someone <b>"})
	p, err := page.Analysis(a, nil)
	out := noted(t, p, err, 0)
	for _, want := range []string{"item-fires.json, mean step", "| device |", " item: ", "```sh\ngpuprof run -o NEW -- YOUR COMMAND", "&lt;b&gt;"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	if strings.Contains(out, "@someone") {
		t.Error("the text mentions a user")
	}
}

func TestTraceComparison(t *testing.T) {
	old, _ := fixture.Study(t, "dataloader-stall-fires.json")
	now, _ := fixture.Study(t, "dataloader-stall-quiet.json")
	p, err := page.TraceComparison(rules.Compare(old, now), nil, nil)
	out := noted(t, p, err, 0)
	for _, want := range []string{"**The mean step is", "**dataloader-stall, gone**"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}
