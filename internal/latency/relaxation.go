package latency

import "math"

// WarmUps is the length of the warm-up before a measurement, in relaxation times of the queue.
const WarmUps = 20

// Settled is the largest utilisation at which a queue reaches its steady state within a run.
const Settled = 0.98

// Relaxation returns the relaxation time of a service's queue, s: S/(1-sqrt rho)^2, where S is the time per request at
// saturation and rho the utilisation, at most Settled (Cohen, The Single Server Queue, III.7.3). Arguments are requests
// per second.
func Relaxation(throughput, rate float64) float64 {
	return 1 / throughput / math.Pow(1-math.Sqrt(min(rate/throughput, Settled)), 2)
}
