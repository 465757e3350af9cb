package loop

import (
	"math"
	"time"
)

// Shortest returns the shortest time of three calls of pass, after one warm-up. pass must wait for the device. The
// function between, unless nil, is called after each pass and is not timed.
func Shortest(pass, between func() error) (time.Duration, error) {
	best := time.Duration(math.MaxInt64)
	for i := range 4 {
		began := time.Now()
		if err := pass(); err != nil {
			return 0, err
		}
		if i > 0 {
			best = min(best, time.Since(began))
		}
		if between != nil {
			if err := between(); err != nil {
				return 0, err
			}
		}
	}
	return best, nil
}
