package gruflow

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

var tapeSize = []string{"tape=saved", "flows=21", "input=5", "hidden=9", "depth=7"}

// A forward pass that keeps its way down passes its checks whatever the settings.
func TestTapePasses(t *testing.T) {
	for _, set := range []string{
		"windows_kept=1", "windows_kept=3", "steps=3,windows_kept=2", "graph=on", "precision=tf32", "precision=bf16,windows_kept=2,layers=3", "precision=fp16,steps=2",
		"fill=on,deterministic=off,depth=1", "autotune=on,pool_trim=every:1",
	} {
		t.Run(set, func(t *testing.T) {
			s := openSession(t, "small", append(slices.Clone(tapeSize), strings.Split(set, ",")...)...)
			run(t, s, 3)
			workloadtest.PassesWhole(t, s)
		})
	}
}

// A record that is not what the step computed fails the check.
func TestTapeChecksCatch(t *testing.T) {
	s := openSession(t, "small", tapeSize...)
	s.dropLaunch("gru_keep")
	workloadtest.Fails(t, s, "gru")
}

// What a window recorded stays bit for bit until as many windows as are kept have passed, and
// then goes: of every micro-batch in its turn.
func TestRecordsOutliveTheirStep(t *testing.T) {
	for _, tt := range []struct {
		set         string
		kept, steps int // a step's windows are what is kept over steps
	}{
		{"pass=train,tape=off,window=2,windows_kept=3", 3, 3}, {"pass=train,tape=off,window=2,accumulate=3,windows_kept=6", 6, 2},
		{"pass=train,tape=off,window=4,checkpoint=2,windows_kept=3", 3, 3}, {"windows_kept=4", 4, 4}, {"windows_kept=2,precision=bf16", 2, 2},
	} {
		s := openSession(t, "small", append(slices.Clone(tapeSize), strings.Split(tt.set, ",")...)...)
		first := s.rec.recordRequests()[0]
		ring := s.Rings[*first.to]
		if len(ring) != tt.kept {
			t.Fatalf("%s: %d windows have room", tt.set, len(ring))
		}
		words := func(b device.Buffer) []float32 { return contents(t, s, b) }
		step := func(i int) {
			if err := s.Step(i, loop.Silent{}); err != nil {
				t.Fatal(err)
			}
			if err := s.stream.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		step(0)
		was := words(ring[0])
		var seen [][]float32
		for i := 1; i < tt.steps; i++ {
			step(i)
			if !slices.Equal(words(ring[0]), was) {
				t.Errorf("%s: step %d wrote over what step 0 recorded", tt.set, i)
			}
		}
		for _, b := range ring {
			v := words(b)
			if slices.ContainsFunc(seen, func(o []float32) bool { return slices.Equal(o, v) }) {
				t.Errorf("%s: two windows have the same record", tt.set)
			}
			seen = append(seen, v)
		}
		step(tt.steps)
		if slices.Equal(words(ring[0]), was) {
			t.Errorf("%s: the record of step 0 is still there", tt.set)
		}
	}
}

// memoryIsCounted compares the bytes that a session of preset small holds on the host with those counted before.
func memoryIsCounted(t *testing.T, s *session, set ...string) {
	t.Helper()
	d := s.mem.Dev
	want, err := countMemory(t.Context(), d, resolve(t, "small", set...))
	got := d.Memory().InUse + d.(interface{ HostMemory() device.Memory }).HostMemory().InUse
	if err != nil || got != want {
		t.Errorf("%v: %d bytes are in use, %d were counted, %v", set, got, want, err)
	}
}

// Without a way back a session allocates what was counted before, to the byte: over a step
// that keeps nothing the record, 5 x 4LBH bytes a level and the state before it, and the
// carriers' paths.
func TestTapeMemoryIsCounted(t *testing.T) {
	size := []string{"flows=20", "hidden=8", "input=5", "depth=7", "steps=2"}
	use := func(set ...string) int64 {
		set = append(slices.Clone(size), set...)
		s := openSession(t, "small", set...)
		memoryIsCounted(t, s, set...)
		if s.rec != nil {
			all, window := s.rec.bytes()
			in := s.Input()
			if in[gpuprof.InputRecorded] != all || in[gpuprof.InputRecordedWindow] != window || all != int64(s.rec.windows())*window {
				t.Errorf("%v: the run says %v", set, in)
			}
		}
		return s.mem.Dev.Memory().InUse - s.memory.Stats().Reserved
	}
	const lbh, path = 2 * 20 * 8, 20 * pathWords
	plain := use("tape=off")
	for kept, set := range map[int64]string{1: "windows_kept=1", 5: "windows_kept=5"} {
		if got, want := use("tape=saved", set)-plain, 4*(kept*(5*2+1)*lbh+path); got != want {
			t.Errorf("%s: %d bytes more, want %d", set, got, want)
		}
	}
}

// A record that does not fit is refused with the setting that keeps less of it.
func TestRecordsRefuseMemory(t *testing.T) {
	d := openHost(t, host.Options{MemoryLimit: 1 << 30})
	workloadtest.Refused(t, d, gpuprof.ErrMemory, []string{"keeping 64 windows", "windows_kept=1", "checkpoint=", "flows"}, func() error {
		_, err := open(t.Context(), d, resolve(t, "small", "pass=train", "windows_kept=64"))
		return err
	})
}
