//go:build !race

// A planted fault can make two workers of a kernel use the same memory, which the detector would report. TestChecksPass has whole steps there.

package gruflow

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// eachSlot changes the groups of both slots, and the lives of their blocks with them.
func eachSlot(change func(groups []group) []group) func(*session) {
	return func(s *session) {
		for k := range s.slots {
			s.slots[k].groups = change(slices.Clone(s.slots[k].groups))
			for i := range s.slots[k].groups {
				s.slots[k].groups[i].take, s.slots[k].groups[i].give = nil, nil
			}
			deriveLives(s.slots[k].groups)
		}
	}
}

// without takes the groups of a stage and layer out of a step.
func without(stage, layer int) func(*session) {
	return eachSlot(func(groups []group) []group {
		return slices.DeleteFunc(groups, func(g group) bool { return g.stage == stage && g.layer == layer })
	})
}

// twice has the last group of a stage run twice.
func twice(stage int) func(*session) {
	return eachSlot(func(groups []group) []group {
		for i := len(groups) - 1; ; i-- {
			if groups[i].stage == stage {
				return slices.Insert(groups, i, groups[i])
			}
		}
	})
}

// launchless takes one launch out of a list of every group of a stage.
func launchless(stage int, list func(*group) *[]op.Call, at int) func(*session) {
	return eachSlot(func(groups []group) []group {
		for i := range groups {
			if l := list(&groups[i]); groups[i].stage == stage && len(*l) > 0 {
				at := (at + len(*l)) % len(*l)
				*l = slices.Delete(slices.Clone(*l), at, at+1)
			}
		}
		return groups
	})
}

func once(g *group) *[]op.Call { return &g.once }
func each(g *group) *[]op.Call { return &g.each }

// lossy drops copies to a buffer.
type lossy struct {
	device.Stream
	to device.Buffer
}

func (l lossy) Copy(dst device.Buffer, dstAt int, src device.Buffer, srcAt, n int) error {
	if dst == l.to {
		return nil
	}
	return l.Stream.Copy(dst, dstAt, src, srcAt, n)
}

// Faults of wiring, each in the groups of a step: the whole step shows them, whatever the check
// of the stage itself finds.
func TestWholeStepCatches(t *testing.T) {
	for _, tt := range []struct {
		name, set string
		spoil     func(*session)
	}{
		{"no activation of a gate", "impl=plain,flows=30", launchless(stGRU, each, 3)},
		{"no second layer", "layers=3,flows=30", without(stGRU, 1)},
		{"layers in another order", "layers=3,flows=30", eachSlot(func(groups []group) []group {
			groups[1], groups[2] = groups[2], groups[1]
			return groups
		})},
		{"no energies in the input", "flows=30", eachSlot(func(groups []group) []group {
			groups[0].once = groups[0].once[1:]
			return groups
		})},
		{"carriers moved twice", "flows=30", twice(stFlow)},
		{"carriers not moved", "flows=30", without(stFlow, 0)},
		{"no metrics", "flows=30", without(stMetrics, 0)},
		{"metrics that are not zeroed", "flows=30,deterministic=off", launchless(stMetrics, once, 0)},
		{"metrics that are not copied to the host", "flows=30", func(s *session) {
			s.program.stream = lossy{s.program.stream, s.slots[1].metrics}
		}},
		{"the input of the step before", "flows=30", func(s *session) { s.slots[1].groups = s.slots[0].groups }},

		{"no gradients of a layer", "pass=train,window=3", without(stGrads, 1)},
		{"no gradients of the projection", "pass=train,window=3", without(stGrads, 2)},
		{"no optimizer", "pass=train,window=3", without(stOptimizer, 0)},
		{"the optimizer twice", "pass=train,window=3", twice(stOptimizer)},
		{"no clipping", "pass=train,window=3,clip=0.001", without(stClip, 0)},
		{"a gradient added twice", "pass=train,window=3", twice(stGrads)},
		{"gradients that are not zeroed", "pass=train,window=3,zero=fill", func(s *session) {
			zeros := len(s.train.step.Zeros())
			eachSlot(func(groups []group) []group {
				for i := range groups {
					if a := &groups[i].after; groups[i].stage == stLoss {
						*a = (*a)[:len(*a)-zeros]
					}
				}
				return groups
			})(s)
		}},
		{"cotangents that are not zeroed", "pass=train,window=3", launchless(stLoss, once, 1)},
		{"no way back of carriers", "pass=train,window=3", without(stFlowBack, 0)},
		{"weights of the step before", "pass=train,window=3", func(s *session) {
			for i := range 2 {
				if err := s.Step(i, loop.Silent{}); err != nil {
					t.Fatal(err)
				}
			}
			without(stWeights, 0)(s)
		}},
		{"nothing made again", "pass=train,window=4,checkpoint=2", without(stRecompute, 0)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set := strings.Split(tt.set, ",")
			if strings.Contains(tt.set, "pass=train") {
				set = append(slices.Clone(lessonSize), set...)
			}
			s := openSession(t, "small", set...)
			tt.spoil(s)
			checks, err := s.Check(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			fails := func(c gpuprof.Check) bool { return strings.HasPrefix(c.Stage, gpuprof.WholeStep) && !c.Pass }
			if !slices.ContainsFunc(checks, fails) {
				t.Errorf("no check of whole steps fails: %+v", checks)
			}
		})
	}
}

// With a large learning rate the second step has parameters whose rounding errors are large.
func TestLargeRatesPass(t *testing.T) {
	workloadtest.Passes(t, openSession(t, "small", "pass=train", "flows=8", "input=9", "depth=5", "lr=10", "precision=fp16", "scaler=static"))
}
