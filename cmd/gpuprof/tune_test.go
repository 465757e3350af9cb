package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/schema"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/search"
)

// fits runs `fits SCHEMA FILE`: the file matches the schema that gpuprof explain schema prints.
func fits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: fits SCHEMA FILE")
	}
	ts.Check(ts.Exec("gpuprof", "explain", "schema", args[0]))
	var s jsonschema.Schema
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &s))
	r, err := s.Resolve(nil)
	ts.Check(err)
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &v))
	ts.Check(r.Validate(v))
}

// journal runs `journal BEFORE AFTER`: every measurement of one tuning result
// is in the other, in its place and unchanged, and there are some.
func journal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: journal BEFORE AFTER")
	}
	var before, after struct{ Journal []map[string]any }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &before))
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &after))
	if len(before.Journal) == 0 || len(after.Journal) < len(before.Journal) {
		ts.Fatalf("%d measurements before, %d after", len(before.Journal), len(after.Journal))
	}
	if !reflect.DeepEqual(before.Journal, after.Journal[:len(before.Journal)]) {
		ts.Fatalf("measurements of %s are lost or changed in %s", args[0], args[1])
	}
}

func tuneResult() *tune.Result {
	return &tune.Result{Head: document.NewHead(document.Tune, gpuprof.Tool{}), Status: gpuprof.Partial, Started: time.Unix(1e9, 0).UTC(), Workload: "e3nn", Goal: tune.Time,
		Default:     &tune.Point{Knobs: gpuprof.Settings{"batch": "4"}, Median: 1},
		Recommended: &tune.Recommended{Knobs: gpuprof.Settings{}, PyTorch: []string{}, OneTime: map[string]float64{}},
		Effects:     []tune.Effect{{Knob: "batch", Verdict: tune.Faster}}, Curves: []tune.Curve{{Knob: "batch", Points: []tune.CurvePoint{{Value: "4"}}}},
		Failed: []tune.Failure{{Knobs: gpuprof.Settings{"batch": "8"}}}, Claims: []tune.ClaimRow{{ID: "a/a"}}, Peers: []tune.Peer{{Name: "e3nn"}},
		Journal: []tune.Entry{{Key: "a | b", Outcome: &tune.Outcome{A: [][]float64{{1}}, Verdict: tune.Failed}}}}
}

// The schema takes what tune writes and fields of later versions, and not what
// tune never writes.
func TestTuneSchema(t *testing.T) {
	b, err := schema.Schemas()["tune"]()
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(m map[string]any){
		"":                  func(map[string]any) {},
		"a later field":     func(m map[string]any) { m["later"], m["default"].(map[string]any)["later"] = 1.0, "x" },
		"!no version":       func(m map[string]any) { delete(m, "schema_version") },
		"!unknown goal":     func(m map[string]any) { m["goal"] = "beauty" },
		"!unknown status":   func(m map[string]any) { m["status"] = "fine" },
		"!knob as a number": func(m map[string]any) { m["default"].(map[string]any)["knobs"] = map[string]any{"batch": 4.0} },
		"!short interval":   func(m map[string]any) { m["effects"].([]any)[0].(map[string]any)["ci95"] = []any{1.0} },
		"!ratio as text":    func(m map[string]any) { m["recommended"].(map[string]any)["ratio"] = "x2" },
	} {
		var text bytes.Buffer
		if err := document.Encode(&text, tuneResult()); err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(text.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		change(m)
		if err := r.Validate(m); (err != nil) != (name != "" && name[0] == '!') {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Whatever tune recommends, there is a line for it in a PyTorch program.
func TestEveryTuningKnobHasAPyTorchLine(t *testing.T) {
	for _, w := range wired.listWorkloads() {
		for _, p := range w.Presets() {
			base, err := workloads.Resolve(w, p.Name, nil)
			if err != nil {
				t.Fatal(err)
			}
			changes, err := search.Alternatives(w, base, nil, nil, 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range w.Knobs() { // and for going back to where it was
				if !k.Model && !k.NamesFile {
					changes = append(changes, search.Change{Knob: k.Name, To: base[k.Name]})
				}
			}
			for _, c := range changes {
				if line := search.PyTorchLine(w, c.Knob, c.To); line == "" || strings.Contains(line, "%s") || strings.Contains(line, "every:") {
					t.Errorf("%s %s=%s: %q", w.Name(), c.Knob, c.To, line)
				}
			}
		}
	}
	for to, want := range map[string]string{"every:10": "if step % 10 == 0: torch.cuda.synchronize()", "never": "# delete torch.cuda.synchronize() from the loop"} {
		if got := search.PyTorchLine(wired.workloadNamed("gruflow"), "sync", to); got != want {
			t.Errorf("sync=%s: %q, want %q", to, got, want)
		}
	}
	if got := search.PyTorchLine(wired.workloadNamed("collate"), "workers", "2"); got != "loader = DataLoader(dataset, num_workers=2)" {
		t.Error(got)
	}
}
