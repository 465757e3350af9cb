package rules_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

var update = flag.Bool("update", false, "write testdata/traces anew")

// traceFolder holds the scenes as files.
const traceFolder = "../../../testdata/traces"

// analyse runs the rules over a trace.
func analyse(t testing.TB, in *model.Trace) (*analyze.Analysis, *analyze.Index) {
	t.Helper()
	x, err := analyze.NewIndex(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	a, err := analyze.SummariseIndexes(t.Context(), []*analyze.Index{x}, analyze.Options{Rules: rules.Rules})
	if err != nil {
		t.Fatal(err)
	}
	return a, x
}

func find(a *analyze.Analysis, rule string) *gpuprof.Finding {
	for i := range a.Findings {
		if a.Findings[i].Rule == rule {
			return &a.Findings[i]
		}
	}
	return nil
}

// mustFind is find for a rule that must have fired.
func mustFind(t testing.TB, a *analyze.Analysis, rule string) *gpuprof.Finding {
	t.Helper()
	f := find(a, rule)
	if f == nil {
		t.Fatalf("no %s in %v", rule, ids(a))
	}
	return f
}

func ids(a *analyze.Analysis) []string {
	var out []string
	for _, f := range a.Findings {
		out = append(out, f.Rule)
	}
	return out
}

func evidence(t testing.TB, f *gpuprof.Finding, want map[string]any) {
	t.Helper()
	for k, v := range want {
		if got := f.Evidence[k]; !reflect.DeepEqual(got, v) {
			t.Errorf("%s: evidence %s is %v (%T), want %v (%T)", f.Rule, k, got, got, v, v)
		}
	}
}

// Every rule of one recording has a scene of its own, in the order of the rules; a straggler has the tests of its file.
func TestScenesCoverRules(t *testing.T) {
	got := []string{gpuprof.RuleStraggler, gpuprof.RuleExpertImbalance}
	for _, s := range ruleScenes() {
		got = append(got, s.rule)
	}
	if want := rules.RuleIDs(); !slices.Equal(got, want) {
		t.Errorf("scenes are of %v, rules are %v", got, want)
	}
}

func TestRulesFireAndStayQuiet(t *testing.T) {
	for _, c := range ruleScenes() {
		t.Run(c.rule, func(t *testing.T) {
			fires, _ := analyse(t, c.fires().trace())
			checkFires(t, fires, c)
			quiet, _ := analyse(t, c.quiet().trace())
			if f := find(quiet, c.rule); f != nil {
				t.Errorf("fires where it must not: %s %v", f.Title, f.Evidence)
			}
		})
	}
}

// The same from the files, through the reader.
func TestRulesOnFiles(t *testing.T) {
	for _, c := range ruleScenes() {
		if fires := c.fires(); fires.host != nil || fires.native || c.rule == gpuprof.RuleUnifiedMemory {
			continue // samples of the host, programs in C++ and migrations are no part of a file of Kineto
		}
		t.Run(c.rule, func(t *testing.T) {
			fires, _ := analyse(t, sceneFile(t, c.rule+"-fires.json", c.fires()))
			checkFires(t, fires, c)
			quiet, _ := analyse(t, sceneFile(t, c.rule+"-quiet.json", c.quiet()))
			if f := find(quiet, c.rule); f != nil {
				t.Errorf("fires where it must not: %s %v", f.Title, f.Evidence)
			}
			for _, w := range fires.Warnings {
				if c.rule == gpuprof.RuleNotSteady && w.Code == "no-steps" {
					continue // as it has to be
				}
				if c.rule == gpuprof.RuleRecompilation && w.Code == "phase-in-step" {
					continue // its steps compile
				}
				if c.rule == gpuprof.RuleHostOperator && w.Code == "no-device" {
					continue
				}
				t.Errorf("the file gives a warning: %s: %s", w.Code, w.Text)
			}
		})
	}
}

func checkFires(t *testing.T, a *analyze.Analysis, c ruleScene) {
	t.Helper()
	f := mustFind(t, a, c.rule)
	if f.ClaimNS != c.claim {
		t.Errorf("claims %d ns, want %d: %s %v", f.ClaimNS, c.claim, f.Title, f.Evidence)
	}
	if says := strings.Contains(f.Title, "up to"); says != (c.claim > 0) {
		t.Errorf("claims %d ns, and its title is %q", f.ClaimNS, f.Title)
	}
	if f.PyTorch == "" || !strings.HasPrefix(f.Command, "gpuprof ") && !strings.HasPrefix(f.Command, "ncu ") || f.Evidence == nil {
		t.Errorf("is incomplete: %+v", f)
	}
	for k, v := range f.Evidence {
		switch v.(type) {
		case int, int64, float64, string:
		default:
			t.Errorf("evidence %s is a %T", k, v)
		}
	}
}

// sceneFile reads a scene's file, which must be what the scene writes.
func sceneFile(t *testing.T, name string, s *scene) *model.Trace {
	t.Helper()
	path := filepath.Join(traceFolder, name)
	if *update {
		if err := os.WriteFile(path, s.json(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -run TestRulesOnFiles -update writes it)", err)
	}
	if !bytes.Equal(text, s.json()) {
		t.Fatalf("%s is not what the scene writes; go test -run TestRulesOnFiles -update", path)
	}
	if len(text) > 16<<10 {
		t.Errorf("%s has %d bytes; keep it small enough to read", path, len(text))
	}
	in, err := kineto.Read(t.Context(), bytes.NewReader(text), path, 0)
	if err != nil {
		t.Fatal(err)
	}
	return in
}
