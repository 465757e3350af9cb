//go:build !race

// Under the race detector these sessions take ten times as long. TestTrainingPasses and TestForcesPass have each kind of goroutine there.

package e3nn

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/so3"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// Training on forces passes its checks whatever the other settings.
func TestForceTrainingPasses(t *testing.T) {
	for nth, set := range [][]string{
		{"small", "batch=24"},
		{"small", "batch=12", "impl=fused", "optimizer=foreach"},
		{"small", "batch=12", "impl=unfused", "deterministic=on", "layout=mul_ir", "optimizer=loop"},
		{"small", "batch=12", "basis=bessel", "lmax=3", "mul=3", "recompute=weights", "layout=mul_ir"},
		{"small", "batch=12", "impl=csr+mlp", "graph=on"},
		{"small", "batch=12", "points=atoms", "recompute=all", "graph=on"},
		{"small", "batch=12", "precision=bf16"},
		{"small", "batch=12", "precision=tf32", "impl=unfused"},
		{"deepaw", "batch=3", "mul=50", "edges=40"},
		{"deepaw", "batch=4", "mul=50", "edges=40", "accumulate=2", "recompute=all", "impl=csr+mlp"},
		{"nequip-lips", "edges=48", "layout=mul_ir", "batch=12"},
		{"small", "batch=12", "accumulate=3", "zero=fill"},
		{"small", "batch=12", "accumulate=2", "layout=mul_ir", "precision=fp16", "scaler=dynamic", "found_inf=host", "clip_where=host", "recompute=weights"},
	} {
		if !nightly && nth%3 != 0 {
			continue // by day every third setting
		}
		t.Run(strings.Join(set, ","), func(t *testing.T) {
			s := openSession(t, set[0], append(set[1:], "pass=train-forces")...)
			for _, c := range workloadtest.PassesWhole(t, s) {
				t.Logf("%s %.2g", c.Stage, float64(c.RelativeError))
			}
		})
	}
}

func TestForceTrainingOnCUDA(t *testing.T) {
	for _, set := range []string{"impl=csr", "impl=csr+mlp,layout=mul_ir,graph=on,optimizer=loop", "impl=unfused,recompute=all,accumulate=2,zero=fill"} {
		onCUDA(t, false, "pass=train-forces,"+set)
	}
	onCUDA(t, true, "pass=train-forces,precision=fp16,graph=on,scaler=dynamic")
}

// A check that cannot fail checks nothing: one thing at a time is broken behind the second
// way back, and the stage that computes with it fails.
func TestForceTrainingCheckCatches(t *testing.T) {
	leaveOut := func(stage, op int) func(s *session) {
		return func(s *session) {
			for i := range s.plan {
				if so := &s.plan[i]; so.stage == stage {
					for k := range so.ops {
						so.ops[k] = slices.Delete(slices.Clone(so.ops[k]), op, op+1)
					}
				}
			}
		}
	}
	for _, tt := range []struct {
		name  string
		spoil func(s *session)
		stage string
	}{
		{"another target", func(s *session) { device.Floats(s.train.targets[0])[2]++ }, "force_loss"},
		{"no direction", leaveOut(stEdgeTangent, 0), "edge_tangent"},
		{"no change of the harmonics", leaveOut(stEdgeTangent, 2), "edge_tangent"},
		{"wrong MLP weight", func(s *session) { // of the reference: a check begins from the values that were drawn
			s.params.w1[0] = slices.Clone(s.params.w1[0])
			s.params.w1[0][7]++
		}, "radial_tangent"},
		{"half of the product's change", leaveOut(stProductTangent, 2), "tensor_product_tangent"},
		{"no change of the gate", leaveOut(stLinearGateTangent, 1), "linear_gate_tangent"},
		{"no second derivative of the gate", leaveOut(stLinearGateSecond, 0), "linear_gate_bwd2"},
		{"two of three products", leaveOut(stProductSecond, 2), "tensor_product_bwd2"},
		{"the same by its law", leaveOut(stProductSecond, 2), "w.gw + dw.gdw = x.gx"},
		{"no second derivative of the MLP", leaveOut(stRadialSecond, 0), "radial_bwd2"},
		{"weights' gradients of the values alone", leaveOut(stGrads, 2), "grads"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openSession(t, "small", "batch=12", "mul=3", "pass=train-forces")
			tt.spoil(s)
			workloadtest.Fails(t, s, tt.stage)
		})
	}
}

// A hundred steps leave the same bits for any number of threads, launched or replayed,
// kept or made again.
func TestHundredForceStepsAreBitIdentical(t *testing.T) {
	base := []string{"batch=12", "mul=3", "deterministic=on", "pass=train-forces"}
	want := trained(t, 100, append(base, "threads=1")...)
	for _, set := range []string{"threads=2", "threads=all", "graph=on", "recompute=all", "recompute=weights", "streams=1"} {
		if got := trained(t, 100, append(base, set)...); !slices.Equal(got, want) {
			t.Errorf("%s changes bits of the parameters after 100 steps", set)
		}
	}
}

// A scale of the loss that is a power of two changes no bit, nor do the places where the norm
// and the overflow are read, nor how gradients begin.
func TestForceSettingsThatChangeNoBit(t *testing.T) {
	base := []string{"batch=12", "mul=3", "deterministic=on", "pass=train-forces"}
	want := trained(t, 5, base...)
	for _, set := range []string{"scaler=static", "scaler=dynamic,found_inf=host", "clip_where=host", "zero=fill", "loss_read=step"} {
		if got := trained(t, 5, append(slices.Clone(base), strings.Split(set, ",")...)...); !slices.Equal(got, want) {
			t.Errorf("%s changes bits of the parameters", set)
		}
	}
}

// Training lowers the loss on a batch that it sees again.
func TestTrainingLowersTheLoss(t *testing.T) {
	for _, pass := range []string{passTrain, passSecond} {
		for _, way := range []string{"fused", "foreach", "loop"} {
			s := openSession(t, "small", "points=atoms", "batch=12", "pass="+pass, "lr=0.02", "optimizer="+way)
			run(t, s, 1)
			first := device.Floats(s.slots[0].out)[0]
			run(t, s, 200)
			if last := device.Floats(s.slots[1].out)[0]; !(last < first/2) {
				t.Errorf("pass=%s, %s: the loss went from %g to %g", pass, way, first, last)
			}
		}
	}
}

// The gradients of a whole step are those of the float64 reference, which starts from
// nothing but the batch, the parameters and the targets.
func TestForceGradientsOfTheWholeStep(t *testing.T) {
	for _, set := range []string{"points=grid", "points=atoms", "layout=mul_ir,impl=unfused", "recompute=all,basis=bessel", "impl=csr+mlp,accumulate=1"} {
		s := openSession(t, "small", append(strings.Split(set, ","), "batch=12", "mul=3", "pass=train-forces", "clip=1000000")...)
		run(t, s, 1)
		host := s.slots[0].host
		src, rowptr, vec := device.Ints(host.src), device.Ints(host.rowptr), op.As[float64](device.Floats(host.vec))
		first := int(device.Ints(host.colptr)[len(s.in.crystal.Positions)+1])
		x := op.As[float64](s.params.x[0])
		in := s.model.Layers[0].In.Dim()
		net := s.netOf(0, s.drawnParameters())
		row := func(r int) (row refRow) {
			for e := rowptr[r]; e < rowptr[r+1]; e++ {
				row.vec, row.x = append(row.vec, vec[3*e:3*e+3]), append(row.x, x[int(src[e])*in:][:in])
			}
			return row
		}
		v := make([]float64, 3*s.points()) // forces, then the loss's gradient by them
		for r := range s.rows {
			to := refSums{}
			if err := net.addRow(row(r), &to); err != nil {
				t.Fatal(err)
			}
			for k, f := range to.f {
				for i, d := range f {
					v[3*int(src[int(rowptr[r])+k])+i] -= d
					v[3*(first+r)+i] += d
				}
			}
		}
		loss := 0.0
		for i := range v {
			off := v[i] - float64(s.params.target[i])
			loss += off * off / 2 / float64(len(v))
			v[i] = off / float64(len(v))
		}
		if got := float64(device.Floats(s.slots[0].out)[0]); math.Abs(got/loss-1) > 1e-5 {
			t.Errorf("%s: the loss is %g, want %g", set, got, loss)
		}
		gx := make([]float64, len(x))
		g := &refGrads{w1: make([]float64, len(net.w1)), w2: make([]float64, len(net.w2)), mix: make([]float64, len(net.mix)), readout: make([]float64, len(net.factors))}
		for r := range s.rows {
			one := row(r)
			g.x = nil
			for e := rowptr[r]; e < rowptr[r+1]; e++ {
				at, u := int(src[e]), make([]float64, 3)
				for k := range u {
					u[k] = v[3*(first+r)+k] - v[3*at+k]
				}
				one.dir, g.x = append(one.dir, u), append(g.x, gx[at*in:][:in])
			}
			if err := net.addRow(one, &refSums{second: g}); err != nil {
				t.Fatal(err)
			}
		}
		stored := make([]float64, len(gx))
		for at := 0; at < len(gx); at += in {
			op.ToLayout(s.layout, s.model.Layers[0].In, stored[at:at+in], gx[at:at+in])
		}
		for i, want := range [][]float64{stored, g.w1, g.w2, g.mix, g.readout} {
			var e op.ErrorNorm
			e.Add(read(t, s, s.train.step.Grad(i), len(want)), want)
			if !(e.Relative() < 1e-5) { // 1e-4 is promised
				t.Errorf("%s: the gradient of %s is off by %.2g", set, s.train.step.Params()[i].Name, e.Relative())
			}
			t.Logf("%s: %s %.2g", set, s.train.step.Params()[i].Name, e.Relative())
		}
	}
}

// Every read by the host is one wait, and stages list every launch.
func TestForceTrainingIsCounted(t *testing.T) {
	for _, set := range []string{"accumulate=1", "accumulate=3,zero=fill,loss_read=step,clip_where=host", "recompute=weights", "recompute=all,layout=mul_ir", "impl=unfused", "impl=csr+mlp", "precision=bf16"} {
		s := openSession(t, "small", append(strings.Split(set, ","), "batch=12", "mul=3", "pass=train-forces")...)
		got, bound := s.dev.Memory().InUse, s.memoryNeed(int64(s.edges), int64(s.in.maxRow))
		if got > bound || bound > got+got/8 {
			t.Errorf("%s: %d bytes are in use, the bound is %d", set, got, bound)
		}
		run(t, s, 3)
		before, waits := s.dev.Meter(), int64(0)
		if strings.Contains(set, "host") {
			waits = 2
		}
		if err := s.Step(3, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
		m, parts := s.dev.Meter().Sub(before), int64(0)
		for _, st := range s.Stages() {
			parts += st.Cost().Launches
		}
		if m.SyncPoints != waits || m.Launches != parts {
			t.Errorf("%s: %d waits and %d launches, want %d and the %d of the stages", set, m.SyncPoints, m.Launches, waits, parts)
		}
	}
}

// Recomputing frees what it does not keep, to the byte.
func TestForceTrainingRecomputes(t *testing.T) {
	use, need := map[string]int64{}, map[string]int64{}
	for _, again := range []string{"off", "weights", "all"} {
		s := openSession(t, "deepaw", "batch=4", "mul=40", "edges=60", "pass=train-forces", "recompute="+again)
		use[again], need[again] = s.dev.Memory().InUse, s.memoryNeed(int64(s.edges), int64(s.in.maxRow))
	}
	for _, again := range []string{"weights", "all"} {
		if got, want := use["off"]-use[again], need["off"]-need[again]; got != want || got <= 0 {
			t.Errorf("recompute=%s frees %d bytes, %d by count", again, got, want)
		}
	}
}

// The work of the second way back, by the rule of the first: t terms, c cells and m copies of
// a path take 2t + 2cm for q, and 2 d1 m each for the gradients by weights and features.
func TestForceTrainingWork(t *testing.T) {
	s := openSession(t, "mace-large", "batch=4", "pass=train-forces")
	costs := map[string]gpuprof.Cost{}
	for _, st := range s.Stages() {
		costs[st.Name] = st.Minimum
	}
	l, edges := s.model.Layers[0], float64(s.in.meanEdges())
	var product, q float64
	for _, ins := range l.TP.Instructions {
		a, b, o := l.TP.In1[ins.In1], l.TP.In2[ins.In2], l.TP.Out[ins.Out]
		w, err := so3.Wigner3j(a.Ir.L, b.Ir.L, o.Ir.L)
		if err != nil {
			t.Fatal(err)
		}
		terms, cells := 0, map[[2]int]bool{}
		for at, v := range w {
			if v != 0 {
				terms++
				cells[[2]int{at / o.Ir.Dim() / b.Ir.Dim(), at % o.Ir.Dim()}] = true
			}
		}
		q += float64(2*terms + 2*len(cells)*a.Mul)
		product += float64(2 * a.Ir.Dim() * a.Mul)
	}
	k, h, n := float64(basisSize), float64(mlpHidden), float64(l.TP.WeightNumel())
	features := float64(len(s.in.crystal.Positions) * l.In.Dim()) // added twice, whatever the edges are
	for stage, want := range map[string]float64{
		"tensor_product_tangent": 2 * float64(costs["tensor_product"].Flops) / edges,
		"tensor_product_bwd2":    3*q + 5*product + 2*features/edges,
		"radial_tangent":         2*k*h + 2*h*n,
		"radial_bwd2":            2 * h * n,
	} {
		// The MLP's stages have their activations and factors besides, the sums the rows'.
		if got := float64(costs[stage].Flops) / edges; math.Abs(got/want-1) > .015 {
			t.Errorf("%s: %.0f flops an edge, want %.0f", stage, got, want)
		}
	}
	// Weights are read twice and their gradient is written, and read and written again; their change is read. So are the
	// features three times, and their gradient is written three times and read twice; the rows' gradients are read.
	rows := 3 * float64(s.rows*l.TP.Out.Dim())
	if got, want := float64(costs["tensor_product_bwd2"].Bytes()), 4*(6*n*edges+8*features+rows); got < want || got > 1.03*want {
		t.Errorf("tensor_product_bwd2 moves %.4g bytes, want %.4g and the index with the harmonics", got, want)
	}
}

// A loss on forces that is not finite ends the run by the first stage that made it so.
func TestForceLossThatIsNotFinite(t *testing.T) {
	for stage, spoil := range map[string]func(s *session) []float32{
		"radial":          func(s *session) []float32 { return s.params.w1[0] },
		"linear_gate":     func(s *session) []float32 { return s.params.mix[0] },
		"linear_gate_bwd": func(s *session) []float32 { return s.params.readout[0] },
		"force_loss":      func(s *session) []float32 { return nil },
	} {
		s := openSession(t, "small", "batch=12", "mul=3", "pass=train-forces")
		if v := spoil(s); v != nil {
			v[0] = float32(math.Inf(1)) // by what the optimizer starts from
		} else {
			device.Floats(s.train.targets[0])[0] = float32(math.Inf(1))
		}
		if err := s.restartParameters(); err != nil {
			t.Fatal(err)
		}
		var err error
		for i := 0; i < 9 && err == nil; i++ {
			err = s.Step(i, loop.Silent{})
		}
		if !errors.Is(err, gpuprof.ErrCheck) || !strings.Contains(err.Error(), "stage "+stage+";") {
			t.Errorf("stage %s: %v", stage, err)
		}
	}
}
