package html_test

import (
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/html"
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

// TestPhonesShowTheAnswersColumns: a phone shows three columns of every table that has as many, and of a service's
// sweep the latency that decides the knee.
func TestPhonesShowTheAnswersColumns(t *testing.T) {
	head, column := regexp.MustCompile(`<thead>.*?</thead>`), regexp.MustCompile(`<th scope="col"(?: class="([^"]*)")?>([^<]*)</th>`)
	wide := 0
	for name, text := range pages(t) {
		for _, h := range head.FindAllString(text, -1) {
			var all, shown []string
			for _, c := range column.FindAllStringSubmatch(h, -1) {
				all = append(all, c[2])
				if !strings.Contains(c[1], "later") {
					shown = append(shown, c[2])
				}
			}
			if len(shown) < min(3, len(all)) {
				t.Errorf("%s: a phone shows %q of the columns %q", name, shown, all)
			}
			if slices.Contains(all, "in time") && slices.Contains(all, "load") {
				wide++
				if !slices.Contains(shown, "p99") {
					t.Errorf("%s: a phone shows %q of a sweep over load", name, shown)
				}
			}
		}
	}
	if wide == 0 {
		t.Error("no page has a sweep over load")
	}
}

// TestPlainVerdictsAreNotColoured: the badge of an answer without a judgement has not the colour of an unsure one.
func TestPlainVerdictsAreNotColoured(t *testing.T) {
	for tone, class := range map[gpuprof.Tone]string{gpuprof.TonePlain: "plain", gpuprof.ToneUnsure: "unsure", gpuprof.ToneBad: "bad"} {
		var b strings.Builder
		p := &page.Page{Title: "t", Answer: gpuprof.Answer{Verdict: "measured", Tone: tone, Sentence: "It was."}}
		if err := html.Write(&b, p); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), `<span class="badge `+class+`">measured</span>`) {
			t.Errorf("tone %s: no badge of class %q", tone, class)
		}
	}
}
