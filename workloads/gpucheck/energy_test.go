package gpucheck

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/probes/nvml"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// energyMeter is a counter of joules that moves every so often; clock is in
// seconds.
type energyMeter struct {
	joules func() (float64, bool)
	clock  func() float64
	wait   func() // a little
}

var errNoEnergy = errors.New("the energy counter gives nothing")

// edge waits until the counter moves: what it says then is true for that instant.
func (m energyMeter) edge() (joules, at float64, err error) {
	before, ok := m.joules()
	for begin := m.clock(); ; m.wait() {
		now, still := m.joules()
		if !ok || !still {
			return 0, 0, errNoEnergy
		}
		if now != before {
			return now, m.clock(), nil
		}
		if m.clock()-begin > 5 {
			return 0, 0, errors.New("the energy counter did not move for 5 s")
		}
	}
}

// over is the energy and time from one edge of the counter before work to one
// after it.
func (m energyMeter) over(work func()) (joules, seconds float64, err error) {
	e0, t0, err := m.edge()
	if err != nil {
		return 0, 0, err
	}
	work()
	e1, t1, err := m.edge()
	return e1 - e0, t1 - t0, err
}

// ratio is the energy of work(2n) over that of work(n), with what the device
// takes while idle subtracted from both.
func (m energyMeter) ratio(idle func(), work func(n int), n int) (ratio, idleWatts, joules float64, err error) {
	e, s, err := m.over(idle)
	if err != nil {
		return 0, 0, 0, err
	}
	idleWatts = e / s
	net := func(n int) float64 {
		e, s, e1 := m.over(func() { work(n) })
		err = errors.Join(err, e1)
		return e - idleWatts*s
	}
	once := net(n)
	twice := net(2 * n)
	return twice / once, idleWatts, once, err
}

// Twice the work takes twice the energy. NVML is needed for it; where it is
// missing, the figure says why it was not measured.
func TestEnergyTwoToOne(t *testing.T) {
	r := newRig(t)
	const limit = "2 within 5 %"
	m := r.newMatmul(pick(r, 8192, 32), pick(r, 8192, 32), pick(r, 8192, 32))
	bound := m.bind(op.FP32, "auto")
	work := func(n int) {
		for range n {
			r.ok(bound.Enqueue(r.s))
		}
		r.ok(r.s.Sync())
	}
	if !r.real {
		work(2) // the rest needs a card
		r.keep(figure{Name: "energy/two_to_one", Unit: "1", Limit: limit})
		return
	}
	meter, done, err := openEnergy()
	if err != nil {
		r.keep(figure{Name: "energy/two_to_one", Unit: "1", Limit: limit, Note: "not measured: " + err.Error()})
		return
	}
	defer done()
	took := r.steady(0.5, r.enqueue(bound)) // and warm
	ratio, idle, joules, err := meter.ratio(func() { time.Sleep(1500 * time.Millisecond) }, work, max(int(2.5/took), 1))
	if err != nil {
		r.keep(figure{Name: "energy/two_to_one", Unit: "1", Limit: limit, Note: "not measured: " + err.Error()})
		return
	}
	r.keep(figure{Name: "energy/two_to_one", Unit: "1", Value: &ratio, Limit: limit, Pass: ptr(math.Abs(ratio/2-1) <= 0.05),
		Extra: map[string]float64{"idle_w": idle, "joules": joules}})
}

// openEnergy finds the first CUDA device's counter.
func openEnergy() (energyMeter, func(), error) {
	list, err := cuda.Probe(cuda.Options{})
	if err != nil {
		return energyMeter{}, nil, err
	}
	lib, err := nvml.Open()
	if err != nil {
		return energyMeter{}, nil, err
	}
	d, err := lib.Device(list[0].UUID)
	if err != nil {
		return energyMeter{}, nil, errors.Join(err, lib.Close())
	}
	begin := time.Now()
	return energyMeter{joules: d.EnergyJ, clock: func() float64 { return time.Since(begin).Seconds() }, wait: func() { time.Sleep(time.Millisecond) }},
		func() { _ = lib.Close() }, nil // nothing was written
}

// A made-up card: 100 W idle, 600 W at work, a counter that moves every 100 ms.
func TestEnergyRatio(t *testing.T) {
	now, load, energy := 0.0, false, 0.0
	pass := func(s float64) {
		now += s
		energy += s * map[bool]float64{false: 100, true: 600}[load]
	}
	shown, shownAt := 0.0, -1.0
	m := energyMeter{clock: func() float64 { return now }, wait: func() { pass(0.001) }, joules: func() (float64, bool) {
		if at := math.Floor(now / 0.1); at != shownAt {
			shown, shownAt = energy, at
		}
		return shown, true
	}}
	work := func(n int) {
		load = true
		for range n {
			pass(0.013)
		}
		load = false
	}
	ratio, idle, joules, err := m.ratio(func() { pass(1.5) }, work, 100)
	if err != nil || math.Abs(ratio-2) > 0.01 || math.Abs(idle-100) > 1 || math.Abs(joules-650) > 5 {
		t.Errorf("ratio %g, %g W idle, %g J, %v; expected 2, 100 and 650", ratio, idle, joules, err)
	}
	m.joules = func() (float64, bool) { return 0, false }
	if _, _, _, err := m.ratio(func() {}, work, 1); !errors.Is(err, errNoEnergy) {
		t.Errorf("a silent counter: %v", err)
	}
	stuck := 3.0
	m.joules, m.wait = func() (float64, bool) { return stuck, true }, func() { pass(1) }
	if _, _, _, err := m.ratio(func() {}, work, 1); err == nil {
		t.Error("a counter that stands still was taken")
	}
}
