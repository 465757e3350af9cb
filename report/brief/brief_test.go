package brief_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/explain"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
	"github.com/gpuprof/gpuprof/report/brief"
)

// written is the document as JSON, which it checks for its size.
func written(t testing.TB, d *brief.Document, tokens int) *brief.Document {
	t.Helper()
	var b bytes.Buffer
	if err := brief.Write(&b, d, tokens); err != nil {
		t.Fatal(err)
	}
	if n := document.Tokens(b.Len()); n > tokens {
		t.Fatalf("%d bytes are %d tokens, above %d:\n%s", b.Len(), n, tokens, &b)
	}
	out := &brief.Document{}
	if err := json.Unmarshal(b.Bytes(), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// lists are the lengths of the lists of a document, by their names in JSON.
func lists(d *brief.Document) map[string]int {
	out := map[string]int{}
	v := reflect.ValueOf(*d)
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if v.Field(i).Kind() == reflect.Slice && name != "left_out" {
			out[name] = v.Field(i).Len()
		}
	}
	return out
}

// nothingLost: each list has its beginning here, and its end is counted.
func nothingLost(t testing.TB, whole, trimmed *brief.Document) {
	t.Helper()
	kept, left := lists(trimmed), map[string]int{}
	for _, l := range trimmed.LeftOut {
		left[l.What] += l.Count
	}
	for name, n := range lists(whole) {
		if name != "inputs" && kept[name]+left[name] != n {
			t.Errorf("%s: %d of %d are here and %d are counted as left out", name, kept[name], n, left[name])
		}
	}
}

// The findings of an analysis keep all that an agent acts by: id, place, claim, interval, change and command.
func TestAnalysis(t *testing.T) {
	a, _ := fixture.Study(t, "dataloader-stall-fires.json")
	d := brief.Analysis(a)
	got := written(t, d, document.DefaultTokens)
	nothingLost(t, d, got)
	if len(got.Findings) == 0 || got.Kind != document.Brief || got.Of != document.Analysis || got.Whole == "" {
		t.Fatalf("%+v", got)
	}
	for i, f := range got.Findings {
		of := &a.Findings[i]
		if f.ID != of.Rule || f.Change == "" || f.Verify == "" {
			t.Errorf("finding %d is %+v, of %+v", i, f, of)
		}
		claims := of.PerStepS() > 0
		if claims != (float64(f.Claim) == of.PerStepS()) || claims != (f.Interval == [2]gpuprof.Number{0, f.Claim}) {
			t.Errorf("finding %s claims %v in %v, want %v", f.ID, f.Claim, f.Interval, of.PerStepS())
		}
	}
	if least := written(t, d, document.LeastTokens); len(least.Findings) == 0 {
		t.Errorf("no finding is left in %d tokens", document.LeastTokens)
	}
}

// A finding that claims nothing has null for its saving: it is not yet measured, and not zero.
func TestNothingClaimed(t *testing.T) {
	a := &analyze.Analysis{Head: document.NewHead(document.Analysis, gpuprof.Tool{}), Findings: []gpuprof.Finding{{Rule: gpuprof.RuleAnomalyMode}}}
	var b bytes.Buffer
	if err := brief.Write(&b, brief.Analysis(a), 0); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), `"claim":null`) || !strings.Contains(b.String(), `"interval":[null,null]`) {
		t.Errorf("%s", &b)
	}
}

// Every builder takes what the repository has of its kind, and all keep their limit.
func TestDocuments(t *testing.T) {
	head := func(k gpuprof.DocumentKind) gpuprof.Head {
		return document.NewHead(k, gpuprof.Tool{Name: "gpuprof", Version: "v1"})
	}
	long := strings.Repeat("very long ", 400)
	one := gpuprof.Number(1)
	ofRuns, err := brief.Runs(fixture.Sweep())
	if err != nil {
		t.Fatal(err)
	}
	metric := compare.MetricResult{Name: long, Unit: "s", Old: one, New: one, Ratio: one, CI95: [2]gpuprof.Number{one, one}, Verdict: compare.Regressed, Reason: long}
	comparison := &compare.Comparison{Head: head(document.Gate), Old: long, New: long, Verdict: compare.Regressed, ExitCode: 1, Next: []string{long, long}, Failed: []string{long}}
	for range 300 {
		comparison.Metrics = append(comparison.Metrics, metric)
	}
	device := memsnap.Device{}
	for range 50 {
		device.Peak.Sites = append(device.Peak.Sites, memsnap.SiteBytes{Where: long, Bytes: 5})
	}
	snapshots := &memsnap.Analysis{Head: head(document.Memory), Inputs: []memsnap.Input{{Path: long}}, Devices: []memsnap.Device{device}}
	for range 30 {
		snapshots.Findings = append(snapshots.Findings, memsnap.Finding{Rule: gpuprof.RuleLeak, Title: long, PyTorch: long, ClaimBytes: 7, Caveats: []string{long}})
	}
	memory, err := brief.Memory(snapshots)
	if err != nil {
		t.Fatal(err)
	}
	diagnosis := &gpuprof.Diagnosis{Head: head(document.Diagnosis)}
	gpus := &health.Report{Head: head(document.Health), Verdict: "unhealthy", Reason: long}
	for range 40 {
		diagnosis.Checks = append(diagnosis.Checks, gpuprof.CheckLine{Name: long, State: gpuprof.OK, Found: long}, gpuprof.CheckLine{Name: "missing", State: gpuprof.Missing, Reason: long, Fix: long, Vital: true})
		gpus.Devices = append(gpus.Devices, health.Card{Device: long, Sources: []health.Source{health.FaultOf("ecc", long, long)}, Metrics: make([]health.Metric, 3)})
		gpus.Off = append(gpus.Off, health.Off{Device: long, Metric: "bandwidth", Unit: "B/s", Value: one, Expected: one, Cause: long, Fix: long})
	}
	entries, err := explain.All()
	if err != nil {
		t.Fatal(err)
	}
	a, _ := fixture.Study(t, "item-fires.json")
	now, _ := fixture.Study(t, "item-quiet.json")
	hostile := fixture.Hostile()
	ofHostile, err := brief.Runs([]*gpuprof.Run{hostile})
	if err != nil {
		t.Fatal(err)
	}
	leak, err := brief.Memory(fixture.Memory(t, "leak.pickle.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]*brief.Document{
		"runs": ofRuns, "comparison": brief.Comparison(comparison), "memory": memory, "diagnosis": brief.Diagnosis(diagnosis), "health": brief.Health(gpus),
		"explanations": brief.Explanations(entries), "traces": brief.Traces(rules.Compare(a, now)), "analysis": brief.Analysis(a), "hostile run": ofHostile,
		"hostile comparison": brief.Comparison(fixture.GateHostile()), "leak": leak,
	} {
		t.Run(name, func(t *testing.T) {
			for _, tokens := range []int{document.LeastTokens, 1000, document.DefaultTokens, 20000} {
				got := written(t, d, tokens)
				nothingLost(t, d, got)
				if got.Summary == "" {
					t.Error("there is no summary")
				}
			}
		})
	}
	if checks := written(t, brief.Diagnosis(diagnosis), document.LeastTokens).Checks; len(checks) == 0 || checks[0].State == string(gpuprof.OK) {
		t.Errorf("a diagnosis begins with %+v, and not with what is missing", checks)
	}
	if metrics := written(t, brief.Comparison(comparison), document.LeastTokens).Metrics; len(metrics) == 0 || metrics[0].Verdict != string(compare.Regressed) {
		t.Errorf("a comparison begins with %+v", metrics)
	}
}

// Whatever the texts of an analysis are, a limit is kept and every item is here or counted.
func TestLimitIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.OneOf(rapid.String(), rapid.StringN(0, 3000, -1), rapid.SampledFrom([]string{strings.Repeat("<&\"\\", 500), strings.Repeat("\u202e", 900), strings.Repeat("€", 900)}))
		a := &analyze.Analysis{Head: document.NewHead(document.Analysis, gpuprof.Tool{Name: "gpuprof", Version: "v1.2.3-45-gabcdef", Commit: "abcdefabcdef"})}
		a.Bound.Text = texts.Draw(t, "bound")
		for range rapid.IntRange(0, 40).Draw(t, "findings") {
			a.Findings = append(a.Findings, gpuprof.Finding{Rule: "rule", Title: texts.Draw(t, "title"), PyTorch: texts.Draw(t, "change"), Command: texts.Draw(t, "command"),
				StepNS: rapid.Int64Range(0, 1e12).Draw(t, "claim"), Caveats: []string{texts.Draw(t, "caveat")}, Sites: []gpuprof.Site{{Where: texts.Draw(t, "where")}}})
		}
		for range rapid.IntRange(0, 40).Draw(t, "warnings") {
			a.Warnings = append(a.Warnings, gpuprof.Warning{Code: "code", Text: texts.Draw(t, "warning"), Fix: texts.Draw(t, "fix")})
		}
		for range rapid.IntRange(0, 9).Draw(t, "inputs") {
			a.Inputs = append(a.Inputs, analyze.Input{Path: texts.Draw(t, "path")})
		}
		document.CleanStrings(a) // as every text that was read
		d := brief.Analysis(a)
		tokens := rapid.IntRange(document.LeastTokens, 9000).Draw(t, "tokens")
		got := writtenAny(t, d, tokens)
		if kept, all := len(got.Findings), len(d.Findings); kept < all && kept+countOf(got, "findings") != all {
			t.Fatalf("%d of %d findings are here", kept, all)
		}
	})
}

func countOf(d *brief.Document, what string) int {
	n := 0
	for _, l := range d.LeftOut {
		if l.What == what {
			n += l.Count
		}
	}
	return n
}

func writtenAny(t *rapid.T, d *brief.Document, tokens int) *brief.Document {
	var b bytes.Buffer
	if err := brief.Write(&b, d, tokens); err != nil {
		t.Fatal(err)
	}
	if n := document.Tokens(b.Len()); n > tokens {
		t.Fatalf("%d bytes are %d tokens, above %d", b.Len(), n, tokens)
	}
	out := &brief.Document{}
	if err := json.Unmarshal(b.Bytes(), out); err != nil {
		t.Fatal(err)
	}
	return out
}
