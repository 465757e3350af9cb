package rules_test

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// A collective that takes many times what its bytes need waits for another rank; a larger one does not.
func TestOutlyingCollectives(t *testing.T) {
	for _, c := range []struct {
		name     string
		told     bool
		last, ns int64 // elements of the last collective, and its time
		waits    bool
	}{
		{"of the same size", true, 1 << 20, 40_000 * us, true},
		{"of so many times the size", true, 64 << 20, 40_000 * us, false},
		{"of unknown size, by far", false, 0, 40_000 * us, true},
		{"of unknown size, as a larger one would be", false, 0, 20_000 * us, false},
		{"no longer than others", true, 1 << 20, 500 * us, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene()
			s.repeat(3, func() {
				s.products(1, 100*us)
				for k := range 6 {
					ns := 500 * us
					if k == 5 {
						ns = c.ns
					}
					s.in("c10d::allgather_", func() { s.kernelOn(7, "ncclDevKernel_AllGather_RING_LL", ns, 24) })
				}
				s.wait("cudaStreamSynchronize")
			})
			tr := s.end().trace()
			if c.told {
				for i := range tr.GPU {
					if g := &tr.GPU[i]; strings.HasPrefix(tr.Name(g.Name), "nccl") {
						m := model.Collective{Corr: g.Corr, Size: 8, In: 1 << 20, Out: 1 << 20}
						if g.Dur() == c.ns {
							m.In, m.Out = c.last, c.last
						}
						tr.Collectives = append(tr.Collectives, m)
					}
				}
			}
			a, _ := analyse(t, tr)
			f := mustFind(t, a, gpuprof.RuleExposedComm)
			waits := strings.Contains(f.Title, "are waiting for another rank")
			if waits != c.waits || waits && f.StepNS > 6*500*us || !waits && f.StepNS < 5*500*us+c.ns {
				t.Errorf("claims %d ns: %s", f.StepNS, f.Title)
			}
		})
	}
}

// Collectives of a program that does not train are not those of sharded training.
func TestCollectivesOfInference(t *testing.T) {
	s := newScene()
	s.repeat(3, func() {
		s.products(1, 100*us)
		s.in("vllm::all_gather", func() { s.kernelOn(7, "ncclDevKernel_AllGather_RING_LL", 900*us, 24) })
	})
	a, _ := analyse(t, s.end().trace())
	if f := mustFind(t, a, gpuprof.RuleExposedComm); strings.Contains(f.PyTorch, "FSDP") || !strings.Contains(f.PyTorch, "tensor or expert parallelism") {
		t.Errorf("%s", f.PyTorch)
	}
}

// Copies of two directions are named by neither.
func TestCopiesBothWays(t *testing.T) {
	for back, want := range map[int64]string{210: "copies, to the device and back,", 20: "copies, most of them to the device,"} {
		s := newScene()
		s.repeat(3, func() {
			s.products(2, 400*us)
			s.in("aten::copy_", func() { s.copy(7, model.H2D, model.Pinned, 1<<20, 200*us, false) })
			s.in("aten::copy_", func() { s.copy(7, model.D2H, model.Pinned, 1<<20, back*us, false) })
			s.products(2, 400*us)
		})
		a, _ := analyse(t, s.end().trace())
		if f := mustFind(t, a, gpuprof.RuleExposedCopy); !strings.HasPrefix(f.Title, want) {
			t.Errorf("%d us back: %s", back, f.Title)
		}
	}
}
