package rules_test

import (
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// What a wait costs is what the same program saves without it: a claim lies
// between that and 1.35 times that, whether the host or the device sets the
// pace, and wherever the device starves after the wait. A claim about the host
// leaves out what is not starved: the launches that the device waits for, the
// copies that go with a wait, and what lies between two steps.
func TestClaimsAgainstTheProgramWithout(t *testing.T) {
	const steps = 12
	layers := func(kernel, work int64, wait func(*scene)) func(*scene, bool) {
		return func(s *scene, planted bool) {
			for range 8 {
				s.op("aten::mm", bf16gemm, kernel)
				s.work(work / 4) // beside the kernel
				if planted {
					wait(s)
				}
				s.work(work)
			}
		}
	}
	synchronise := func(s *scene) { s.wait("cudaDeviceSynchronize") }
	for name, c := range map[string]struct {
		rule     string
		launches int64 // a step, that find the device waiting
		copies   int64 // ns each
		body     func(s *scene, planted bool)
	}{
		"synchronised, the device sets the pace": {"explicit-sync", 8, 0, layers(400*us, 100*us, synchronise)},
		"synchronised, the host sets the pace":   {"explicit-sync", 8, 0, layers(100*us, 150*us, synchronise)},
		"read back, the device sets the pace":    {"item", 8, 2 * us, layers(400*us, 100*us, (*scene).item)},
		"read back, the host sets the pace":      {"item", 8, 2 * us, layers(100*us, 150*us, (*scene).item)},
		"copied back": {"hidden-sync", 8, 4 * us, layers(400*us, 100*us, func(s *scene) {
			s.in("aten::copy_", func() {
				s.copy(7, model.D2H, model.Pageable, 4096, 4*us, true)
				s.wait("cudaStreamSynchronize")
			})
		})},
		// The device starves kernel by kernel until the host has caught up.
		"short kernels after the wait": {"explicit-sync", 10, 0, func(s *scene, planted bool) {
			if planted {
				synchronise(s)
			}
			for range 10 {
				s.op("aten::add", addKernel, 4*us)
				s.work(20 * us)
			}
			s.products(2, 500*us)
		}},
		"memory given back": {"allocator-churn", 1, 0, func(s *scene, planted bool) {
			s.products(2, 500*us)
			if planted {
				s.wait("cudaFree")
				s.in("aten::empty", func() { s.call("cudaMalloc", 90*us) })
			}
			s.work(150 * us)
			s.products(2, 500*us)
		}},
		"pageable copies": {"pageable-h2d", 1, 0, func(s *scene, planted bool) {
			memory, ns := model.Pinned, int64(1<<20/8)
			if planted {
				memory, ns = model.Pageable, 1<<20/2
			}
			s.in("aten::copy_", func() { s.copy(7, model.H2D, memory, 1<<20, ns, planted) })
			s.in("aten::copy_", func() { s.copy(7, model.H2D, model.Pinned, 64<<10, 8192, false) })
			s.work(200 * us)
			s.products(2, 1000*us)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			length := func(planted bool) (int64, *analyze.Analysis) {
				a, x := analyse(t, act(steps, func(s *scene) { c.body(s, planted) }).trace())
				checkBounds(t, a, x)
				return x.Devices[0].Window.Len() / steps, a
			}
			with, a := length(true)
			without, clean := length(false)
			f, saved := mustFind(t, a, c.rule), with-without
			if least := saved - c.launches*(callTime+latency+c.copies) - 2*us; f.StepNS < least || f.StepNS*100 > saved*135 {
				t.Errorf("claims %d ns a step, the program without it saves %d: %.2f", f.StepNS, saved, float64(f.StepNS)/float64(saved))
			}
			if f := find(clean, c.rule); f != nil {
				t.Errorf("fires in the program without: %s", f.Title)
			}
		})
	}
}

// A wait that stays takes the lead away that another would have left.
func TestLeadEndsAtAWaitThatStays(t *testing.T) {
	a, _ := analyse(t, act(4, func(s *scene) {
		s.products(1, 900*us)
		s.wait("cudaDeviceSynchronize")
		s.work(50 * us)
		s.products(1, 20*us)
		s.item()
		s.work(300 * us)
		s.products(1, 20*us)
	}).trace())
	if f := mustFind(t, a, "explicit-sync"); f.StepNS > 100*us {
		t.Errorf("a wait of 900 us claims %d ns, of which 300 us lie behind a read", f.StepNS)
	}
}

// A thread that waits while another launches keeps nothing from the device.
func TestWaitBesideLaunches(t *testing.T) {
	a, _ := analyse(t, act(4, func(s *scene) {
		begun := s.now
		for range 20 {
			s.op("aten::add", addKernel, 5*us)
			s.work(50 * us)
		}
		s.add(sceneEvent{kind: model.API, name: "cudaEventSynchronize", start: begun, end: s.now - 40*us, thread: otherTID})
	}).trace())
	if f := mustFind(t, a, "explicit-sync"); f.StepNS > 60*us {
		t.Errorf("a thread that waits beside the one that launches claims %d ns of %d", f.StepNS, 20*50*us)
	}
}
