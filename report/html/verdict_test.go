package html_test

import (
	stdhtml "html"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/html"
	"github.com/gpuprof/gpuprof/report/page"
)

// compared are the fixture's run and the same run with a slower tensor
// product, compared as the verb compares two files.
func compared(t testing.TB) *compare.Comparison {
	t.Helper()
	const processes = 6
	old, now := fixture.Complete(fixture.Options{Seed: 1, Processes: processes}), fixture.Complete(fixture.Options{Seed: 2, Processes: processes})
	slow := now.Stage("tensor_product").Exposed
	rng := rand.New(rand.NewPCG(1, 2))
	for p, run := range slow.Runs {
		for i := range run {
			extra := 0.25 * run[i] * (1 + 0.01*rng.NormFloat64())
			run[i] += extra
			now.Step.Runs[p][i] += extra
		}
	}
	now.Knobs["impl"], now.Device.Kernel = "fused", "6.2.0-made-up"
	a, err := compare.FromRun(old)
	if err != nil {
		t.Fatal(err)
	}
	b, err := compare.FromRun(now)
	if err != nil {
		t.Fatal(err)
	}
	a.Source, b.Source = "old.json", "new.json"
	c, err := compare.Compare(a, b, compare.Options{Seed: 1, Tool: old.Tool})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func verdictPage(c *compare.Comparison) func(io.Writer) error {
	return func(w io.Writer) error { return writePage(w)(page.Comparison(c)) }
}

// writePage writes what a builder made.
func writePage(w io.Writer) func(p *page.Page, err error) error {
	return func(p *page.Page, err error) error {
		if err != nil {
			return err
		}
		return html.Write(w, p)
	}
}

func written(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func says(t *testing.T, name, page string, want, not []string) {
	t.Helper()
	text := stdhtml.UnescapeString(scripts.ReplaceAllString(page, ""))
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%s does not say %q", name, w)
		}
	}
	for _, w := range not {
		if strings.Contains(text, w) {
			t.Errorf("%s says %q", name, w)
		}
	}
}

func TestWhatAVerdictPageSays(t *testing.T) {
	same := fixture.GatePassed()
	same.Causes = nil
	// Its axis begins with the mark at no change, a zero that has come with a sign.
	up := fixture.GatePassed()
	up.Metrics[0].Ratio, up.Metrics[0].CI95 = 1.5, [2]gpuprof.Number{1.48, 1.52}
	for name, c := range map[string]struct {
		of   *compare.Comparison
		want []string
		not  []string
	}{
		"compared": {compared(t), []string{"regressed", "tensor_product: ", "of the change", "knob impl unfused -> fused", "Differences in setup", ">Knobs<", ">Environment<", "6.2.0-made-up", "Distributions of both sides",
			`class="fg outline"`, `class="t0 area"`, ", process 6: median ", "old: old.json", "new: new.json", "step time (ms)", ">+20 %<", "Environment that is the same"}, []string{"Inconclusive:"}},
		"regressed": {fixture.GateRegressed(), []string{"4 of 9 metrics regressed", "x1.130", "4 of 9 metrics regressed", "the rest: +", "4,800,000 B of at most 0 B", "stage h2d", "the process ended with exit code 4", "pin the clock", "yes; allowed to differ"}, []string{"Distributions", "explained_by="}},
		"passed":    {same, []string{"the same holds for 1 more metric", "not large or not sure enough"}, []string{"Inconclusive", "From the step before"}},
		"zero":      {up, []string{">0 %<", ">+10 %<"}, []string{"-0 %"}},
		"unsure":    {fixture.GateUnsure(), []string{"neither shown nor ruled out", "a verdict needs 6", "gpuprof run e3nn <code>--runs</code> 6"}, nil},
		"many":      {fixture.GateMany(500, 40), []string{"not listed: 160 metrics"}, nil},
	} {
		says(t, name, written(t, verdictPage(c.of)), c.want, c.not)
	}
}

// TestWaterfallAddsUp: the bars lead from the old step's end to the new one's.
func TestWaterfallAddsUp(t *testing.T) {
	page := written(t, verdictPage(compared(t)))
	_, chart, _ := strings.Cut(page, `aria-labelledby="waterfall-t`)
	chart, _, _ = strings.Cut(chart, "</svg>")
	bars := regexp.MustCompile(`<rect class="([^"]*)" x="([0-9.]+)" y="[0-9.]+" width="([0-9.]+)"[^>]*><title>([^<]*)`).FindAllStringSubmatch(chart, -1)
	if len(bars) < 3 {
		t.Fatalf("%d bars", len(bars))
	}
	at := number(t, bars[0][2]) + number(t, bars[0][3])
	for _, b := range bars[1 : len(bars)-1] {
		x, w := number(t, b[2]), number(t, b[3])
		switch {
		case b[1] != "t2" && near(x, at):
			at = x + w
		case b[1] != "t3" && near(x+w, at):
			at = x
		default:
			t.Fatalf("%s does not begin where the last bar ended", b[4])
		}
	}
	if last := bars[len(bars)-1]; !near(number(t, last[2])+number(t, last[3]), at) {
		t.Error("the bars do not end at the new step")
	}
}

// near allows for a bar of no width, which is drawn nearly a pixel wide, and for half
// a pixel between bars.
func near(a, b float64) bool { return a-b < 1.5 && b-a < 1.5 }
