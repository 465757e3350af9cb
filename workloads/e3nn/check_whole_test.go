//go:build !race

// Under the race detector these sessions take ten times as long. TestChecksPass and TestTrainingPasses take whole steps there.

package e3nn

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// without takes a stage of a layer out of the plan.
func without(stage, layer int) func(*session) {
	return func(s *session) {
		s.plan = slices.DeleteFunc(s.plan, func(so stageOps) bool { return so.stage == stage && so.layer == layer })
	}
}

// twice has a stage of a layer run twice.
func twice(stage, layer int) func(*session) {
	return func(s *session) {
		i := slices.IndexFunc(s.plan, func(so stageOps) bool { return so.stage == stage && so.layer == layer })
		s.plan = slices.Insert(s.plan, i, s.plan[i])
	}
}

// cut keeps only some of a stage's operations, by how many from the front or (negative) all but
// so many of the end.
func cut(stage, layer, keep int) func(*session) {
	return func(s *session) {
		for i := range s.plan {
			so := &s.plan[i]
			for k, ops := range so.ops {
				if so.stage == stage && so.layer == layer {
					so.ops[k] = ops[:(keep+len(ops))%len(ops)]
				}
			}
		}
	}
}

// instead has a stage of a layer run what another layer's does.
func instead(stage, layer, other int) func(*session) {
	return func(s *session) {
		var from [depth][]*op.Bound
		for _, so := range s.plan {
			if so.stage == stage && so.layer == other {
				from = so.ops
			}
		}
		for i := range s.plan {
			if s.plan[i].stage == stage && s.plan[i].layer == layer {
				s.plan[i].ops = from
			}
		}
	}
}

// bound replaces a buffer that a stage's operations read or write.
func bound(t *testing.T, stage, layer int, from, to func(*session) device.Buffer) func(*session) {
	return func(s *session) {
		for i := range s.plan {
			so := &s.plan[i]
			if so.stage != stage || so.layer != layer {
				continue
			}
			for k := range so.ops {
				ops := slices.Clone(so.ops[k])
				for j, b := range ops {
					var err error
					if ops[j], err = b.Rebind(map[device.Buffer]device.Buffer{from(s): to(s)}); err != nil {
						t.Fatal(err)
					}
				}
				so.ops[k] = ops
			}
		}
	}
}

// Faults of wiring, each in the plan of a step: the whole step shows them, whatever the check
// of the stage itself finds.
func TestWholeStepCatches(t *testing.T) {
	small, three := []string{"small", "batch=12"}, []string{"deepaw", "batch=4", "mul=50", "edges=40"}
	for nth, tt := range []struct {
		name  string
		pass  string
		of    []string
		set   string
		spoil func(*session)
		alone bool // no other check fails, such as that of a stage which is missing
	}{
		{"no gate", passForward, small, "", cut(stLinearGate, 0, 1), false},
		{"no layer", passForward, three, "", func(s *session) {
			s.plan = slices.DeleteFunc(s.plan, func(so stageOps) bool { return so.layer == 1 })
		}, true},
		{"the first batch again", passForward, small, "", func(s *session) {
			in := *s.in
			in.edges = slices.Repeat(in.edges[:1], len(in.batches))
			in.batches = slices.Repeat(in.batches[:1], len(in.batches))
			s.batches.in = &in
		}, false},
		{"no harmonics", passForward, small, "", without(stSph, 0), false},
		{"no linear layer and gate", passForward, three, "", without(stLinearGate, 2), true},
		{"another layer's weights", passForward, three, "", instead(stRadial, 1, 2), false},
		{"features of a later layer", passForward, three, "", bound(t, stProduct, 1,
			func(s *session) device.Buffer { return s.layers[1].x },
			func(s *session) device.Buffer { return s.layers[2].x }), false},

		{"no product backwards", passForces, three, "", without(stProductBack, 1), false},
		{"no MLP backwards", passForces, three, "", without(stRadialBack, 2), false},
		{"a gradient added twice", passForces, three, "", twice(stProductBack, 1), false},
		{"no harmonics backwards", passForces, small, "", without(stSphBack, 0), false},
		{"no forces", passForces, small, "", without(stForces, 0), true},
		{"nothing made again", passForces, three, "recompute=all", without(stRecompute, 0), false},
		{"an energy without the last readout", passForces, three, "", func(s *session) {
			cutAt(s, stLoss, 2)
		}, false},

		{"no sums of weights' gradients", passTrain, small, "", without(stGrads, 0), true},
		{"no optimizer", passTrain, small, "", without(stOptimizer, 0), true},
		{"the optimizer twice", passTrain, small, "", twice(stOptimizer, 0), true},
		{"no clipping", passTrain, small, "clip=0.01", without(stClip, 0), true},
		{"gradients that are not zeroed", passTrain, small, "zero=fill", cut(stLoss, 0, -1), true},
		{"gradients added twice", passTrain, small, "zero=fill", twice(stGrads, 0), false},
		{"a gradient of another parameter", passTrain, three, "", bound(t, stGrads, 0,
			func(s *session) device.Buffer { return s.train.grads[0].w1 },
			func(s *session) device.Buffer { return s.train.grads[1].w1 }), false},
		{"no second micro-batch", passTrain, small, "accumulate=2", func(s *session) {
			s.plan = slices.DeleteFunc(s.plan, func(so stageOps) bool { return so.adds && so.stage == stGrads })
		}, true},
	} {
		if !nightly && nth%2 != 0 {
			continue // by day every other fault
		}
		t.Run(tt.pass+", "+tt.name, func(t *testing.T) {
			set := append(slices.Clone(tt.of), "pass="+tt.pass)
			if tt.set != "" {
				set = append(set, tt.set)
			}
			s := openSession(t, set[0], set[1:]...)
			tt.spoil(s)
			checks, err := s.Check(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			whole, others := false, []string(nil)
			for _, c := range checks {
				switch isWhole := strings.HasPrefix(c.Stage, gpuprof.WholeStep); {
				case !c.Pass && isWhole:
					whole = true
				case !c.Pass:
					others = append(others, c.Stage)
				}
			}
			if !whole {
				t.Errorf("no check of whole steps fails, of others %v", others)
			}
			if tt.alone != (len(others) == 0) {
				t.Errorf("alone %t, and others fail: %v", tt.alone, others)
			}
		})
	}
}

// cutAt takes operation at out of a stage.
func cutAt(s *session, stage, at int) {
	for i := range s.plan {
		for k, ops := range s.plan[i].ops {
			if s.plan[i].stage == stage {
				s.plan[i].ops[k] = slices.Delete(slices.Clone(ops), at, at+1)
			}
		}
	}
}

// With a large learning rate the second step has parameters whose rounding errors are large.
func TestLargeRatesPass(t *testing.T) {
	workloadtest.Passes(t, openSession(t, "small", "pass=train", "mul=3", "batch=3", "lr=10", "precision=fp16"))
}
