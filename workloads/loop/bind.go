package loop

import (
	"context"
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

// Fastest returns the first of the candidates for which measure returns the least time.
func Fastest[C any, T ~int64](ctx context.Context, candidates []C, measure func(C) (T, error)) (best C, err error) {
	least := T(math.MaxInt64)
	for _, c := range candidates {
		if err := ctx.Err(); err != nil {
			return best, err //nolint:wrapcheck // the caller was interrupted
		}
		t, err := measure(c)
		if err != nil {
			return best, err
		}
		if t < least {
			best, least = c, t
		}
	}
	return best, nil
}
