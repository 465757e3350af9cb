package benchfmt_test

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
	"golang.org/x/perf/benchproc"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	ours "github.com/gpuprof/gpuprof/report/benchfmt"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func render(t *testing.T, runs ...*gpuprof.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := ours.Write(&b, runs); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	for name, runs := range map[string][]*gpuprof.Run{
		"three-processes": {fixture.Three()}, "sweep": fixture.Sweep(), "partial": {fixture.Partial()}, "invalid": {fixture.Invalid()},
	} {
		got, path := render(t, runs...), filepath.Join("testdata", name+".bench")
		if *update {
			if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, []byte(got), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s differs (-want +got); run the test with -update if it is meant:\n%s", name, d)
		}
	}
}

// parse reads the text as benchstat does: values by full name and unit.
func parse(t *testing.T, text string) map[string][]float64 {
	t.Helper()
	out := map[string][]float64{}
	r := benchfmt.NewReader(strings.NewReader(text), "x.bench")
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Fatal(rec)
		case *benchfmt.Result:
			stage := "step"
			_, parts := rec.Name.Parts()
			for _, p := range parts {
				if s, ok := strings.CutPrefix(string(p), "/stage="); ok {
					stage = s
				}
				if strings.HasPrefix(string(p), "-") {
					t.Errorf("%s was read as a thread count in %s", p, rec.Name)
				}
			}
			for _, v := range rec.Values {
				out[stage+" "+v.Unit] = append(out[stage+" "+v.Unit], v.Value)
			}
		}
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMediansAgree: the centre benchstat computes is the run's median.
func TestMediansAgree(t *testing.T) {
	for name, r := range map[string]*gpuprof.Run{"one": fixture.One(), "three": fixture.Three()} {
		got := parse(t, render(t, r))
		check := func(key string, s *gpuprof.Series) {
			t.Helper()
			sum := benchmath.AssumeNothing.Summary(benchmath.NewSample(got[key], &benchmath.DefaultThresholds), 0.95)
			if !(math.Abs(sum.Center/s.Median-1) < 1e-3) || len(got[key]) != len(s.Runs) {
				t.Errorf("%s %s: %v over %d lines, want %v over %d", name, key, sum.Center, len(got[key]), s.Median, len(s.Runs))
			}
		}
		check("step sec/op", r.Step)
		check("step probes/s", r.Throughput.Series)
		check("tensor_product device-sec/op", r.Stage("tensor_product").Device)
		check("collate host-sec/op", r.Stage("collate").Host)
		check("gap exposed-sec/op", r.Stage("gap").Exposed)
	}
}

// TestVolatileKeysAreOut: two runs at different times on one machine share
// every configuration key, so benchstat puts them into one table.
func TestVolatileKeysAreOut(t *testing.T) {
	a, b := fixture.One(), fixture.Complete(fixture.Options{Seed: 99})
	b.Started, b.Device.Load, b.Tool.Version, b.Tool.Commit = b.Started.AddDate(1, 0, 0), 9, "9.9.9", "abc"
	b.Device.Governor, b.Device.Go = "powersave", "go9"
	var parser benchproc.ProjectionParser
	config, err := parser.Parse(".config", nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[benchproc.Key]bool{}
	r := benchfmt.NewReader(strings.NewReader(render(t, a)+render(t, b)), "x")
	for r.Scan() {
		if res, ok := r.Result().(*benchfmt.Result); ok {
			keys[config.Project(res)] = true
		}
	}
	if len(keys) != 1 {
		t.Errorf("%d tables, want 1: %v", len(keys), keys)
	}
}

func TestEveryRunParses(t *testing.T) {
	for name, r := range fixture.Every() {
		got := parse(t, render(t, r))
		if times := len(got["step sec/op"]); (name == "invalid" || name == "empty") && times != 0 {
			t.Errorf("%s: %d lines of times", name, times)
		}
		for key, vs := range got {
			for _, v := range vs {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					t.Errorf("%s: %s is %v", name, key, v)
				}
			}
		}
	}
	if err := ours.Write(&bytes.Buffer{}, nil); !errors.Is(err, gpuprof.ErrInput) {
		t.Error(err)
	}
}
