package e3nn

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/structure"
)

// The same on the CUDA device: checked kernel by kernel, run, compared with the host
// device, and nothing left.
func TestForcesOnCUDA(t *testing.T) {
	for _, set := range []string{"impl=csr", "impl=csr,layout=mul_ir,graph=on", "impl=fused,recompute=all", "impl=unfused,recompute=weights,basis=bessel", "points=atoms,graph=on,streams=1"} {
		onCUDA(t, false, "pass=forces,"+set)
	}
	onCUDA(t, true, "pass=forces,precision=fp16,graph=on")
}

// forcesOf is the forces and the energy of the first batch.
func forcesOf(t *testing.T, preset string, set ...string) []float32 {
	t.Helper()
	s := openSession(t, preset, append(set, "pass=forces")...)
	run(t, s, 1)
	return append(slices.Clone(device.Floats(s.slots[0].out)), device.Floats(s.slots[0].energy)...)
}

// The setting decides how forces are computed and not what they are; threads decide
// no bit.
func TestForcesDoNotDependOnTuning(t *testing.T) {
	base := forcesOf(t, "small", "batch=40")
	for _, set := range []string{"threads=1", "threads=2", "graph=on", "recompute=weights", "recompute=all", "streams=1", "impl=unfused", "impl=fused", "layout=mul_ir"} {
		got := forcesOf(t, "small", append(strings.Split(set, ","), "batch=40")...)
		var diff, ref float64
		for i, v := range base {
			diff += math.Pow(float64(got[i]-v), 2)
			ref += math.Pow(float64(v), 2)
		}
		if r := math.Sqrt(diff / ref); !(r < 2e-6) {
			t.Errorf("%s changes forces by %g", set, r)
		}
		if !strings.HasPrefix(set, "impl=") && !strings.HasPrefix(set, "layout=") && !slices.Equal(got, base) {
			t.Errorf("%s changes bits of forces", set)
		}
	}
}

// Two halves of the rows pull as the whole does.
func TestForcesOfHalvesAddUp(t *testing.T) {
	whole := forcesOf(t, "small", "points=atoms", "batch=12")
	sum := make([]float64, len(whole))
	s := openSession(t, "small", "points=atoms", "batch=6", "pass=forces")
	if len(s.in.batches) != 2 {
		t.Fatalf("%d batches", len(s.in.batches))
	}
	run(t, s, 2)
	for k := range 2 {
		for i, v := range append(slices.Clone(device.Floats(s.slots[k].out)), device.Floats(s.slots[k].energy)...) {
			sum[i] += float64(v)
		}
	}
	var diff, ref float64
	for i, v := range whole {
		diff += math.Pow(float64(v)-sum[i], 2)
		ref += math.Pow(float64(v), 2)
	}
	if r := math.Sqrt(diff / ref); !(r < 2e-6) {
		t.Errorf("halves differ from the whole by %g", r)
	}
}

// Memory falls by what is not kept, to the byte.
func TestRecomputeFreesWhatItSays(t *testing.T) {
	use := map[string]int64{}
	need := map[string]int64{}
	for _, again := range []string{"off", "weights", "all"} {
		s := openSession(t, "deepaw", "batch=4", "mul=40", "edges=60", "pass=forces", "recompute="+again)
		use[again] = s.dev.Memory().InUse
		var err error
		if need[again], err = s.countMemory(t.Context(), int64(s.edges)); err != nil {
			t.Fatal(err)
		}
	}
	for _, again := range []string{"weights", "all"} {
		if got, want := use["off"]-use[again], need["off"]-need[again]; got != want || got <= 0 {
			t.Errorf("recompute=%s frees %d bytes, %d by count", again, got, want)
		}
	}
	// What is kept of deepaw's 74,250 edges: weights 2.11 GB, hidden layers twice 0.09.
	s := &session{dev: openHost(t, 0), k: workloads.Read[settings](resolve(t, "deepaw", "pass=forces").Knobs), model: buildModel("deepaw", 500, 4, op.IrMul), in: &input{crystal: &structure.Crystal{}}}
	s.chooseWays()
	sum := func(what string) (bytes float64) {
		for _, r := range s.requests(74250) {
			if r.what == what {
				bytes += 4 * float64(r.words)
			}
		}
		return bytes
	}
	if w, h := sum("tensor-product weights")/1e9, sum("hidden layers")/1e9; math.Abs(w-2.11) > .01 || math.Abs(h-.18) > .005 {
		t.Errorf("deepaw keeps %.3f GB of weights and %.3f of hidden layers", w, h)
	}
}

// The work of the way back at full size, counted per edge and row on a small batch.
func TestForcesWork(t *testing.T) {
	for _, tt := range []struct {
		preset              string
		set                 []string
		edges, rows         float64
		mlp, product, lin   float64 // Gflop
		productBytes        float64 // GB
		forwardMLP, forward float64
	}{
		{"deepaw", []string{"batch=8"}, 74250, 3000, 105.9, 48.9, 4.6, 4.7, 105.9, 23.2},
		{"mace-large", []string{"batch=4"}, 158000, 1000, 69.1, 18.5, 2.6, 2.8, 69.1, 8.6},
	} {
		s := openSession(t, tt.preset, append(tt.set, "pass=forces")...)
		costs := map[string]gpuprof.Cost{}
		for _, st := range s.Stages() {
			costs[st.Name] = st.Minimum
		}
		// Within the last digit given, and for the linear layer the gate that is in its stage; the basis is in the MLP's.
		for _, w := range []struct {
			stage           string
			per, want, slop float64
		}{
			{"radial", tt.edges / float64(s.in.meanEdges()), tt.forwardMLP, .01}, {"tensor_product", tt.edges / float64(s.in.meanEdges()), tt.forward, .01},
			{"radial_bwd", tt.edges / float64(s.in.meanEdges()), tt.mlp, .01}, {"tensor_product_bwd", tt.edges / float64(s.in.meanEdges()), tt.product, .005},
			{"linear_gate_bwd", tt.rows / float64(s.rows), tt.lin, .08},
		} {
			if got := float64(costs[w.stage].Flops) * w.per / 1e9; math.Abs(got/w.want-1) > w.slop {
				t.Errorf("%s, %s: %.2f Gflop, want %.1f", tt.preset, w.stage, got, w.want)
			}
		}
		// Rows' gradients and features are read once whatever the edges are.
		c := costs["tensor_product_bwd"]
		var features, rows float64
		for _, l := range s.model.Layers {
			features += 4 * float64(len(s.in.crystal.Positions)*l.In.Dim())
			rows += 4 * float64(s.rows*l.TP.Out.Dim())
		}
		full := (float64(c.Bytes())-features-rows)*tt.edges/float64(s.in.meanEdges()) + features + rows*tt.rows/float64(s.rows)
		// The figures leave out harmonics, their gradients and the index, which are some 2 %.
		if got := full / 1e9 / tt.productBytes; got < 1 || got > 1.03 {
			t.Errorf("%s: the product's way back moves %.2f GB, want %.1f", tt.preset, full/1e9, tt.productBytes)
		}
	}
}

// Points on an atom have no direction: the result's input counts them.
func TestPointsOnAtomsAreCounted(t *testing.T) {
	s := openSession(t, "small", "batch=30", "pass=forces")
	want := 0
	for b := range s.in.batches {
		edges := s.batches.collate(&s.slots[0].host, b)
		vec := device.Floats(s.slots[0].host.vec)
		for e := range edges {
			if vec[3*e] == 0 && vec[3*e+1] == 0 && vec[3*e+2] == 0 {
				want++
			}
		}
	}
	if got := s.Input()["edges_of_length_0"]; got != want {
		t.Errorf("edges_of_length_0 is %v, want %d", got, want)
	}
}
