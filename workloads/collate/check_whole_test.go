package collate

import (
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// late drops what a stream is asked to do from the time on that it is told to.
type late struct {
	device.Stream
	copies, launches int // that are still done; below 0: all
}

func (l *late) Copy(dst device.Buffer, dstAt int, src device.Buffer, srcAt, n int) error {
	if l.copies == 0 && dst.Place() == device.OnDevice {
		return nil
	}
	l.copies--
	return l.Stream.Copy(dst, dstAt, src, srcAt, n)
}

func (l *late) Launch(fn device.Func, n int, a *device.Args) error {
	if l.launches == 0 {
		return nil
	}
	l.launches--
	return l.Stream.Launch(fn, n, a)
}

// The check of whole steps shows faults that only steps after the first of a lane have, and
// arguments that are bound to the other lane or the other list of edges.
func TestWholeStepCatches(t *testing.T) {
	all := depth * int(fieldCount)
	for _, tt := range []struct {
		name  string
		spoil func(s *session)
	}{
		{"batches that are not copied again", func(s *session) { s.Copies = &late{s.Copies, all, -1} }},
		{"one array that is not copied again", func(s *session) { s.Copies = &late{s.Copies, 2*all - 1, -1} }},
		{"results that are not computed again", func(s *session) {
			s.Compute = &late{s.Compute, -1, 2*depth + 1 + poisons}
			s.Results = s.Compute
		}},
		{"the other lane's batch", func(s *session) { s.lanes[0].args[1].SetBuf(1, s.lanes[1].dev) }}, // all atoms are alike
		{"the atoms' vectors for the probes", func(s *session) { s.lanes[1].args[1].SetInt(4, s.lanes[1].args[0].Int(4)) }},
		{"another seed", func(s *session) { // workers draw by another recipe than the reference
			r := *s.r
			r.Seed++
			s.r = &r
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openSession(t, "small", "batch=6", "probes=12", "workers=0", "streams=2")
			tt.spoil(s)
			checks, err := s.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(checks, func(c gpuprof.Check) bool { return c.Stage == gpuprof.WholeStep && !c.Pass }) {
				t.Errorf("the check of whole steps passes: %+v", checks)
			}
		})
	}
}

// poisons are the launches with which a check fills the memory of a lane before its stages.
const poisons = 2 * depth

// A batch that writes no padding must not find it in poisoned memory.
func TestPoisonIsNoPadding(t *testing.T) {
	mem := make([]byte, 8)
	poison(mem)
	for _, f := range fields {
		if v := intsOf(mem)[1]; v == f.pad {
			t.Errorf("%s: poisoned memory holds the padding %d", f.name, v)
		}
	}
	if v := floatsOf(mem)[1]; v == v {
		t.Errorf("a poisoned coordinate is the number %g", v)
	}
}
