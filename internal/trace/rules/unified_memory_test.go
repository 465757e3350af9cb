package rules_test

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// sceneUnified is a program whose driver moves pages for some time of each step, 100 us of it beside a kernel.
func sceneUnified(ns int64) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			s.kernel(sgemm, 600*us)
			if ns > 0 {
				end := s.free[7]
				s.add(sceneEvent{kind: model.Memcpy, name: "Memcpy HtoD (unified memory)", start: end - 100*us, end: end - 100*us + ns, stream: -1,
					bytes: 1 << 20, dir: model.H2D, memory: model.Migrated})
				s.work(1200 * us)
			}
			s.wait("cudaStreamSynchronize")
		}).end()
	}
}

// The bytes, the time beside kernels and the faults; no rule about other copies speaks of migrations.
func TestUnifiedMemory(t *testing.T) {
	in := sceneUnified(500 * us)().trace()
	in.Faults = model.PageFaults{Device: 70, Host: 3}
	a, _ := analyse(t, in)
	f := mustFind(t, a, gpuprof.RuleUnifiedMemory)
	evidence(t, f, map[string]any{"migrations": 2, "migration_ns": 1000 * us, "h2d_bytes": int64(2 << 20), "d2h_bytes": int64(0),
		"beside_kernels_ns": 200 * us, "alone_ns": 800 * us, "recording_device_faults": int64(70), "recording_host_faults": int64(3)})
	for _, rule := range []string{gpuprof.RuleExposedCopy, gpuprof.RulePageableH2D, gpuprof.RuleBlockingCopy} {
		if f := find(a, rule); f != nil {
			t.Errorf("%s: %s", rule, f.Title)
		}
	}
	if _, ok := a.Copies["h2d_unified"]; !ok {
		t.Errorf("copies are %v", a.Copies)
	}
}

// Pages that the host touches move back without a launch: the recording lacks nothing, and the wait before each move is
// no wait for a launch.
func TestMigrationsLackNoLaunch(t *testing.T) {
	s := newScene()
	s.repeat(3, func() {
		s.kernel(sgemm, 200*us)
		s.wait("cudaStreamSynchronize")
		for range 8 {
			s.work(100 * us)
			s.add(sceneEvent{kind: model.Memcpy, name: "Memcpy DtoH (unified memory)", start: s.now, end: s.now + 20*us, stream: -1,
				bytes: 1 << 16, dir: model.D2H, memory: model.Migrated})
			s.work(20 * us)
		}
	}).end()
	a, _ := analyse(t, s.trace())
	mustFind(t, a, gpuprof.RuleUnifiedMemory)
	if f := find(a, gpuprof.RuleTraceQuality); f != nil {
		t.Errorf("trace-quality: %s", f.Title)
	}
	if f := find(a, gpuprof.RuleHostBound); f != nil && f.Evidence["unknown_ns"] != nil {
		t.Errorf("host-bound: %s", f.Title)
	}
}

// Pages that move to the host alone are read there: a prefetch before kernels would change nothing.
func TestUnifiedMemoryReadByTheHost(t *testing.T) {
	for toDevice, want := range map[int64]string{0: "cudaMemPrefetchAsync to cudaCpuDeviceId before the host reads", 1 << 20: "cudaMemPrefetchAsync of what a kernel reads"} {
		s := newScene()
		s.native = true
		s.repeat(3, func() {
			s.kernel("add(int, float *, float *)", 600*us)
			end := s.free[7]
			migrate := func(dir model.Direction, start, bytes int64) {
				s.add(sceneEvent{kind: model.Memcpy, name: "Memcpy (unified memory)", start: start, end: start + 300*us, stream: -1, bytes: bytes, dir: dir, memory: model.Migrated})
			}
			migrate(model.D2H, end+10*us, 2<<20)
			if toDevice > 0 {
				migrate(model.H2D, end+400*us, toDevice)
			}
			s.work(1200 * us)
			s.wait("cudaStreamSynchronize")
		})
		a, _ := analyse(t, s.end().trace())
		if f := mustFind(t, a, gpuprof.RuleUnifiedMemory); !strings.Contains(f.PyTorch, want) {
			t.Errorf("%d bytes to the device: %q", toDevice, f.PyTorch)
		}
	}
}
