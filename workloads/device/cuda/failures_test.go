package cuda

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
)

// says checks an error's kind and words.
func says(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("%v is not of kind %v", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if n := strings.Count(err.Error(), "\n"); n > 0 {
		t.Errorf("%q is more than a sentence", err)
	}
}

// TestNoDriver opens a library that is no driver.
func TestNoDriver(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "libcuda.so.1")
	ok(t, os.WriteFile(text, []byte("not a library"), 0o644))
	for name, c := range map[string]struct {
		library string
		says    []string
	}{
		"absent by path": {filepath.Join(dir, "no.so"), []string{"no.so was not found", "install the NVIDIA driver"}},
		"absent by name": {"libnosuchcuda.so.7", []string{"libnosuchcuda.so.7 was not found", "install the NVIDIA driver"}},
		"no library":     {text, []string{text + " cannot be loaded", "reinstall"}},
		"no driver":      {"libc.so.6", []string{"libc.so.6 has no function cuInit", "CUDA 11.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, try := range []func() error{
				func() error { _, err := Probe(Options{Library: c.library}); return err },
				func() error { _, err := Open(Options{Library: c.library}); return err },
				func() error {
					_, err := FindDriver(Options{Library: c.library})
					if absent := strings.HasPrefix(name, "absent"); Absent(err) != absent {
						t.Errorf("absent is %t of %v", !absent, err)
					}
					return err
				},
			} {
				says(t, try(), gpuprof.ErrDevice, append(c.says, "opening a CUDA device")...)
			}
		})
	}
}

// TestOpenFailures is every way a driver refuses, and the advice for it.
func TestOpenFailures(t *testing.T) {
	t.Setenv("CUDA_VISIBLE_DEVICES", "7")
	for name, c := range map[string]struct {
		configuration string
		options       Options
		says          []string
	}{
		"no device":               {"devices=0", Options{}, []string{"CUDA_ERROR_NO_DEVICE", `CUDA_VISIBLE_DEVICES="7"`}},
		"invalid device":          {"init=101", Options{}, []string{"CUDA_ERROR_INVALID_DEVICE", "nvidia-smi -L"}},
		"not initialised":         {"init=3", Options{}, []string{"CUDA_ERROR_NOT_INITIALIZED", "kernel module is loaded"}},
		"stub":                    {"init=34", Options{}, []string{"CUDA_ERROR_STUB_LIBRARY", "LD_LIBRARY_PATH"}},
		"insufficient driver":     {"init=35", Options{}, []string{"CUDA error 35", "update the NVIDIA driver"}},
		"exclusive mode":          {"init=46", Options{}, []string{"CUDA_ERROR_DEVICE_UNAVAILABLE", "nvidia-smi -c DEFAULT"}},
		"operating system":        {"init=304", Options{}, []string{"CUDA_ERROR_OPERATING_SYSTEM", "/dev/nvidia-uvm"}},
		"not permitted":           {"init=800", Options{}, []string{"CUDA_ERROR_NOT_PERMITTED", "permissions of /dev/nvidia*"}},
		"fabric manager":          {"init=802", Options{}, []string{"CUDA_ERROR_SYSTEM_NOT_READY", "nvidia-fabricmanager"}},
		"library and module":      {"init=803", Options{}, []string{"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "reboot"}},
		"compatibility package":   {"init=804", Options{}, []string{"CUDA error 804", "cuda-compat"}},
		"MPS":                     {"init=807", Options{}, []string{"CUDA error 807", "nvidia-cuda-mps-control"}},
		"hardware":                {"init=214", Options{}, []string{"CUDA_ERROR_ECC_UNCORRECTABLE", "Xid"}},
		"unknown":                 {"init=999", Options{}, []string{"CUDA_ERROR_UNKNOWN", "nvidia-modprobe"}},
		"something else":          {"init=1", Options{}, []string{"CUDA_ERROR_INVALID_VALUE", "nvidia-smi works"}},
		"old driver":              {"driver=10020", Options{}, []string{"CUDA 10.2", "needs 11.0", "450"}},
		"index":                   {"devices=2", Options{Index: 2}, []string{"device 2", "0: gpuprof", "1: gpuprof", `CUDA_VISIBLE_DEVICES="7"`}},
		"negative index":          {"", Options{Index: -1}, []string{"device -1", "0: gpuprof"}},
		"UUID":                    {"", Options{UUID: "GPU-ffffffff"}, []string{"device GPU-ffffffff", "0: gpuprof"}},
		"MIG":                     {"", Options{UUID: "MIG-ffffffff"}, []string{"set CUDA_VISIBLE_DEVICES=MIG-ffffffff"}},
		"no context":              {"fail=cuDevicePrimaryCtxRetain@1:46", Options{}, []string{"context on GPU 0", "exclusive mode"}},
		"no memory for a context": {"fail=cuDevicePrimaryCtxRetain@1:2", Options{}, []string{"CUDA_ERROR_OUT_OF_MEMORY", "list the programs on the GPU"}},
		"no stream":               {"fail=cuStreamCreateWithPriority@1:999", Options{}, []string{"preparing GPU 0", "CUDA_ERROR_UNKNOWN"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.options
			o.Library, o.AllowSimulated = sim.Library(t), true
			sim.Configure(t, o.Library, c.configuration)
			d, err := Open(o)
			if err == nil {
				t.Fatalf("opened %v", d.Info())
			}
			says(t, err, gpuprof.ErrDevice, append(c.says, "opening ")...)
			sim.Check(t, o.Library)
		})
	}
}

func TestOldDriverLacksFunctions(t *testing.T) {
	lib := sim.LibraryWithout(t, "cuStreamBeginCapture_v2", "cuGraphInstantiateWithFlags", "cuGraphInstantiate_v2")
	sim.Configure(t, lib, "driver=10020")
	_, err := Open(Options{Library: lib, AllowSimulated: true})
	says(t, err, gpuprof.ErrDevice, "CUDA 10.2", "needs 11.0")
	sim.Configure(t, lib, "driver=12080")
	_, err = Open(Options{Library: lib, AllowSimulated: true})
	says(t, err, gpuprof.ErrDevice, "has no function cu", "update the driver")
}

// TestSimulatorRefused: an imitation is no device unless asked for, and says so.
func TestSimulatorRefused(t *testing.T) {
	lib := sim.Library(t)
	_, err := Open(Options{Library: lib})
	says(t, err, gpuprof.ErrDevice, "imitates", lib)
	_, err = Probe(Options{Library: lib})
	says(t, err, gpuprof.ErrDevice, "imitates", lib)
	if d, err := FindDriver(Options{Library: lib}); d.Path != lib || Absent(err) {
		t.Errorf("loaded %q, absent %t: %v", d.Path, Absent(err), err)
	}
	found, err := FindDriver(Options{Library: lib, AllowSimulated: true})
	ok(t, err)
	if found != (Driver{lib, "12.8"}) {
		t.Errorf("%+v", found)
	}
	d := openSim(t, Options{})
	if d.Info().Facts["simulated"] != "true" {
		t.Errorf("facts do not say it is simulated: %v", d.Info().Facts)
	}
}

func TestProbe(t *testing.T) {
	lib := sim.Library(t)
	sim.Configure(t, lib, "devices=2;name=Some GPU;cc=8.6;sms=13;memory=1G;driver=12040")
	list, err := Probe(Options{Library: lib, AllowSimulated: true})
	ok(t, err)
	if len(list) != 2 {
		t.Fatalf("%d devices", len(list))
	}
	for i, d := range list {
		want := DeviceInfo{Index: i, Name: d.Name, UUID: d.UUID, Arch: "sm_86", Cores: 13, Memory: 1 << 30, CUDA: "12.4", Simulated: true, handle: int32(i)}
		if d != want || !strings.HasPrefix(d.Name, "Some GPU") || !strings.HasPrefix(d.UUID, "GPU-") || len(d.UUID) != 40 {
			t.Errorf("device %d: %+v", i, d)
		}
	}
	if list[0].UUID == list[1].UUID {
		t.Error("two devices of one UUID")
	}
	for _, id := range []string{list[1].UUID, strings.ToUpper(list[1].UUID), list[1].UUID[4:]} {
		d, err := Open(Options{Library: lib, AllowSimulated: true, UUID: id})
		ok(t, err)
		if d.UUID() != list[1].UUID {
			t.Errorf("%s opened %s", id, d.UUID())
		}
		ok(t, d.Close())
	}
	_, err = Open(Options{Library: lib, AllowSimulated: true, UUID: "GPU-"})
	says(t, err, gpuprof.ErrDevice, "is the beginning of 0: Some GPU", "give more")
	sim.Check(t, lib)
}

// TestOneGPUThatDoesNotAnswer: the others are listed and open.
func TestOneGPUThatDoesNotAnswer(t *testing.T) {
	lib := sim.Library(t)
	o := Options{Library: lib, AllowSimulated: true}
	sim.Configure(t, lib, "devices=3;fail=cuDeviceTotalMem_v2@2:999")
	list, err := Probe(o)
	ok(t, err)
	if len(list) != 3 || list[0].Fault != nil || list[1].Fault == nil || list[2].Fault != nil {
		t.Fatalf("%v", list)
	}
	says(t, list[1].Fault, gpuprof.ErrDevice, "identifying GPU 1")
	for i, want := range []error{nil, gpuprof.ErrDevice, nil} {
		sim.Configure(t, lib, "devices=3;fail=cuDeviceTotalMem_v2@2:999")
		o.Index = i
		d, err := Open(o)
		if !errors.Is(err, want) {
			t.Errorf("GPU %d: %v", i, err)
		}
		if err == nil {
			ok(t, d.Close())
		}
	}
	sim.Configure(t, lib, "devices=1;fail=cuDeviceTotalMem_v2@1:999")
	_, err = Probe(o)
	says(t, err, gpuprof.ErrDevice, "identifying GPU 0")
}

func TestPickMIG(t *testing.T) {
	list := []DeviceInfo{{Index: 0, Name: "A100 MIG 1g.5gb", UUID: "MIG-01020304-0000-0000-0000-000000000000", MIG: true}}
	for _, id := range []string{"MIG-0102", "mig-01020304", "0102"} {
		if d, err := chooseDevice(list, Options{UUID: id}); err != nil || !d.MIG {
			t.Errorf("%s: %v, %v", id, d, err)
		}
	}
}

// TestMIGByUUID: where the two UUIDs differ, the device is an instance.
func TestMIGByUUID(t *testing.T) {
	drv := &driver{
		UUID:   func(u *[16]byte, _ int32) Result { u[0] = 1; return success },
		UUIDv2: func(u *[16]byte, _ int32) Result { u[0] = 2; return success },
	}
	if id, mig, r := drv.readUUID(0); !mig || r != success || id != "MIG-02000000-0000-0000-0000-000000000000" {
		t.Errorf("%s, %v, %d", id, mig, r)
	}
	drv.UUIDv2 = nil
	if id, mig, r := drv.readUUID(0); mig || r != success || id != "GPU-01000000-0000-0000-0000-000000000000" {
		t.Errorf("%s, %v, %d", id, mig, r)
	}
	// Zeros are no UUID: two machines would have the same GPU.
	drv.UUID = func(*[16]byte, int32) Result { return success }
	if id, mig, r := drv.readUUID(0); mig || r != success || id != "" {
		t.Errorf("%s, %v, %d", id, mig, r)
	}
}
