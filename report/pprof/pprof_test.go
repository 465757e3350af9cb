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
	"github.com/gpuprof/gpuprof/report/internal/fixture"
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

func sum(s *gpuprof.Series) (v float64) {
	if s != nil {
		for _, run := range s.Runs {
			for _, x := range run {
				v += x
			}
		}
	}
	return v
}

func near(a, b float64) bool { return a == b || math.Abs(a-b) <= 1e-3*math.Abs(b) }

func TestTotalsAreTheSums(t *testing.T) {
	for name, r := range map[string]*gpuprof.Run{"one": fixture.One(), "three": fixture.Three()} {
		p := write(t, r)
		device, host := stageTotals(t, p, "device_time"), stageTotals(t, p, "host_time")
		flops, moved := stageTotals(t, p, "flops"), stageTotals(t, p, "bytes")
		for _, s := range r.Stages {
			if s.Parent != "step" {
				continue
			}
			n := float64(r.Step.N())
			for _, c := range []struct {
				what      string
				got, want float64
			}{
				{"device", device[s.Name], sum(s.Device) * 1e9}, {"host", host[s.Name], sum(s.Host) * 1e9},
				{"flops", flops[s.Name], s.Counters["flops"] * n}, {"bytes", moved[s.Name], (s.Counters["bytes_read"] + s.Counters["bytes_written"]) * n},
			} {
				if !near(c.got, c.want) {
					t.Errorf("%s %s %s: %g, want %g", name, s.Name, c.what, c.got, c.want)
				}
			}
		}
	}
}

func TestStacksAndLabels(t *testing.T) {
	r := fixture.Three()
	p := write(t, r)
	kernels, processes := 0, map[string]bool{}
	for _, s := range p.Sample {
		levels := ""
		for _, l := range s.Location {
			levels += l.Line[0].Function.Filename + " "
		}
		switch levels {
		case "kernel stage step workload ":
			kernels++
		case "stage step workload ":
		default:
			t.Errorf("stack %q", levels)
		}
		if s.Label["batch"][0] != "512" || s.Label["mode"][0] != "steady" || s.Label["preset"][0] != "small" || s.Label["device"][0] != fixture.DeviceName {
			t.Errorf("labels %v", s.Label)
		}
		processes[s.Label["process"][0]] = true
	}
	if kernels != 3*9 || len(processes) != 3 {
		t.Errorf("%d kernel samples of %d processes, want 27 of 3", kernels, len(processes))
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
	if want := sum(r.Stage("tensor_product").Device) * 1e9; !near(got, want) {
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

// TestGoToolPprofReadsIt parses what go tool pprof -top prints.
func TestGoToolPprofReadsIt(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatalf("the go command is needed to read the profile back: %v", err)
	}
	r := fixture.Three()
	path := filepath.Join(t.TempDir(), "profile.pb.gz")
	var b bytes.Buffer
	if err := pprof.Write(&b, []*gpuprof.Run{r}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(goTool, "tool", "pprof", "-top", "-cum", "-nodefraction=0", "-unit=ns", path)
	cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cum := map[string]float64{}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line) // flat flat% sum% cum cum% name [file]
		if len(f) < 6 || !strings.HasSuffix(f[1], "%") {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSuffix(f[3], "ns"), 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		cum[f[5]] = v
	}
	all := 0.0
	for _, s := range r.Stages {
		if s.Parent == "step" && s.Device != nil {
			want := sum(s.Device) * 1e9
			all += want
			if !near(cum[s.Name], want) {
				t.Errorf("%s: pprof says %g ns, want %g\n%s", s.Name, cum[s.Name], want, out)
			}
		}
	}
	if !near(cum["e3nn"], all) || !near(cum["step"], all) {
		t.Errorf("workload %g, step %g, want %g", cum["e3nn"], cum["step"], all)
	}
}
