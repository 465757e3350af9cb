package guides

import (
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// The programs of the claims about copies do what they say at every setting:
// what arrives is compared, and counted at the device's border.
func TestCopyPrograms(t *testing.T) {
	for _, tt := range []struct {
		w                      workloads.Workload
		set                    gpuprof.Settings
		bytes, pageable, syncs int64
	}{
		{transfer{}, gpuprof.Settings{"bytes": "4096"}, 4096, 0, 0},
		{transfer{}, gpuprof.Settings{"bytes": "4096", "pinned": "off", "streams": "1"}, 4096, 4096, 0},
		{transfer{}, gpuprof.Settings{"bytes": "4096", "async_copy": "off"}, 4096, 0, 1},
		{weights{}, gpuprof.Settings{"tensors": "3", "bytes": "1024"}, 3072, 3072, 1},
		{weights{}, gpuprof.Settings{"tensors": "3", "bytes": "1024", "load": "direct"}, 3072, 3072, 1},
		{weights{}, gpuprof.Settings{"tensors": "3", "bytes": "1024", "load": "direct", "skip_keys": "on"}, 3072, 3072, 1},
	} {
		full, err := workloads.Resolve(tt.w, "small", tt.set)
		if err != nil {
			t.Fatal(err)
		}
		d, err := host.Open(host.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := tt.w.Open(t.Context(), d, workloads.Config{Preset: "small", Knobs: full})
		if err != nil {
			t.Fatal(err)
		}
		checks, err := s.Check(t.Context())
		if err != nil || len(checks) == 0 {
			t.Fatalf("%v: %v, %d checks", tt.set, err, len(checks))
		}
		for _, c := range checks {
			if !c.Pass {
				t.Errorf("%v: %+v", tt.set, c)
			}
		}
		before := d.Meter()
		if err := s.Step(4, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
		m := d.Meter().Sub(before)
		if m.BytesH2D != tt.bytes || m.BytesH2DPageable != tt.pageable || m.SyncPoints != tt.syncs {
			t.Errorf("%v: %+v", tt.set, m)
		}
		if err := s.Main().Sync(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if m := d.Memory(); m.InUse != 0 {
			t.Errorf("%v leaves %d bytes", tt.set, m.InUse)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A check that could not fail would check nothing.
func TestCopyProgramsNoticeWrongBytes(t *testing.T) {
	d, err := host.Open(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c := copies{dev: d}
	s, err := c.stream("main")
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.alloc(8, device.OnDevice)
	if err != nil {
		t.Fatal(err)
	}
	copy(b.Bytes(), "12345678")
	if got, err := c.checkBytes("h2d", s, b, []byte("12345679")); err != nil || got.Pass {
		t.Errorf("%+v, %v", got, err)
	}
}
