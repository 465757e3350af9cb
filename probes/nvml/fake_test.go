package nvml

import (
	"errors"
	"maps"
	"sync"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// fakeGPU is a GPU of given numbers; what is not among them is not supported.
type fakeGPU struct {
	id, title, bus string
	mu             sync.Mutex
	numbers        map[quantity]float64
	raw            map[uint32]float64 // fields
	fail           map[quantity]error
	fieldErr       error
	partsErr       error
	identityErr    error // of name, UUID and address
	list           []Process
	listErr        error
	parts          []gpu
	gi, ci         int
	cpus           []uint
	asked          map[quantity]int
}

func (g *fakeGPU) name() (string, error) { return g.title, g.identityErr }
func (g *fakeGPU) uuid() (string, error) { return g.id, g.identityErr }
func (g *fakeGPU) pci() (string, error)  { return g.bus, g.identityErr }

func (g *fakeGPU) readNumber(q quantity) (float64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asked == nil {
		g.asked = map[quantity]int{}
	}
	g.asked[q]++
	if err := g.fail[q]; err != nil {
		return 0, err
	}
	v, ok := g.numbers[q]
	if !ok {
		return 0, errUnsupported
	}
	if q == energy {
		g.numbers[q] += 5 // the counter moves
	}
	return v, nil
}

func (g *fakeGPU) readFields(f []field) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range f {
		f[i].value, f[i].ok, f[i].err = g.raw[f[i].id], false, g.fieldErr
		if _, told := g.raw[f[i].id]; g.fieldErr == nil && !told {
			f[i].err = errUnsupported
		}
		f[i].ok = f[i].err == nil
	}
}

func (g *fakeGPU) setField(id uint32, v float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.raw[id] = v
}

func (g *fakeGPU) setFail(q quantity, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fail = maps.Clone(g.fail)
	if g.fail == nil {
		g.fail = map[quantity]error{}
	}
	g.fail[q] = err
}

func (g *fakeGPU) listProcesses() ([]Process, error) {
	return append([]Process(nil), g.list...), g.listErr
}
func (g *fakeGPU) listInstances() ([]gpu, error)        { return g.parts, g.partsErr }
func (g *fakeGPU) instanceIDs() (gi, ci int, err error) { return g.gi, g.ci, nil }
func (g *fakeGPU) nearCPUs(int) ([]uint, error) {
	if g.cpus == nil {
		return nil, errUnsupported
	}
	return g.cpus, nil
}

type fakeSystem struct {
	gpus     []gpu
	counting error
	lost     map[int]error
	stops    int
}

func (s *fakeSystem) driverVersion() (string, error) { return "550.54.15", nil }
func (s *fakeSystem) cudaVersion() (string, error)   { return "12.4", nil }
func (s *fakeSystem) deviceCount() (int, error)      { return len(s.gpus), s.counting }
func (s *fakeSystem) openGPU(i int) (gpu, error)     { return s.gpus[i], s.lost[i] }
func (s *fakeSystem) shutdown() error                { s.stops++; return nil }

// healthy is a GPU about which there is nothing to say.
func healthy(id string) *fakeGPU {
	return &fakeGPU{
		id: "GPU-" + id, title: "NVIDIA Test", bus: "00000000:17:00.0",
		numbers: map[quantity]float64{
			smClock: 345e6, smClockMax: 1980e6, memoryClock: 2619e6, memoryClockMax: 2619e6,
			appSMClock: 1980e6, defaultSMClock: 1980e6, appMemoryClock: 2619e6, defaultMemoryClock: 2619e6,
			powerUsage: 71, powerLimit: 700, powerDefault: 700, powerEnforced: 700, temperature: 31,
			utilisation: 0.25, memoryActivity: 0.125, memoryUsed: 1 << 30, memoryTotal: 80 << 30,
			bar1Used: 1 << 20, bar1Total: 128 << 30, pcieGen: 1, pcieGenMax: 5, pcieWidth: 16, pcieWidthMax: 16,
			pcieRX: 3e6, pcieTX: 4e6, eventReasons: 1, energy: 1000, persistence: 1, eccMode: 1, eccPending: 1,
			eccUncorrected: 0, remapPending: 0, remapFailed: 0, remappedRows: 0, computeMode: 0, migMode: 0,
		},
		raw:  map[uint32]float64{fieldPowerInstant: 72500, fieldPower: 1e9, fieldSyncBoost: 0, fieldSWThermal: 3e9, fieldHWThermal: 0, fieldHWPowerBrake: 0, fieldThermal: 3e9, fieldRecovery: 0},
		cpus: []uint{0b1010},
	}
}

// sliced is a GPU in MIG mode with two instances.
func sliced(id string) *fakeGPU {
	g := healthy(id)
	g.numbers[migMode] = 1
	for i, p := range []string{"1g.10gb", "3g.40gb"} {
		g.parts = append(g.parts, &fakeGPU{
			id: "MIG-" + string('a'+rune(i)) + "bcd0000-0000-0000-0000-00000000000" + string('0'+rune(i)), title: "NVIDIA Test MIG " + p,
			numbers: map[quantity]float64{memoryUsed: float64(i+1) * 1e9, memoryTotal: 10 << 30}, gi: i + 7, ci: 0,
		})
	}
	return g
}

func library(t *testing.T, gpus ...gpu) *Library {
	t.Helper()
	l, err := openLibrary(&fakeSystem{gpus: gpus})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func choose(t *testing.T, l *Library, name string) *Device {
	t.Helper()
	d, err := l.Device(name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// isDevice wants an error of kind ErrDevice.
func isDevice(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, gpuprof.ErrDevice) {
		t.Errorf("error %v is not an ErrDevice", err)
	}
}
