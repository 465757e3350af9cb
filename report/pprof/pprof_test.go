package pprof_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/internal/view"
	"github.com/gpuprof/gpuprof/report/pprof"
)

func write(t *testing.T, runs ...*gpuprof.Run) *profile.Profile {
	t.Helper()
	var b bytes.Buffer
	if err := pprof.Write(&b, runs); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	return p
}

func index(t *testing.T, p *profile.Profile, kind string) int {
	t.Helper()
	for i, s := range p.SampleType {
		if s.Type == kind {
			return i
		}
	}
	t.Fatalf("no sample type %s", kind)
	return 0
}

// stageTotals adds a value over the stacks through each stage.
func stageTotals(t *testing.T, p *profile.Profile, kind string) map[string]float64 {
	at, out := index(t, p, kind), map[string]float64{}
	for _, s := range p.Sample {
		for _, l := range s.Location {
			if f := l.Line[0].Function; f.Filename == "stage" {
				out[f.Name] += float64(s.Value[at])
			}
		}
	}
	return out
}

func median(s *gpuprof.Series) float64 {
	if s == nil {
		return 0
	}
	return s.Median
}

func near(a, b float64) bool { return a == b || math.Abs(a-b) <= 1e-3*math.Abs(b) }

// TestStagesAreTheTablesFigures: medians of a step, whatever the number of
// samples and processes; step_time is the step by the stages' shares.
func TestStagesAreTheTablesFigures(t *testing.T) {
	for name, r := range map[string]*gpuprof.Run{"one": fixture.One(), "three": fixture.Three(), "apart": apart()} {
		p := write(t, r)
		device, host, step := stageTotals(t, p, "device_time"), stageTotals(t, p, "host_time"), stageTotals(t, p, "step_time")
		flops, moved, launches := stageTotals(t, p, "flops"), stageTotals(t, p, "bytes"), stageTotals(t, p, "launches")
		period := r.Step
		if r.ProbedStep != nil {
			period = r.ProbedStep
		}
		all := 0.0
		for _, s := range view.Stages(r) {
			all += step[s.Name]
			for _, c := range []struct {
				what      string
				got, want float64
			}{
				{"device", device[s.Name], median(s.Device) * 1e9}, {"host", host[s.Name], median(s.Host) * 1e9}, {"share", step[s.Name], s.Share * period.Median * 1e9},
				{"flops", flops[s.Name], s.Counters["flops"]}, {"bytes", moved[s.Name], s.Counters["bytes_read"] + s.Counters["bytes_written"]}, {"launches", launches[s.Name], s.Counters["launches"]},
			} {
				if !near(c.got, c.want) {
					t.Errorf("%s %s %s: %g, want %g", name, s.Name, c.what, c.got, c.want)
				}
			}
		}
		if want := math.Round(period.Median * 1e9); all != want || p.DurationNanos != int64(want) {
			t.Errorf("%s: the stages' parts of the step add up to %g ns and the profile lasts %d, want %g", name, all, p.DurationNanos, want)
		}
		if has := strings.Contains(strings.Join(p.Comments, "\n"), "a pass of their own"); has != (r.ProbedStep != nil) {
			t.Errorf("%s: comments %q", name, p.Comments)
		}
	}
}

// apart is a run whose stages were timed in a pass of their own, as slow steps.
func apart() *gpuprof.Run {
	r := fixture.One()
	bare := make([]float64, len(r.Step.Runs[0]))
	for i, v := range r.Step.Runs[0] {
		bare[i] = v * 0.9
	}
	r.ProbedStep, r.Step = r.Step, stats.Summarise("s", bare)
	return r
}

// TestRareStageIsNotLost: one step in four has it, so its median is zero.
func TestRareStageIsNotLost(t *testing.T) {
	r := fixture.One()
	rare := make([]float64, 40)
	for i := 0; i < len(rare); i += 4 {
		rare[i] = 1e-3
	}
	r.Stage("sync").Host = stats.Summarise("s", rare)
	if got := stageTotals(t, write(t, r), "host_time")["sync"]; got != 0.25e6 {
		t.Errorf("%g ns, want a quarter of 1 ms", got)
	}
}

// TestRunWithoutStages has its step.
func TestRunWithoutStages(t *testing.T) {
	r := fixture.Three()
	r.Stages = nil
	p := write(t, r)
	at, got := index(t, p, "step_time"), int64(0)
	for _, s := range p.Sample {
		got += s.Value[at]
	}
	if want := int64(math.Round(r.Step.Median * 1e9)); got != want || len(p.Sample) != 3 {
		t.Errorf("%d ns in %d samples, want %d in 3", got, len(p.Sample), want)
	}
}

// TestEnergyIsTheSteps: no stage is given a part of it, and the type is there
// only with a figure.
func TestEnergyIsTheSteps(t *testing.T) {
	r := fixture.Three()
	if p := write(t, r); len(p.SampleType) != 6 {
		t.Errorf("types %v without energy", p.SampleType)
	}
	r.EnergyStep = stats.Summarise("J", []float64{0.5}, []float64{0.51}, []float64{0.52})
	p := write(t, r, fixture.One())
	at, got := index(t, p, "energy"), int64(0)
	for _, s := range p.Sample {
		if got += s.Value[at]; s.Value[at] > 0 && len(s.Location) != 1 {
			t.Errorf("energy below the step: %v", s.Location)
		}
	}
	if got != 510000 {
		t.Errorf("%d uJ, want 510000", got)
	}
}

func TestStacksAndLabels(t *testing.T) {
	r := fixture.Three()
	p := write(t, r)
	streams := map[string]string{"h2d": "copy", "radial": "main", "sph": "main", "tensor_product": "main", "scatter": "main", "linear_gate": "main", "d2h": "main"}
	kernels, processes := 0, map[string]bool{}
	for _, s := range p.Sample {
		levels := ""
		for _, l := range s.Location {
			levels += l.Line[0].Function.Filename + " "
		}
		switch levels {
		case "kernel stage step ":
			kernels++
		case "stage step ":
		default:
			t.Errorf("stack %q", levels)
		}
		if s.Label["batch"][0] != "512" || s.Label["mode"][0] != "steady" || s.Label["preset"][0] != "small" || s.Label["device"][0] != fixture.DeviceName {
			t.Errorf("labels %v", s.Label)
		}
		if one := s.Label["process"]; one != nil {
			processes[one[0]] = true
			if counts := s.Value[index(t, p, "flops")]; counts != 0 {
				t.Errorf("process %s has %d flops of its own", one, counts)
			}
		}
		if on, want := strings.Join(s.Label["stream"], " "), streams[s.Location[max(0, len(s.Location)-2)].Line[0].Function.Name]; on != want {
			t.Errorf("stage %s is on stream %q, want %q", s.Location[0].Line[0].Function.Name, on, want)
		}
	}
	if kernels != 4*9 || len(processes) != 3 {
		t.Errorf("%d kernel samples of %d processes, want 36 of 3", kernels, len(processes))
	}
	if p.DefaultSampleType != "device_time" || !strings.HasPrefix(p.Comments[0], "written by gpuprof") {
		t.Errorf("default %q, comments %q", p.DefaultSampleType, p.Comments)
	}
}

// TestKernelsLongerThanTheirStage: a slow marked pass must not make a stage
// larger than it was measured.
func TestKernelsLongerThanTheirStage(t *testing.T) {
	r := fixture.One()
	for i := range r.Stages {
		if r.Stages[i].Parent == "tensor_product" {
			r.Stages[i].Device.Median *= 5
		}
	}
	got := stageTotals(t, write(t, r), "device_time")["tensor_product"]
	if want := median(r.Stage("tensor_product").Device) * 1e9; !near(got, want) {
		t.Errorf("total %g, want %g", got, want)
	}
}

func TestEveryRunIsValid(t *testing.T) {
	for name, r := range fixture.Every() {
		p := write(t, r, fixture.One())
		for _, s := range p.Sample {
			for i, v := range s.Value {
				if v < 0 || v > 1e18 {
					t.Errorf("%s: %s is %d", name, p.SampleType[i].Type, v)
				}
			}
		}
		if alone := write(t, r); (name == "invalid" || name == "empty") && len(alone.Sample) > 0 {
			t.Errorf("%s: %d samples", name, len(alone.Sample))
		}
	}
	if err := pprof.Write(&bytes.Buffer{}, nil); !errors.Is(err, gpuprof.ErrInput) {
		t.Error(err)
	}
}

// TestKernelNamedAsAStage: pprof adds up what has one name.
func TestKernelNamedAsAStage(t *testing.T) {
	r := fixture.One()
	for i := range r.Stages {
		if r.Stages[i].Name == "gather" {
			r.Stages[i].Name = "scatter"
		}
	}
	found := false
	for _, f := range write(t, r).Function {
		found = found || f.Name == "scatter (kernel)"
	}
	if !found {
		t.Error("a kernel and another stage share a name")
	}
}

// TestGoToolPprofReadsIt parses what go tool pprof prints of a run and of the
// difference between two of unlike length.
func TestGoToolPprofReadsIt(t *testing.T) {
	dir := t.TempDir()
	save := func(name string, r *gpuprof.Run) string {
		var b bytes.Buffer
		path := filepath.Join(dir, name)
		if err := errors.Join(pprof.Write(&b, []*gpuprof.Run{r}), os.WriteFile(path, b.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	before, after := fixture.Complete(fixture.Options{Seed: 4, Samples: 25, Scale: 0.8}), fixture.Three()
	old, now := save("old.pb.gz", before), save("new.pb.gz", after)
	for kind, figure := range map[string]func(*gpuprof.Run, view.Stage) float64{
		"device_time": func(_ *gpuprof.Run, s view.Stage) float64 { return math.Round(median(s.Device) * 1e9) },
		"step_time":   func(r *gpuprof.Run, s view.Stage) float64 { return s.Share * r.Step.Median * 1e9 },
	} {
		top, diff := tool(t, "-sample_index="+kind, now), tool(t, "-sample_index="+kind, "-diff_base", old, now)
		all := 0.0
		for i, s := range view.Stages(after) {
			was, is := figure(before, view.Stages(before)[i]), figure(after, s)
			all += is
			if got := top[s.Name]; !near(got, is) && math.Abs(got-is) > 1 { // whole ns
				t.Errorf("%s of %s: pprof says %g ns, want %g", kind, s.Name, got, is)
			}
			if got := diff[s.Name]; math.Abs(got-(is-was)) > 2 {
				t.Errorf("difference of %s of %s: pprof says %g ns, want %g", kind, s.Name, got, is-was)
			}
		}
		if !near(top["step"], all) {
			t.Errorf("%s of the step: %g, want %g", kind, top["step"], all)
		}
	}
}

// tool runs go tool pprof -top and gives the cumulated value of each name.
func tool(t *testing.T, args ...string) map[string]float64 {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatalf("the go command is needed to read the profile back: %v", err)
	}
	cmd := exec.Command(goTool, append([]string{"tool", "pprof", "-top", "-cum", "-nodefraction=0", "-unit=ns"}, args...)...)
	cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cum := map[string]float64{}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line) // flat flat% sum% cum cum% name
		if len(f) < 6 || !strings.HasSuffix(f[1], "%") {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSuffix(f[3], "ns"), 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		cum[f[5]] = v
	}
	return cum
}
