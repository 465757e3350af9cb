package e3nn

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// Training passes its checks whatever the settings of the forward pass.
func TestTrainingPasses(t *testing.T) {
	for nth, set := range [][]string{
		{"small", "batch=24"},
		{"small", "batch=12", "impl=fused", "optimizer=foreach"},
		{"small", "batch=12", "impl=unfused", "deterministic=on", "layout=mul_ir", "optimizer=loop"},
		{"small", "batch=12", "basis=bessel", "lmax=3", "mul=3", "recompute=weights", "layout=mul_ir"},
		{"small", "batch=12", "graph=on"},
		{"small", "batch=12", "recompute=all", "graph=on"},
		{"small", "batch=12", "precision=bf16"},
		{"small", "batch=12", "precision=fp16", "recompute=all"},
		{"small", "batch=12", "precision=tf32", "impl=unfused"},
		{"deepaw", "batch=3", "mul=50", "edges=40"},
		{"deepaw", "batch=3", "mul=50", "edges=40", "recompute=all"},
		{"nequip-lips", "edges=48", "layout=mul_ir", "batch=12"},
		{"small", "batch=12", "accumulate=3", "zero=fill"},
		{"small", "batch=12", "accumulate=2", "layout=mul_ir", "precision=fp16", "scaler=dynamic", "found_inf=host", "clip_where=host"},
		{"deepaw", "batch=4", "mul=50", "edges=40", "accumulate=2", "recompute=all"},
		{"small", "batch=12", "zero=fill", "graph=on"},
	} {
		if !nightly && nth%3 != 0 {
			continue // by day every third setting
		}
		t.Run(strings.Join(set, ","), func(t *testing.T) {
			s := openSession(t, set[0], append(set[1:], "pass=train")...)
			for _, c := range workloadtest.PassesWhole(t, s) {
				t.Logf("%s %.2g", c.Stage, float64(c.RelativeError))
			}
		})
	}
}

func TestTrainingOnCUDA(t *testing.T) {
	for _, set := range []string{"impl=csr", "impl=csr,layout=mul_ir,graph=on,optimizer=loop", "impl=unfused,recompute=all,optimizer=foreach"} {
		onCUDA(t, false, "pass=train,"+set)
	}
	onCUDA(t, true, "pass=train,precision=fp16,graph=on,scaler=dynamic")
	onCUDA(t, false, "pass=train,accumulate=2,zero=fill,clip_where=host,loss_read=step")
}

// trained is all parameters after so many steps.
func trained(t *testing.T, steps int, set ...string) []float32 {
	t.Helper()
	s := openSession(t, "small", append([]string{"pass=train"}, set...)...)
	run(t, s, steps)
	var all []float32
	for _, p := range s.train.step.Params() {
		all = append(all, read(t, s, p.P, len(p.Values))...)
	}
	return all
}

// The work of training's way back at full size, counted per edge and row on a small batch.
// The MLP's part is the chain and the gradients of both matrices, the linear layer's too.
func TestTrainingWork(t *testing.T) {
	for _, tt := range []struct {
		preset, batch        string
		edges, rows          float64
		mlp, product, linear float64 // Gflop
	}{
		{"deepaw", "batch=8", 74250, 3000, 211.4, 30.0, 9.3},
		{"mace-large", "batch=4", 158000, 1000, 137.8, 12.2, 5.2},
	} {
		s := openSession(t, tt.preset, tt.batch, "pass=train")
		flops := map[string]float64{}
		for _, st := range s.Stages() {
			flops[st.Name] = float64(st.Minimum.Flops) / 1e9
		}
		byEdge, byRow := tt.edges/float64(s.in.meanEdges()), tt.rows/float64(s.rows)
		// To the last digit given.
		if got := flops["tensor_product_bwd"] * byEdge; math.Abs(got-tt.product) > .05 {
			t.Errorf("%s: the product takes %.2f Gflop, want %.1f", tt.preset, got, tt.product)
		}
		// The stage of gradients has those of both: the linear layer's are counted by rows. Activations,
		// factors, gate and readout, which the figures leave out, are under 1 %.
		linear := 0.0
		for _, l := range s.model.Layers {
			for _, a := range l.Linear.In {
				for _, b := range l.Linear.Out {
					if a.Ir == b.Ir {
						linear += float64(2*a.Mul*b.Mul*a.Ir.Dim()*s.rows) / 1e9
					}
				}
			}
		}
		got := (flops["radial_bwd"]+flops["grads"]-linear)*byEdge + (flops["linear_gate_bwd"]+linear)*byRow
		if want := tt.mlp + tt.linear; got < want || got > 1.01*want {
			t.Errorf("%s: MLP and linear layers take %.2f Gflop, want %.1f", tt.preset, got, want)
		}
	}
}

// A loss that is not finite ends the run, and the error names the first stage that made it so.
func TestLossThatIsNotFinite(t *testing.T) {
	ends := func(s *session, stage string) {
		t.Helper()
		var err error
		for i := 0; i < 9 && err == nil; i++ {
			err = s.Step(i, loop.Silent{})
		}
		if !errors.Is(err, gpuprof.ErrCheck) || !strings.Contains(err.Error(), "stage "+stage+";") {
			t.Errorf("stage %s: %v", stage, err)
		}
	}
	for _, set := range []string{"graph=off", "graph=on", "impl=unfused"} {
		for stage, spoil := range map[string]func(s *session) []float32{
			"radial":      func(s *session) []float32 { return s.params.w1[0] },
			"linear_gate": func(s *session) []float32 { return s.params.mix[0] },
			"loss":        func(s *session) []float32 { return s.params.readout[0] },
		} {
			s := openSession(t, "small", "batch=12", "mul=3", "pass=train", set)
			spoil(s)[0] = float32(math.Inf(1)) // by what the optimizer starts from
			if err := s.restartParameters(); err != nil {
				t.Fatal(err)
			}
			ends(s, stage)
		}
	}
}
