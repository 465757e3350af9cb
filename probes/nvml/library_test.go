package nvml

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
)

func TestSelect(t *testing.T) {
	a, b := healthy("1111aaaa-0000-0000-0000-000000000000"), sliced("1111bbbb-0000-0000-0000-000000000000")
	b.bus = "00000000:ca:00.0"
	list := library(t, a, b).Devices()
	for name, want := range map[string]Place{
		"0": {0, -1}, "1": {1, -1}, "1:0": {1, 0}, "1:1": {1, 1},
		"GPU-1111aaaa-0000-0000-0000-000000000000": {0, -1}, "gpu-1111a": {0, -1}, "1111bb": {1, -1},
		"MIG-abcd": {1, 0}, "bbcd0000": {1, 1}, "MIG 3g.40gb": {1, 1}, "1g.10gb": {1, 0}, "1G.10GB": {1, 0},
		"0000:ca:00.0": {1, -1}, "00000000:17:00.0": {0, -1},
	} {
		got, err := Select(list, name)
		if err != nil || got != want {
			t.Errorf("Select(%q) = %v, %v; want %v", name, got, err, want)
		}
	}
	for name, says := range map[string]string{
		"2": "1:1 (MIG 3g.40gb", "1:2": "choosing device 1:2", "0:0": "choosing device 0:0", "GPU-9999": "this machine shows 0 (NVIDIA Test",
		"GPU-": "choose one", "1111": "fits 2 of", "": "choose one", "-1": "choose one", "7g.80gb": "MIG 1g.10gb", "111": "choose one",
	} {
		_, err := Select(list, name)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Select(%q): error %v; want it to say %q", name, err, says)
		}
		isDevice(t, err)
	}
	if _, err := Select(nil, "0"); err == nil || !strings.Contains(err.Error(), "no GPU") {
		t.Errorf("Select of nothing: %v", err)
	}
}

// After Close, and on a library that was never opened, every call answers and
// none reaches NVML.
func TestGate(t *testing.T) {
	sys := &fakeSystem{gpus: []gpu{sliced("1111aaaa-0000-0000-0000-000000000000")}}
	l, err := openLibrary(sys)
	if err != nil {
		t.Fatal(err)
	}
	whole, part := choose(t, l, "0"), choose(t, l, "0:1")
	whole.Start(t.Context(), time.Millisecond)
	if err := errors.Join(l.Close(), l.Close()); err != nil || sys.stops != 1 {
		t.Fatalf("closing twice: %v, stopped %d times", err, sys.stops)
	}
	before := sys.gpus[0].(*fakeGPU).total()
	for _, d := range []*Device{whole, part, {}} {
		if _, ok := d.EnergyJ(); ok {
			t.Error("energy is known after Close")
		}
		if _, ok := d.PowerW(); ok {
			t.Error("power is known after Close")
		}
		if _, ok := d.Foreign(); ok {
			t.Error("processes are known after Close")
		}
		if _, ok := d.Latency(); ok {
			t.Error("latency is known after Close")
		}
		if _, ok := d.EnergyPeriod(t.Context()); ok {
			t.Error("energy period is known after Close")
		}
		if _, ok := d.NearCPUs(); ok {
			t.Error("CPUs are known after Close")
		}
	}
	if _, _, ok := whole.ThrottledS(); ok {
		t.Error("throttling is known after Close")
	}
	whole.Stop()
	if got := sys.gpus[0].(*fakeGPU).total(); got != before {
		t.Errorf("%d calls reached NVML after Close", got-before)
	}
	for _, l := range []*Library{l, nil, {}} {
		if got := l.Devices(); len(got) != 0 {
			t.Errorf("a closed library lists %d devices", len(got))
		}
		_, err := l.Device("0")
		isDevice(t, err)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func (g *fakeGPU) total() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, v := range g.asked {
		n += v
	}
	return n
}

// Close waits for calls under way, and calls race with it without harm.
func TestCloseRaces(t *testing.T) {
	l := library(t, healthy("1111aaaa-0000-0000-0000-000000000000"))
	d, e := choose(t, l, "0"), choose(t, l, "0")
	d.Start(t.Context(), time.Millisecond)
	var wg sync.WaitGroup
	for _, do := range []func(){
		func() { d.PowerW(); e.PowerW() }, func() { d.ThrottledS() }, func() { e.ThrottledS() }, func() { l.Devices() }, func() { d.Pause(); d.Resume() },
	} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 200 {
				do()
			}
		}()
	}
	time.Sleep(5 * time.Millisecond)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	d.Stop()
}

func TestOpenLibraryFaults(t *testing.T) {
	sys := &fakeSystem{counting: errForbidden}
	_, err := openLibrary(sys)
	isDevice(t, err)
	if sys.stops != 1 || !strings.Contains(err.Error(), "not permitted") {
		t.Errorf("error %v, stopped %d times", err, sys.stops)
	}
	// A GPU that is lost hides no other.
	sys = &fakeSystem{gpus: []gpu{healthy("1111aaaa-0000-0000-0000-000000000000"), healthy("2222aaaa-0000-0000-0000-000000000000")}, lost: map[int]error{0: errLost}}
	l, err := openLibrary(sys)
	if err != nil {
		t.Fatal(err)
	}
	list := l.Devices()
	if len(list) != 2 || list[0].Fault == "" || list[1].Fault != "" || list[1].UUID == "" {
		t.Errorf("devices %+v", list)
	}
	if lines := list[0].Examine(); len(lines) != 1 || lines[0].State != gpuprof.Missing || !strings.Contains(lines[0].Reason, "fallen off the bus") {
		t.Errorf("lines of a lost GPU: %+v", lines)
	}
	if _, err := l.Device("2222a"); err != nil {
		t.Error(err)
	}
}

func TestEnergyPeriod(t *testing.T) {
	g := healthy("1111aaaa-0000-0000-0000-000000000000")
	d := choose(t, library(t, g), "0")
	p, ok := d.EnergyPeriod(t.Context())
	// The fake's counter moves at every call, so the poll's own period shows; on a busy
	// machine it may be as long as you like.
	if !ok || p < energyPoll/2 {
		t.Errorf("period %v, %v", p, ok)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := d.EnergyPeriod(ctx); ok {
		t.Error("a cancelled measurement has a result")
	}
	delete(g.numbers, energy)
	if _, ok := d.EnergyPeriod(t.Context()); ok {
		t.Error("a counter that is not there has a period")
	}
}
