package latency

import "math"

// WarmUps is the warm-up before a measurement, in relaxation times of the queue.
const WarmUps = 20

// Settled is the largest utilisation for which a queue settles within a run.
const Settled = 0.98

// Relaxation returns the relaxation time of a service's queue, s: S/(1-sqrt rho)^2, with S the time per request at
// the throughput and rho the utilisation, Settled at most (Cohen, The Single Server Queue, III.7.3).
func Relaxation(throughput, rate float64) float64 {
	return 1 / throughput / math.Pow(1-math.Sqrt(min(rate/throughput, Settled)), 2)
}
