package markdown_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/report/internal/fixture"
	"github.com/gpuprof/gpuprof/report/markdown"
)

func TestAnalysis(t *testing.T) {
	a, _ := fixture.Study(t, "item-fires.json")
	a.Warnings = append(a.Warnings, gpuprof.Warning{Code: "x", Text: "a | b @someone <b>"})
	var b bytes.Buffer
	if err := markdown.WriteAnalysis(&b, a); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## item-fires.json", "| device |", " item: ", "- measure: `gpuprof run -o NEW -- YOUR COMMAND", "&lt;b&gt;"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "@someone") {
		t.Error("the text mentions a user")
	}
}

func TestTraceComparison(t *testing.T) {
	old, _ := fixture.Study(t, "dataloader-stall-fires.json")
	now, _ := fixture.Study(t, "dataloader-stall-quiet.json")
	var b bytes.Buffer
	if err := markdown.WriteComparison(&b, trace.Compare(old, now)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## The mean step took", "**dataloader-stall**, gone"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, b.String())
		}
	}
}
