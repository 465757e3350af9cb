package e3nn

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

func openHost(t testing.TB, limit int64) *host.Device {
	t.Helper()
	return workloadtest.Host(t, host.Options{MemoryLimit: limit})
}

// resolve makes a config from "knob=value" strings.
func resolve(t testing.TB, preset string, set ...string) workloads.Config {
	t.Helper()
	return workloadtest.Config(t, New(), preset, set...)
}

func openSession(t *testing.T, preset string, set ...string) *session {
	t.Helper()
	s, err := open(context.Background(), workloadtest.SmallCache{Device: openHost(t, 0)}, resolve(t, preset, set...))
	if err != nil {
		t.Fatal(err)
	}
	return workloadtest.Closing(t, s)
}

// The shapes that workloads of this kind are known by.
func TestPresetShapes(t *testing.T) {
	tests := []struct {
		preset          string
		mul, lmax       int
		paths, weights  []int
		lastIn, lastOut string
	}{
		{"deepaw", 500, 4, []int{42, 121, 130}, []int{1203, 2660, 3238},
			"100x0o+100x0e+33x1o+33x1e+20x2o+20x2e+14x3o+14x3e+11x4o+11x4e", "100x0o+100x0e+33x1o+33x1e+20x2o+20x2e+14x3o+14x3e+11x4o+11x4e"},
		{"mace-large", 128, 3, []int{17}, []int{17 * 128}, "128x0e+128x1o+128x2e", "128x0e+128x1o+128x2e+128x3o"},
		{"mace-medium", 128, 3, []int{8}, []int{8 * 128}, "128x0e+128x1o", "128x0e+128x1o+128x2e"},
		{"nequip-lips", 32, 2, nil, nil, "32x0o+32x0e+32x1o+32x1e+32x2o+32x2e", "32x0o+32x0e+32x1o+32x1e+32x2o+32x2e"},
		{"small", 8, 2, []int{11}, []int{88}, "8x0e+8x1o+8x2e", "8x0e+8x1o+8x2e"},
	}
	for _, tt := range tests {
		t.Run(tt.preset, func(t *testing.T) {
			knobs := resolve(t, tt.preset).Knobs
			if knobs.Int("mul") != tt.mul || knobs.Int("lmax") != tt.lmax {
				t.Fatalf("mul %s lmax %s", knobs["mul"], knobs["lmax"])
			}
			m := buildModel(tt.preset, tt.mul, tt.lmax, op.IrMul)
			var paths, weights []int
			for _, l := range m.Layers {
				paths, weights = append(paths, l.TP.NumPaths()), append(weights, l.TP.WeightNumel())
			}
			if tt.paths != nil && (!slices.Equal(paths, tt.paths) || !slices.Equal(weights, tt.weights)) {
				t.Errorf("paths %v weights %v, want %v %v", paths, weights, tt.paths, tt.weights)
			}
			last := m.Layers[len(m.Layers)-1]
			if last.In.String() != tt.lastIn || last.Out.String() != tt.lastOut {
				t.Errorf("%s -> %s, want %s -> %s", last.In, last.Out, tt.lastIn, tt.lastOut)
			}
		})
	}
	if d := buildModel("deepaw", 500, 4, op.IrMul).Layers[2].In.Dim(); d != 992 {
		t.Errorf("deepaw dimension %d, want 992", d)
	}
}

// Work of one deepaw batch at 74,250 edges: MLP 105.9 GF, tensor product
// 24.3 GF, linear about 4.5 GF, counted per edge and row on a small batch.
func TestDeepawWork(t *testing.T) {
	s := openSession(t, "deepaw", "batch=8")
	edges, rows := float64(s.in.meanEdges()), float64(s.rows)
	giga := map[string]float64{}
	for _, st := range s.Stages() {
		per, n := edges, 74250.0
		if st.Name == "linear_gate" {
			per, n = rows, 3000
		}
		giga[st.Name] = float64(st.Minimum.Flops) / per * n / 1e9
	}
	within := func(name string, want, tol float64) {
		if got := giga[name]; math.Abs(got/want-1) > tol {
			t.Errorf("%s: %.2f GF, want %.1f", name, got, want)
		}
	}
	within("radial", 105.9, 0.01)
	within("tensor_product", 24.3, 0.05)
	within("linear_gate", 4.5, 0.08) // "about", and the gate's own 0.1 GF are in it
}

// The reference takes as long as there are edges. So only the first setting is
// as large as its preset; the others have a few dozen rows. TestMoreChecksPass has
// more of them.
func TestChecksPass(t *testing.T) {
	settings := [][]string{
		{"small", "batch=96"}, // more points than are sampled
		{"small", "impl=fused", "batch=24"},
		{"small", "impl=unfused", "deterministic=on", "layout=mul_ir", "batch=24"},
		{"small", "impl=csr", "layout=mul_ir", "basis=bessel", "lmax=3", "mul=3", "batch=24"},
		{"small", "layout=mul_ir", "batch=24", "graph=on"},
		{"small", "graph=on", "batch=24", "pinned=off", "async_copy=off", "streams=1"},
		{"small", "precision=bf16", "batch=24", "graph=on"},
		{"small", "precision=fp16", "batch=24", "impl=fused"},
		{"small", "precision=tf32x3", "batch=24"},
		{"small", "autotune=on", "batch=24", "graph=on"},
		{"deepaw", "batch=3", "mul=50", "edges=40"},
		{"nequip-lips", "edges=48", "layout=mul_ir", "batch=12"},
	}
	for _, set := range settings {
		t.Run(strings.Join(set, ","), func(t *testing.T) {
			s := openSession(t, set[0], set[1:]...)
			workloadtest.PassesWhole(t, s)
		})
	}
}

// A check that cannot fail checks nothing: break one thing at a time and see
// the stage that computes with it fail.
func TestCheckCatches(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(s *session)
		stage string
	}{
		{"wrong MLP weight", func(s *session) { device.Floats(s.layers[0].w2)[7]++ }, "radial"},
		{"wrong feature", func(s *session) { device.Floats(s.layers[0].x)[3]++ }, "tensor_product"},
		{"wrong mixing weight", func(s *session) { device.Floats(s.layers[0].mix)[5] = float32(math.NaN()) }, "linear_gate"},
		{"an atom moved behind the finder's back", func(s *session) { s.in.crystal.Positions[0][0] += 0.3 }, "collate"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := openSession(t, "small", "batch=24")
			tt.spoil(s)
			workloadtest.Fails(t, s, tt.stage)
		})
	}
}

// The seed decides the data; the implementation does not decide the result.
func TestResultDoesNotDependOnTuning(t *testing.T) {
	result := func(set ...string) []float32 {
		s := openSession(t, "small", append(set, "batch=40")...)
		for i := range 3 {
			if err := s.Step(i, loop.Silent{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Compute.Sync(); err != nil {
			t.Fatal(err)
		}
		out := make([]float32, 0, s.slots[0].out.Len()/4)
		stored := device.Floats(s.slots[0].out)
		d := s.lastLayer().Out.Dim()
		flat := make([]float32, d)
		for at := 0; at < len(stored); at += d {
			op.FromLayout(s.layout, s.lastLayer().Out, flat, stored[at:at+d])
			out = append(out, flat...)
		}
		return out
	}
	base := result()
	for _, set := range []string{
		"impl=fused", "impl=unfused", "layout=mul_ir", "sync=step", "item_reads=3", "threads=1", "sync=every:2",
		"graph=on", "pinned=off", "async_copy=off", "streams=1", "library=off", "autotune=on",
	} {
		got := result(strings.Split(set, ",")...)
		var diff, ref float64
		for i := range base {
			diff += math.Pow(float64(got[i]-base[i]), 2)
			ref += math.Pow(float64(base[i]), 2)
		}
		if r := math.Sqrt(diff / ref); !(r < 1e-6) || ref == 0 {
			t.Errorf("%s changes the result by %g", set, r)
		}
		rounds := strings.HasPrefix(set, "impl=") || set == "layout=mul_ir" || set == "autotune=on"
		if !rounds && !slices.Equal(got, base) {
			t.Errorf("%s changes bits of a deterministic result", set)
		}
	}
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.xyz")
	if err := os.WriteFile(broken, []byte("2\nLattice=\"3 0 0 0 3 0 0 0 3\" Properties=species:S:1:pos:R:3\nH 0 0 0\nH 0 zero 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		set   []string
		limit int64
		kind  error
		text  []string
	}{
		{"malformed file names its line", []string{"structure=" + broken}, 0, gpuprof.ErrInput, []string{"broken.xyz", "line 4"}},
		{"no neighbours", []string{"cutoff=0.01", "batch=4"}, 0, gpuprof.ErrInput, []string{"0.01 angstrom", "larger --set cutoff"}},
		{"more edges than there are", []string{"edges=99999999"}, 0, gpuprof.ErrUsage, []string{"edges=99999999", "has only"}},
		{"more points than there are", []string{"points=atoms", "batch=13"}, 0, gpuprof.ErrUsage, []string{"batch=13", "at most 12"}},
		{"too large for memory", []string{"batch=100000"}, 1 << 28, gpuprof.ErrMemory, []string{"GiB", "smaller --set batch"}},
		{"so large that counting its edges would take a minute", []string{"batch=512000", "cutoff=30"}, 1 << 30, gpuprof.ErrMemory, []string{"TiB"}},
		{"too many channels", []string{"mul=16384", "batch=4"}, 1 << 30, gpuprof.ErrMemory, []string{"mul=16384", "or mul"}},
		{"too large, leaner impl", []string{"batch=20000", "impl=unfused"}, 1 << 28, gpuprof.ErrMemory, []string{"impl=csr"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := openHost(t, tt.limit)
			workloadtest.Refused(t, d, tt.kind, tt.text, func() error {
				_, err := open(context.Background(), d, resolve(t, "small", tt.set...))
				return err
			})
		})
	}
}

func TestBadKnobs(t *testing.T) {
	for kv, want := range map[string]string{
		"batch=-1": "outside 1", "impl=csr+": `did you mean "csr`, "precision=fp8": `did you mean "fp`, "item_reads=-1": "from 0 to 4096", "pool_trim=0": "every:K",
		"reset_stats=yes": "use off, on or sync", "streams=4": "use 2, 1 or 3", "pool_trim=step": "names no number of steps",
		"impl=cs": `did you mean "csr"`, "imp=csr": `did you mean "impl"`, "sync=sometimes": "every:K",
		"cutoff=-2": "above 0", "lmax=x": "whole number", "structure=/no/such.xyz": "neither a built-in structure nor a file", "edges=0": "at least 1",
	} {
		k, v, _ := strings.Cut(kv, "=")
		_, err := workloads.Resolve(New(), "small", gpuprof.Settings{k: v})
		if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want usage error with %q", kv, err, want)
		}
	}
	set := resolve(t, "small", "impl=fused", "deterministic=on").Knobs
	if err := New().Refuse(device.Info{Kind: "host"}, set); !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), "impl=csr") {
		t.Errorf("fused and deterministic: %v", err)
	}
	for _, kv := range []string{"threads=4096", "points=atoms"} { // 512 points of 12 atoms
		if err := New().Refuse(device.Info{Kind: "host", MaxThreads: 8}, resolve(t, "small", kv).Knobs); !errors.Is(err, gpuprof.ErrUsage) {
			t.Errorf("%s: %v, want a refusal before anything is opened", kv, err)
		}
	}
	set = resolve(t, "small", "threads=2").Knobs
	if err := New().Refuse(device.Info{Kind: "cuda", Name: "some GPU"}, set); !errors.Is(err, gpuprof.ErrUsage) {
		t.Errorf("threads on a GPU: %v", err)
	}
}

func TestMeanDegree(t *testing.T) {
	s := openSession(t, "small")
	if d := s.in.meanDegree(); math.Abs(d-24.75) > 0.2 {
		t.Errorf("mean degree %.3f, want 24.75", d)
	}
	m := openSession(t, "mace-medium", "batch=100")
	if d := m.in.meanDegree(); d != 158 {
		t.Errorf("diamond at 6 angstrom has degree %v, want 158", d)
	}
}
