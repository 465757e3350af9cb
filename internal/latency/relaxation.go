package latency

import "math"

// WarmUps are the times in which its queue forgets that a service is under load before it is measured.
const WarmUps = 20

// Settled is the share of the throughput above which a queue does not settle in any time a run has.
const Settled = 0.98

// Relaxation is the time in seconds in which the queue of a service forgets: S/(1-sqrt rho)^2, S being the time per
// request at the throughput and rho the rate's share of it, Settled at most (Cohen, The Single Server Queue, III.7.3).
func Relaxation(throughput, rate float64) float64 {
	return 1 / throughput / math.Pow(1-math.Sqrt(min(rate/throughput, Settled)), 2)
}
