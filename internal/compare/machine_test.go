package compare_test

import (
	"math"
	"math/rand/v2"
)

// machine is the noise of the simulated gates, as measured on real machines. Spreads are standard deviations of
// logarithms.
type machine struct {
	shift  float64 // of a whole process, normal
	drift  float64 // from one process to the next, a random walk
	sample float64 // of samples, log-normal with AR(1) 0.5
	spikes float64 // share of samples that take 20 to 100 % longer
	slow   float64 // share of processes on a clock that is 3 % slow
	linear float64 // drift over a whole stage
	bursts float64 // share of time in which other work slows everything by 25 to 75 %, two processes long in the mean
	// slowLife is the share of processes that are 20 to 100 % slow for their whole
	// life, in every metric alike; alone: in each metric by a chance of its own.
	slowLife float64
	alone    bool
	samples  int
	ramp     float64 // drift from one process to the next, linear
	sine     float64 // amplitude of a wave that is four processes long
	tick     float64 // of the clock, as a share of the time
	throttle float64 // share of a process's samples that take 30 % longer, in one stretch
	modes    float64 // share of processes that take 30 % longer
	session  float64 // of a whole session, normal
}

// uneven returns a machine with a share of slow processes (slowLife) and 1 % of noise otherwise.
func uneven(share float64) machine {
	return machine{shift: 0.01, sample: 0.01, slowLife: share, samples: 10}
}

func usual() machine {
	return machine{shift: 0.01, drift: 0.007, sample: 0.015, spikes: 0.02, slow: 0.05, samples: 10}
}

// walk is one metric's state over the processes of a stage.
type walk struct {
	m       machine
	rng     *rand.Rand
	at      float64
	inBurst bool
	count   int     // of processes so far
	phase   float64 // of the wave
}

func (m machine) begin(rng *rand.Rand) *walk {
	w := &walk{m: m, rng: rng}
	if m.sine > 0 {
		w.phase = 2 * math.Pi * rng.Float64()
	}
	if m.session > 0 {
		w.at = m.session * rng.NormFloat64()
	}
	return w
}

// lives returns the slowdown of each of n processes over its whole life, a logarithm.
func (m machine) lives(n int, rng *rand.Rand) []float64 {
	out := make([]float64, n)
	for i := range out {
		if m.slowLife > 0 && rng.Float64() < m.slowLife {
			out[i] = math.Log(1.2 + 0.8*rng.Float64())
		}
	}
	return out
}

// process measures one process: a metric of true value exp(effect). It writes
// to memory of its own only; the race detector would take most of the test's
// time for it.
//
//go:norace
func (w *walk) process(effect, place float64) []float64 {
	w.at += w.m.drift * w.rng.NormFloat64()
	base := effect + w.at + w.m.shift*w.rng.NormFloat64() + w.m.linear*place
	if w.rng.Float64() < w.m.slow {
		base += math.Log(1.03)
	}
	base += w.burst() + w.regular()
	throttled := w.throttled()
	out := make([]float64, w.m.samples)
	x := w.rng.NormFloat64()
	for i := range out {
		if i > 0 {
			x = 0.5*x + math.Sqrt(0.75)*w.rng.NormFloat64()
		}
		out[i] = math.Exp(base + w.m.sample*x)
		if throttled(i) {
			out[i] *= 1.3
		}
		if w.rng.Float64() < w.m.spikes {
			out[i] *= 1.2 + 0.8*w.rng.Float64()
		}
		if t := w.m.tick; t > 0 {
			out[i] = max(t/1e3, t*math.Floor(out[i]/t+w.rng.Float64()))
		}
	}
	return out
}

// regular returns the slowdown of this process by its position in time and by its mode, a logarithm.
//
//go:norace
func (w *walk) regular() (sum float64) {
	sum = w.m.ramp * float64(w.count)
	if w.m.sine > 0 {
		sum += math.Log1p(w.m.sine * math.Sin(w.phase+math.Pi/2*float64(w.count)))
	}
	if w.m.modes > 0 && w.rng.Float64() < w.m.modes {
		sum += math.Log(1.3)
	}
	w.count++
	return sum
}

// throttled reports which samples of a process a slow clock made: a stretch of them, at the
// beginning or at the end, as long as the share in the mean.
//
//go:norace
func (w *walk) throttled() func(i int) bool {
	if w.m.throttle == 0 {
		return func(int) bool { return false }
	}
	length := int(math.Round(float64(w.m.samples) * w.m.throttle * (0.8 + 0.4*w.rng.Float64())))
	atEnd := w.rng.IntN(2) == 1
	return func(i int) bool { return i < length && !atEnd || i >= w.m.samples-length && atEnd }
}

// burst returns the slowdown of this process by other work, a logarithm.
//
//go:norace
func (w *walk) burst() float64 {
	if w.m.bursts == 0 {
		return 0 // without a draw, so that other machines keep their random numbers
	}
	const ends = 0.5
	if u := w.rng.Float64(); w.inBurst {
		w.inBurst = u >= ends
	} else {
		w.inBurst = u < ends*w.m.bursts/(1-w.m.bursts)
	}
	if !w.inBurst {
		return 0
	}
	return math.Log(1.25 + 0.5*w.rng.Float64())
}
