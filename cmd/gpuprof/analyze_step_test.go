//go:build !race

// Under the race detector one goroutine that reads files, writes pages and looks through them
// takes ten times as long; what reads in goroutines is tested there in packages of its own.

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// fixtureTraces are all traces of testdata.
func fixtureTraces(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"*.json", "h100/*.json.gz", "h200/*.json.gz"} {
		found, err := filepath.Glob(filepath.Join("..", "..", "testdata", "traces", pattern))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	if len(out) < 50 {
		t.Fatalf("%d traces", len(out))
	}
	return out
}

// pageOf is a rendered analysis as a reader sees it: tags gone, folded lines joined.
func pageOf(t *testing.T, format string, args ...string) string {
	t.Helper()
	var out strings.Builder
	if code := gpuprofRan(t, &out, io.Discard, append(args, "--format", format)...); code != 0 {
		t.Fatalf("%v: exit %d", args, code)
	}
	return asRead(out.String(), format)
}

// pagesOf runs gpuprof twice and gives each page as a reader sees it, by its format, and
// those of files by the file's extension.
func pagesOf(t *testing.T, args ...string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	pages := map[string]string{}
	files := []string{"json", "html", "md", "txt"}
	given := slices.Clone(args)
	for _, f := range files {
		given = append(given, "-o", filepath.Join(dir, "a."+f))
	}
	pages["table"] = pageOf(t, "table", append(given, "-v")...)
	pages["markdown"] = pageOf(t, "markdown", args...)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, "a."+f))
		if err != nil {
			t.Fatal(err)
		}
		pages[f] = asRead(string(text), f)
	}
	return pages
}

var (
	notRead = regexp.MustCompile(`(?s)<script.*?</script>|<style.*?</style>|<title>.*?</title>`)
	anyTag  = regexp.MustCompile(`<[^>]*>`)
)

func asRead(text, format string) string {
	switch format {
	case "html":
		text = anyTag.ReplaceAllString(notRead.ReplaceAllString(text, " "), " ")
	case "json":
	default:
		return text
	}
	return strings.Join(strings.Fields(text), " ")
}

const (
	timePattern  = `(\d[\d.]*) (ns|us|ms|s)\b`
	sharePattern = `(<?\d[\d.]*) %`
)

var (
	headTime = regexp.MustCompile(`[Mm]ean step ` + timePattern + `|[Rr]ecording window ` + timePattern)
	costTime = regexp.MustCompile(`costs up to ` + timePattern)
	partRow  = regexp.MustCompile(`(?m)^\|? ?([a-z_\\ ]+?) +\|? ?` + timePattern + ` +\|? ?` + sharePattern)
	pageRow  = regexp.MustCompile(`\b([a-z_]+) ` + timePattern + ` ` + sharePattern)
	oldWords = regexp.MustCompile(`[Mm]edian step|\ba step took|\bof the time\b|\d a step\b`)
)

func nanoseconds(t *testing.T, value, unit string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(value, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v * map[string]float64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[unit]
}

// rounding is what three printed digits may be off by, for n figures added up.
func rounding(v float64, n int) float64 { return 0.005*v*math.Sqrt(float64(max(n, 1))) + float64(n) }

// Every page has one step time, in every format the same: costs are no more than
// it, its parts add up to it, and a share times it is the part's time. And none sends
// its reader to a workload that the trace is not of.
func TestTracePages(t *testing.T) {
	t.Parallel()
	others := regexp.MustCompile(`gpuprof (tune|run) (e3nn|gruflow|collate)|--knob|--set `)
	for _, path := range fixtureTraces(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			pages := pagesOf(t, "analyze", path)
			var a analyze.Analysis
			if err := json.Unmarshal([]byte(pages["json"]), &a); err != nil {
				t.Fatal(err)
			}
			checkAnalysisSteps(t, path, &a)
			for format, text := range pages {
				if w := others.FindString(text); w != "" {
					t.Errorf("as %s: sends its reader to %q", format, w)
				}
				if format != "json" {
					checkPage(t, format, text, float64(a.Step.NS), format == "html", len(a.Devices) > 0)
				}
			}
		})
	}
}

// checkPage compares the times of a page with the step; parts are of a device, which a recording of the host alone has not.
func checkPage(t *testing.T, name, text string, step float64, isHTML, parts bool) {
	t.Helper()
	if w := oldWords.FindString(text); w != "" {
		t.Errorf("%s: a second kind of step time: %q", name, w)
	}
	heads := headTime.FindAllStringSubmatch(text, -1)
	if len(heads) == 0 {
		t.Fatalf("%s: no step time:\n%s", name, text[:min(len(text), 400)])
	}
	for _, m := range heads {
		if v := nanoseconds(t, m[1]+m[3], m[2]+m[4]); math.Abs(v-step) > rounding(step, 1) {
			t.Errorf("%s: the step is %s, the analysis has %.0f ns", name, m[0], step)
		}
	}
	for _, m := range costTime.FindAllStringSubmatch(strings.Join(strings.Fields(text), " "), -1) {
		if v := nanoseconds(t, m[1], m[2]); v > step+rounding(step, 1) {
			t.Errorf("%s: %s, of a step of %.0f ns", name, m[0], step)
		}
	}
	rows := partRow
	if isHTML {
		rows = pageRow
	}
	sum, n := 0.0, 0
	for _, m := range rows.FindAllStringSubmatch(text, -1) {
		v := nanoseconds(t, m[2], m[3])
		sum, n = sum+v, n+1
		share, err := strconv.ParseFloat(strings.TrimPrefix(m[4], "<"), 64)
		if err != nil {
			t.Fatal(err)
		}
		if low := strings.HasPrefix(m[4], "<"); !low && math.Abs(share/100*step-v) > rounding(v, 1)+0.0006*step || low && v > share/100*step+rounding(v, 1) {
			t.Errorf("%s: %s is %s %% of %.0f ns", name, m[0], m[4], step)
		}
	}
	if parts && (n == 0 || math.Abs(sum-step) > rounding(step, n)) {
		t.Errorf("%s: %d parts add up to %.0f of %.0f ns\n%s", name, n, sum, step, text[:min(len(text), 1500)])
	}
}

// checkAnalysisSteps is the same of the JSON, to the nanosecond.
func checkAnalysisSteps(t *testing.T, path string, a *analyze.Analysis) {
	t.Helper()
	if got := a.Step.Total(); got != a.Step.NS || a.Step.NS <= 0 {
		t.Errorf("%s: the parts are %d ns, the step %d", path, got, a.Step.NS)
	}
	sum, n := int64(0), int64(0)
	for _, s := range a.Steps {
		if !s.Dropped {
			sum, n = sum+s.DurNS, n+1
		}
		if s.BusyNS+s.StarvedNS+s.QueuedNS+s.UnknownNS > s.DurNS {
			t.Errorf("%s: %s holds more than its %d ns", path, s.Name, s.DurNS)
		}
	}
	if n > 0 && (sum+n/2)/n != a.Step.NS {
		t.Errorf("%s: %d steps take %d ns; their mean is not %d", path, n, sum, a.Step.NS)
	}
	claims := int64(0)
	for _, f := range a.Findings {
		if claims += f.StepNS; math.Abs(f.Share*float64(a.Step.NS)-float64(f.StepNS)) > 2 {
			t.Errorf("%s: %s claims %d ns per step, a share of %g of %d", path, f.Rule, f.StepNS, f.Share, a.Step.NS)
		}
	}
	if claims > a.Step.NS {
		t.Errorf("%s: findings claim %d ns of a step of %d", path, claims, a.Step.NS)
	}
}

// A comparison of two has the step times of their own pages, and its rows add up
// to both.
func TestComparisonHasTheStepsOfItsSides(t *testing.T) {
	t.Parallel()
	var pairs [][2]string
	for _, path := range fixtureTraces(t) {
		for from, to := range map[string]string{"-fires.json": "-quiet.json", "-planted.json.gz": "-clean.json.gz"} {
			if strings.HasSuffix(path, from) && !strings.Contains(path, "not-steady") { // one of those has no steps
				pairs = append(pairs, [2]string{path, strings.Replace(path, from, to, 1)})
			}
		}
	}
	for _, p := range pairs {
		pages := pagesOf(t, "analyze", "--compare", p[0], p[1])
		var c analyze.Comparison
		if err := json.Unmarshal([]byte(pages["json"]), &c); err != nil {
			t.Fatalf("%s: %v", p[0], err)
		}
		var old, now int64
		for _, r := range c.Classes {
			old, now = old+r.OldNS, now+r.NewNS
		}
		if old != c.StepOldNS || now != c.StepNewNS || c.StepOldNS != c.Old.Step.NS || c.StepNewNS != c.New.Step.NS {
			t.Errorf("%s: rows add up to %d and %d, the steps are %d and %d, those of the pages %d and %d",
				p[0], old, now, c.StepOldNS, c.StepNewNS, c.Old.Step.NS, c.New.Step.NS)
		}
		for _, f := range c.Findings {
			if f.SavedNS != c.StepOldNS-c.StepNewNS {
				t.Errorf("%s: %s saved %d, the step %d", p[0], f.Rule, f.SavedNS, c.StepOldNS-c.StepNewNS)
			}
		}
		for format, page := range pages {
			if format == "json" {
				continue
			}
			text := strings.Join(strings.Fields(page), " ")
			if w := oldWords.FindString(text); w != "" {
				t.Errorf("%s as %s: a second kind of step time: %q", p[0], format, w)
			}
		}
	}
	if len(pairs) < 20 {
		t.Errorf("%d pairs", len(pairs))
	}
}

// What a finding of a trace tells its reader to run is about the reader's own
// program: no workload of gpuprof's, and parsed by gpuprof.
func TestTraceFindingsSpeakToTheirReader(t *testing.T) {
	t.Parallel()
	path := fixtureTraces(t)[0]
	var a analyze.Analysis
	if err := json.Unmarshal([]byte(pageOf(t, "json", "analyze", path)), &a); err != nil {
		t.Fatal(err)
	}
	want := "gpuprof run -o NEW -- YOUR COMMAND && gpuprof analyze --compare " + path + " NEW"
	if i := slices.IndexFunc(a.Findings, func(f gpuprof.Finding) bool { return f.Command != want }); i >= 0 {
		t.Errorf("command %q, want %q", a.Findings[i].Command, want)
	}
}

// A recording of gpuprof's own knows the program and its CPUs: the command is
// the reader's, and no more workers are suggested than there are CPUs.
func TestRecordedProgramIsNamed(t *testing.T) {
	source := filepath.Join("..", "..", "testdata", "traces", "dataloader-stall-fires.json")
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	for cpus, workers := range map[int]string{1: "the program has one CPU", 2: "num_workers=2,", 64: "num_workers=3,"} {
		dir := filepath.Join(t.TempDir(), "rec one")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		telemetry := fmt.Sprintf(`{"schema_version":"1.0.0","command":["python","train.py","--name","it's"],"cpus":%d,"traces":["somewhere/trace-1.json"]}`, cpus)
		for name, content := range map[string][]byte{"trace-1.json": text, "telemetry.json": []byte(telemetry), "other.json": text} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		finding := func(name string) gpuprof.Finding {
			var a analyze.Analysis
			if err := json.Unmarshal([]byte(pageOf(t, "json", "analyze", filepath.Join(dir, name))), &a); err != nil {
				t.Fatal(err)
			}
			return a.Findings[0]
		}
		f := finding("trace-1.json")
		want := fmt.Sprintf(`gpuprof run -o '%[1]s-changed' -- python train.py --name 'it'\''s' && gpuprof analyze --compare '%[1]s' '%[1]s-changed'`, dir)
		if f.Command != want {
			t.Errorf("command\n%s, want\n%s", f.Command, want)
		}
		if !strings.Contains(f.PyTorch, workers) {
			t.Errorf("%d CPUs: %q, want %s", cpus, f.PyTorch, workers)
		}
		if f := finding("other.json"); !strings.Contains(f.Command, "YOUR COMMAND") || !strings.Contains(f.PyTorch, "no more workers than the program has CPUs") {
			t.Errorf("a trace that the recording did not make: %q, %q", f.Command, f.PyTorch)
		}
	}
}
