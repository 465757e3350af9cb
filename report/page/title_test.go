package page

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// The title of a trace stands on one line of a screen of 80 columns, however long the names
// of its files are; short names are whole.
func TestTitleFitsALine(t *testing.T) {
	a := &analyze.Analysis{}
	for n := range 12 {
		if got := utf8.RuneCountInString(analysisTitle(a)); got > 80 {
			t.Errorf("%d files: a title of %d characters", n, got)
		}
		a.Inputs = append(a.Inputs, analyze.Input{Path: "/job/" + strings.Repeat("rank", 40) + ".json"})
	}
	short := &analyze.Analysis{Inputs: []analyze.Input{{Path: "/job/rank0.json.gz"}, {Path: "/job/rank1.json.gz"}, {Path: "/job/rank2.json.gz"}}}
	if got := analysisTitle(short); got != "rank0.json.gz, rank1.json.gz, rank2.json.gz" {
		t.Errorf("%q", got)
	}
}
