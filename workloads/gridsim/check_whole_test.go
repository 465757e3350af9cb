//go:build !race

// A planted fault can make two workers of a kernel use the same memory, which the detector would report. TestChecks has whole steps there.

package gridsim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// Faults of a step that are none of an operation's own arithmetic, each in the setting where it
// can be made. TestMutations has those of the list of operations.
func TestWholeStepCatches(t *testing.T) {
	rebound := func(s *session, from, to blockID) {
		for i := range s.ops {
			for k := range s.ops[i].Refs {
				if r := &s.ops[i].Refs[k]; r.Block == int(from) {
					r.Block = int(to)
				}
			}
			for k, id := range s.ops[i].in {
				if id == from {
					s.ops[i].in[k] = to
				}
			}
		}
	}
	before := func(c *op.Call) { c.Refs[0].Block = int(bState) } // its first array
	older := func(s *session) {                                  // every step starts from a copy of the first state
		b, err := s.memory.take(bRegion, s.shape.stateWords())
		err = errors.Join(err, s.send(b, drawState(s.shape, s.seed)))
		if err != nil {
			t.Fatal(err)
		}
		s.blocks[bBetween] = b
		rebound(s, bState, bBetween)
	}
	for _, tt := range []struct {
		name, set string
		spoil     func(s *session) // before the first step
	}{
		{"no activation", "impl=gemm", func(s *session) { s.ops = slices.Delete(s.ops, 2, 3) }},
		{"an older state", "roi=on,allocator=driver", older},
		{"an older state", "roi=on,allocator=pool,impl=gemm", older},
		{"an older state", "roi=on,allocator=driver,impl=split,law=diffuse", older},
		{"weights of another layout", "impl=gemm", func(s *session) {
			s.packed.w1, s.packed.w1T = s.packed.w1T, s.packed.w1
			s.bindLaw()
		}},
		{"exchanged biases", "impl=split,hidden=4", func(s *session) {
			s.packed.b1, s.packed.b2 = s.packed.b2, s.packed.b1
			s.bindLaw()
		}},
		{"no border", "impl=split,border=zero", func(s *session) {
			s.shape.zero = false
			s.bindLaw()
			s.shape.zero = true
		}},
		{"no border", "grid=48,border=zero,precision=bf16", func(s *session) {
			s.shape.zero = false
			s.bindLaw()
			s.shape.zero = true
		}},
		{"a frame of the state before", "live=every:3", func(s *session) { before(&s.view) }},
		{"a region of the state before", "roi=on", func(s *session) { before(&s.crop) }},
	} {
		t.Run(tt.name+" "+tt.set, func(t *testing.T) {
			s, err := newSession(openHost(t, host.Options{}), resolve(t, "small", tinyGrid(tt.set)...))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			tt.spoil(s)
			if err := s.startSession(context.Background()); err != nil {
				t.Fatal(err)
			}
			wholeFails(t, s)
		})
	}
}

func wholeFails(t *testing.T, s *session) {
	t.Helper()
	checks, err := s.Check(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	fails := func(c gpuprof.Check) bool { return strings.HasPrefix(c.Stage, gpuprof.WholeStep) && !c.Pass }
	if !slices.ContainsFunc(checks, fails) {
		t.Errorf("no check of whole steps fails: %+v", checks)
	}
}

// A frame that is due and was not made fails.
func TestMissingFrameFails(t *testing.T) {
	for _, set := range []string{"live=every:1", "live=every:1,pool_where=host"} {
		s := openSession(t, tinyGrid(set)...)
		c := newChecker(context.Background(), s)
		if err := c.spoilFrames(); err != nil {
			t.Fatal(err)
		}
		s.slots[0].pending = false
		c.checkShownFrame(&evolution{ref: c.ref, first: c.first}, &s.slots[0], c.wholeSample())
		if len(c.wholes) != 1 || c.wholes[0].Pass {
			t.Errorf("%s: without a frame its check is %+v", set, c.wholes)
		}
	}
}

// A graph of other buffers than those that the state is in is seen, whichever it is.
func TestEveryGraphIsChecked(t *testing.T) {
	for k := range 2 * (3 + 2) {
		s := openSession(t, tinyGrid("graph=on,history=3,live=every:2")...)
		key := loop.GraphKey{Turn: k / 2, Optional: k%2 > 0}
		next := loop.GraphKey{Turn: (key.Turn + 1) % (3 + 2), Optional: key.Optional}
		s.graphs.Of[key] = s.graphs.Of[next]
		checks, err := s.Check(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		fails := func(c gpuprof.Check) bool { return c.Stage == "graph" && !c.Pass }
		if !slices.ContainsFunc(checks, fails) {
			t.Errorf("graph %d is another's, and the check passes: %+v", k, checks)
		}
	}
}

// The earlier states that are kept equal the states of earlier steps, on the device and on the host.
func TestEarlierStatesAreChecked(t *testing.T) {
	for _, set := range []string{"history=2", "history=1", "history=2,keep=host"} {
		s := openSession(t, tinyGrid(set)...)
		c := newChecker(context.Background(), s)
		if c.checkWhole(); c.Err != nil {
			t.Fatal(c.Err)
		}
		if s.spill {
			clear(device.Floats(s.kept[1%len(s.kept)]))
		} else if err := s.send(s.past[0], make([]float32, s.shape.stateWords())); err != nil {
			t.Fatal(err)
		}
		c.wholes = nil
		if c.checkStates(&evolution{ref: c.ref, first: c.first}, c.wholeSample()); c.Err != nil {
			t.Fatal(c.Err)
		}
		if c.wholes[0].Pass {
			t.Errorf("%s: the state before is zero, and the check passes", set)
		}
	}
}
