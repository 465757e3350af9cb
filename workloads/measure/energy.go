package measure

import (
	"cmp"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/probes/events"
	"github.com/gpuprof/gpuprof/workloads"
)

// The energy pass reads a counter that updates every 20 to 100 ms, so it evaluates many whole update intervals.
const (
	energyTime    = 2 * time.Second
	energyUpdates = 50
	energyCap     = 30 * time.Second
	idleSettle    = 300 * time.Millisecond
	idleTime      = time.Second
	idleUpdates   = 10
	idleCap       = 3 * time.Second
	energyApart   = 0.05 // largest valid difference of counter and power readings, as a share of the power
	energyPoll    = 2 * time.Millisecond
	powerPolls    = 5 // readings of the counter per reading of the power
	energyParts   = 10
)

// wattmeter polls the energy counter and the current power.
type wattmeter struct {
	mu     sync.Mutex
	begin  time.Time
	last   float64
	moves  []reading // counter in J after each update
	power  []reading // W
	stop   chan struct{}
	done   sync.WaitGroup
	failed bool
}

type reading struct{ at, value float64 }

func watchEnergy(in Instruments) (*wattmeter, bool) {
	first, ok := in.EnergyJ()
	if !ok {
		return nil, false
	}
	w := &wattmeter{begin: time.Now(), last: first, stop: make(chan struct{})}
	w.done.Go(func() {
		tick := time.NewTicker(energyPoll)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-w.stop:
				return
			case <-tick.C:
			}
			w.poll(in, i%powerPolls == 0)
		}
	})
	return w, true
}

func (w *wattmeter) poll(in Instruments, power bool) {
	e, ok := in.EnergyJ()
	now := time.Since(w.begin).Seconds()
	var p float64
	if power {
		p, power = in.PowerW()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = w.failed || !ok
	if ok && e != w.last {
		w.last = e
		w.moves = append(w.moves, reading{now, e})
	}
	if power {
		w.power = append(w.power, reading{now, p})
	}
}

func (w *wattmeter) isLongEnough(least, most time.Duration, updates int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	spent := time.Since(w.begin)
	return w.failed || spent > most || spent >= least && len(w.moves) > updates
}

func (w *wattmeter) end() {
	close(w.stop)
	w.done.Wait()
}

// meanPower returns the mean power in watts by the counter, and the seconds and the number of counter updates that it
// covers. The power is a Theil-Sen slope, which late readings hardly change.
func (w *wattmeter) meanPower() (power, seconds float64, updates int) {
	n := len(w.moves)
	if n < 2 {
		return math.NaN(), 0, 0
	}
	return slopeOf(w.moves), w.moves[n-1].at - w.moves[0].at, n - 1
}

func slopeOf(moves []reading) float64 {
	x, y := make([]float64, len(moves)), make([]float64, len(moves))
	for i, m := range moves {
		x[i], y[i] = m.at, m.value
	}
	return theilSen(x, y)
}

// instantPower returns the mean of the power readings over the time of meanPower, in watts; NaN if unknown.
func (w *wattmeter) instantPower() float64 {
	if len(w.moves) < 2 {
		return math.NaN()
	}
	sum, n := 0.0, 0
	for _, p := range w.power {
		if p.at >= w.moves[0].at && p.at <= w.moves[len(w.moves)-1].at {
			sum, n = sum+p.value, n+1
		}
	}
	return sum / float64(n) // 0/0 is NaN: unknown
}

// partPowers divides the measured time at updates of the energy counter into up to ten parts, and returns the mean
// power of each, in watts.
func (w *wattmeter) partPowers() []float64 {
	n := len(w.moves) - 1
	parts := min(energyParts, n)
	var out []float64
	for i := range parts {
		out = append(out, slopeOf(w.moves[n*i/parts:n*(i+1)/parts+1]))
	}
	return out
}

func (r *runner) energyPass() error {
	in := r.plan.Instruments
	if in == nil {
		return nil
	}
	r.plan.report("energy", 0, r.energyFor.Seconds(), "")
	if err := r.sess.Main().Sync(); err != nil {
		return fmt.Errorf("waiting for the device before the energy pass: %w", err)
	}
	r.pause(idleSettle)
	w, ok := watchEnergy(in)
	if !ok {
		return nil
	}
	for !w.isLongEnough(r.idleFor, idleCap, idleUpdates) && r.ctx.Err() == nil {
		r.pause(10 * time.Millisecond)
	}
	w.end()
	idle, _, moves := w.meanPower()
	if moves < 2 {
		idle = math.NaN()
	}
	return r.poweredSteps(in, idle)
}

func (r *runner) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.ctx.Done():
	case <-t.C:
	}
}

// poweredSteps runs steps without any events while the energy counter is read.
func (r *runner) poweredSteps(in Instruments, idle float64) error {
	if _, _, err := r.rec.Reset(events.Nothing); err != nil {
		return fmt.Errorf("beginning the energy pass: %w", err)
	}
	cold := r.cold
	r.cold = false // the energy must not include cache flushes
	defer func() { r.cold = cold }()
	// Power follows the load with a delay.
	if _, err := r.stepsFor(idleSettle); err != nil {
		return err
	}
	w, ok := watchEnergy(in)
	if !ok {
		return nil
	}
	t0, n := events.Now(), 0
	var err error
	for err == nil && r.ctx.Err() == nil && !w.isLongEnough(r.energyFor, energyCap, energyUpdates) {
		var done int
		done, err = r.runSteps(max(1, int(int64(20*time.Millisecond)/max(r.stepNS, 1))))
		n += done
	}
	if e := cmp.Or(workloads.Join(r.sess), r.sess.Main().Sync()); err == nil {
		err = e
	}
	t1 := events.Now()
	w.end()
	if err != nil {
		return fmt.Errorf("energy pass: %w", err)
	}
	if n > 0 && r.ctx.Err() == nil {
		r.addEnergy(w, idle, gpuprof.Seconds(t1-t0)/float64(n), n)
	}
	return nil
}

func (r *runner) stepsFor(d time.Duration) (int, error) {
	n := 0
	for began := time.Now(); time.Since(began) < d && r.ctx.Err() == nil; {
		done, err := r.runSteps(1)
		if err != nil {
			return n, fmt.Errorf("energy pass: %w", err)
		}
		n += done
	}
	return n, nil
}

// addEnergy computes joules per step and decides whether the figure is valid.
func (r *runner) addEnergy(w *wattmeter, idle, stepS float64, steps int) {
	power, seconds, updates := w.meanPower()
	if updates == 0 {
		r.warn("energy-unknown", "the device's energy counter did not move while steps ran", "update the driver; energy per step is not reported")
		return
	}
	e := &gpuprof.Energy{
		GrossStepJ: power * stepS, NetStepJ: gpuprof.Number((power - idle) * stepS), CounterW: power,
		InstantW: gpuprof.Number(w.instantPower()), IdleW: gpuprof.Number(idle),
		Seconds: seconds, Updates: updates, Steps: steps,
	}
	apart := math.Abs(float64(e.InstantW)/power - 1)
	switch {
	case updates < energyUpdates:
		e.Reason = fmt.Sprintf("the counter moved %d times in %.1f s; %d are needed", updates, seconds, energyUpdates)
	case math.IsNaN(apart):
		e.Reason = "there is no instant power to check the counter against"
	case apart > energyApart:
		e.Reason = fmt.Sprintf("the counter says %.1f W and the instant power %.1f W, %.1f %% apart (%.0f %% allowed)", power, float64(e.InstantW), 100*apart, 100*energyApart)
	default:
		e.Valid = true
	}
	r.run.Energy = e
	if !e.Valid {
		r.warn("energy-invalid", "energy per step is unreliable: "+e.Reason, "stop the other programs on the device and run again; compare with nvidia-smi dmon -s p")
		return
	}
	var perStep []float64
	for _, p := range w.partPowers() {
		perStep = append(perStep, p*stepS)
	}
	r.run.EnergyStep = stats.Summarise("J", perStep)
}
