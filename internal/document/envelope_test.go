package document_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// paper is a document of any kind.
type paper struct {
	gpuprof.Head
	Text   string             `json:"text"`
	Counts map[string]float64 `json:"counts"`
	Deep   []paper            `json:"deep,omitempty"`
}

var all = []gpuprof.DocumentKind{document.Run, document.Comparison, document.Gate, document.Tune, document.Claims, document.Analysis, document.TraceComparison,
	document.Health, document.Ranges, document.Baseline, document.Check, document.Noise, document.Recording, document.Timeline, document.GPUCheck}

// Every kind is read back as what was written, and every other kind is refused in
// one sentence that says what the file is.
func TestKinds(t *testing.T) {
	for _, kind := range all {
		head := document.NewHead(kind, gpuprof.Tool{Name: "gpuprof", Version: "v1", Commit: "abc"})
		text, err := json.Marshal(paper{Head: head})
		if err != nil || !strings.HasPrefix(string(text), `{"kind":"`+string(kind)+`","schema_version":"`+head.Version+`","tool":{`) {
			t.Fatalf("%s: %v", text, err)
		}
		for _, shape := range []string{string(text), " [" + string(text) + "]", string(text[:len(text)-20])} {
			if got := document.HeadOf([]byte(shape)); got != head {
				t.Errorf("%s: %+v", shape, got)
			}
		}
		for _, want := range all {
			var p paper
			err := document.Decode(text, "file.json", &p, want)
			switch {
			case want == kind && (err != nil || p.Head != head):
				t.Errorf("%s: %v, %+v", kind, err, p.Head)
			case want != kind && (!errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), "file.json: "+document.Is(kind)) || strings.Count(err.Error(), "; ") != 1):
				t.Errorf("%s for %s: %v", kind, want, err)
			}
		}
		newer := strings.Replace(string(text), head.Version, fmt.Sprintf("%d.0.0", gpuprof.MajorOf(head.Version)+1), 1)
		if err := document.Decode([]byte(newer), "file.json", &paper{}, kind); !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), "is newer than this gpuprof's "+head.Version+"; update gpuprof") {
			t.Errorf("a newer %s: %v", kind, err)
		}
		later := strings.Replace(string(text), head.Version, fmt.Sprintf("%d.99.0", gpuprof.MajorOf(head.Version)), 1)
		if err := document.Decode([]byte(later), "file.json", &paper{}, kind); err != nil {
			t.Errorf("a later minor version of %s: %v", kind, err)
		}
	}
}

// Files from before every kind was named are told by what they hold, in any order.
func TestEarlyFiles(t *testing.T) {
	for members, want := range map[string]gpuprof.DocumentKind{
		`"workload":"e3nn","stages":[]`:                           document.Run,
		`"kind":"files","verdict":"pass","workload":"w"`:          document.Comparison,
		`"kind":"budget","verdict":"pass"`:                        document.Comparison,
		`"kind":"baseline","verdict":"pass"`:                      document.Comparison,
		`"kind":"gate","verdict":"pass"`:                          document.Gate,
		`"kind":"tune","claims":[]`:                               document.Tune,
		`"kind":"baseline","sessions":[]`:                         document.Baseline,
		`"inputs":[],"step_source":"x","devices":[]`:              document.Analysis,
		`"old":{"step_source":"x"},"new":{},"step_old_ns":1`:      document.TraceComparison,
		`"verdict":"unknown","exit_code":3,"devices":[],"off":[]`: document.Health,
		`"note":"n","devices":{}`:                                 document.Ranges,
		`"stages":[{"stage":"tp"}]`:                               document.Check,
		`"cases":[]`:                                              document.Check,
		`"machine":"m","block_seconds":1,"metrics":[]`:            document.Noise,
		`"command":[],"traces":[],"recorder":"nsys"`:              document.Recording,
		`"traceEvents":[]`:                                        document.Timeline,
		`"made_by":{},"device":{},"verdict":"pass","table":[]`:    document.GPUCheck,
		`"kind":"a-kind-to-come","workload":"e3nn"`:               "a-kind-to-come",
		`"something":1`:                                           "",
	} {
		for _, text := range []string{`{"schema_version":"1.0.0",` + members + `}`, `{` + members + `,"schema_version":"1.0.0","tool":{"name":"gpuprof"}}`, "\n[ {" + members + `,"schema_version":"1.0.0"}]`} {
			if got := document.HeadOf([]byte(text)); got.Kind != want || got.Version != "1.0.0" {
				t.Errorf("%s: %+v, want %s", text, got, want)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		``:                           "the file is empty; give",
		" \n":                        "the file is empty; give",
		`{"schema_version":"1.0`:     "the file is damaged or not JSON",
		`no JSON`:                    "the file is damaged or not JSON",
		`{}`:                         "it has no schema_version and was not written by gpuprof tune; give",
		`[]`:                         "it has no schema_version",
		`{"schema_version":17}`:      "it has no schema_version",
		`{"schema_version":"new"}`:   "it has no schema_version",
		`{"schema_version":"-3.0"}`:  "it has no schema_version",
		`{"schema_version":"1.0.0"}`: "it names no kind of document and was not written by gpuprof tune; give",
		`{"schema_version":"7"}`:     "schema_version 7 is newer than this gpuprof's 2.9.0; update gpuprof",
		`{"schema_version":"99999999999999999999.0"}`:                                   "is newer than this gpuprof's 2.9.0; update gpuprof",
		`{"kind":"x","schema_version":"1.0.0","tool":{"name":"gpuprof"}}`:               `it is of the kind "x", which this gpuprof does not know; update gpuprof`,
		`{"kind":"x","schema_version":"1.0.0","tool":{"name":"another"}}`:               "it names no kind of document",
		`{"kind":"\u001b[2Jx","schema_version":"1.0.0","tool":{"name":"gpuprof"}}`:      "\ufffd[2Jx",
		`{"kind":"tune","schema_version":"2.0.0","tool":{},"text":["of another type"]}`: "the file is damaged or not JSON",
		`{"kind":["tune"],"schema_version":"2.0.0"}`:                                    "it names no kind of document",
	} {
		err := document.Decode([]byte(text), "file.json", &paper{}, document.Tune, document.Claims)
		if !errors.Is(err, gpuprof.ErrInput) || !strings.HasPrefix(err.Error(), "reading tuning result file.json: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// What is written is read back as it was.
func TestReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(all).Draw(t, "kind")
		text := func(label string) string { return document.CleanText(rapid.String().Draw(t, label)) }
		p := paper{Head: document.NewHead(kind, gpuprof.Tool{Name: "gpuprof", Version: text("version"), Commit: text("commit")}), Text: text("text"),
			Counts: map[string]float64{text("name"): rapid.Float64().Draw(t, "count")}}
		p.Deep = []paper{p}
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var got paper
		if err := document.Decode(b, "x", &got, kind); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(p, got); d != "" {
			t.Fatal(d)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, kind := range all {
		b, err := json.Marshal(paper{Head: document.NewHead(kind, gpuprof.Tool{Name: "gpuprof"})})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, string(kind))
	}
	f.Add([]byte(`[{"schema_version":"1.0.0","workload":"w"},`), "run")
	f.Add([]byte(`{"kind":"baseline","verdict":"`), "baseline")
	f.Fuzz(func(t *testing.T, text []byte, kind string) {
		want := gpuprof.DocumentKind(kind)
		if document.Version(want) == "" {
			want = document.Run
		}
		h := document.HeadOf(text)
		if c := document.CleanText(h.Tool.Name + string(h.Kind) + h.Version); c != h.Tool.Name+string(h.Kind)+h.Version {
			t.Errorf("%+v is not clean", h)
		}
		var p paper
		err := document.Decode(text, "x", &p, want)
		if err != nil && !errors.Is(err, gpuprof.ErrInput) {
			t.Error(err)
		}
		if err == nil && (!json.Valid(document.NullNumbers(text)) || gpuprof.MajorOf(h.Version) > gpuprof.MajorOf(document.Version(want))) {
			t.Errorf("%s is read as %s", text, want)
		}
	})
}
