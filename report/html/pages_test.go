package html_test

import (
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/page"
)

var pagesDir = flag.String("pages", "", "keep every page in this folder, for the browser test")

// documents are the pages of anything but runs.
func documents(t testing.TB) map[string]func(io.Writer) error {
	out := map[string]func(io.Writer) error{}
	for name, c := range map[string]*compare.Comparison{
		"comparison": compared(t), "comparison-gate": fixture.GateRegressed(), "comparison-passed": fixture.GatePassed(), "comparison-unsure": fixture.GateUnsure(),
		"comparison-many": fixture.GateMany(500, 40), "comparison-hostile": fixture.GateHostile(), "comparison-empty": {},
	} {
		out[name] = verdictPage(c)
	}
	for name, r := range map[string]*tune.Result{"tune": tuned(), "tune-claims": claimed(), "tune-hostile": hostileTune(), "tune-empty": {}} {
		out[name] = tunePage(r)
	}
	a, xs := fixture.Study(t, "dataloader-stall-fires.json")
	out["analysis"] = func(w io.Writer) error { return writePage(w)(page.Analysis(a, xs)) }
	maps.Copy(out, otherKinds(t))
	return out
}

// TestKeepPages writes the pages for the browser test where -pages says.
func TestKeepPages(t *testing.T) {
	if *pagesDir == "" {
		return
	}
	all := pages(t)
	all["run-large"] = render(t, large())
	for name, page := range all {
		if strings.HasSuffix(name, "in a sweep") && name != "run-hostile in a sweep" {
			continue // what they hold is in other pages
		}
		name = strings.ReplaceAll(name, " ", "-") + ".html"
		if err := os.WriteFile(filepath.Join(*pagesDir, name), []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
