package traffic

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/gpuprof/gpuprof"
)

// Draw returns the arrival times of n requests at rate per second, drawn from the seed. Gaps are gamma distributed
// with the coefficient of variation cv: 0 is a uniform stream, 1 Poisson arrivals, more is bursty. The first request
// arrives one gap after the start.
func Draw(n int, rate, cv float64, seed uint64) []time.Duration {
	rng := rand.New(rand.NewPCG(seed, 0x61727269766c))
	gap := func() float64 { return 1 / rate }
	switch {
	case cv == 1:
		gap = func() float64 { return rng.ExpFloat64() / rate }
	case cv > 0:
		shape := 1 / (cv * cv)
		gap = func() float64 { return drawGamma(rng, shape) / (shape * rate) }
	}
	out := make([]time.Duration, n)
	var at, lost float64 // Kahan summation: the mean of a million gaps stays exact
	for i := range out {
		y := gap() - lost
		sum := at + y
		lost = sum - at - y
		at = sum
		out[i] = time.Duration(math.Round(at * 1e9))
	}
	return out
}

// drawGamma draws from the gamma distribution with scale 1 (Marsaglia and Tsang, ACM Trans. Math. Softw. 26, 2000,
// with their boost for shapes below 1).
func drawGamma(rng *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return drawGamma(rng, shape+1) * math.Pow(1-rng.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if u := 1 - rng.Float64(); math.Log(u) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// ParseTrace reads rising arrival times in seconds since the start, one per line. It skips empty and # lines.
func ParseTrace(text []byte, name string) ([]time.Duration, error) {
	var out []time.Duration
	last := math.Inf(-1)
	n := 0
	for line := range bytes.Lines(text) {
		n++
		word := string(bytes.TrimSpace(line))
		if word == "" || word[0] == '#' {
			continue
		}
		v, err := strconv.ParseFloat(word, 64)
		fault := ""
		switch {
		case err != nil || !gpuprof.IsFinite(v):
			fault = fmt.Sprintf("%.40q is not a number of seconds", word)
		case v < 0:
			fault = fmt.Sprintf("%g s is before the start", v)
		case v < last:
			fault = fmt.Sprintf("%g s comes after %g s", v, last)
		case v > longestTrace:
			fault = fmt.Sprintf("%g s is more than %g s after the start", v, float64(longestTrace))
		}
		if fault != "" {
			return nil, traceError(name, fmt.Sprintf("line %d: %s", n, fault))
		}
		last = v
		out = append(out, time.Duration(math.Round(v*1e9)))
	}
	if len(out) == 0 {
		return nil, traceError(name, "it holds no arrival")
	}
	return out, nil
}

// longestTrace is the longest schedule: a week, in seconds.
const longestTrace = 7 * 24 * 3600

func traceError(name, why string) error {
	return gpuprof.Errorf(gpuprof.ErrInput, "reading arrivals from %s: %s", name, why).WithFix("write seconds since the start, one per line, rising")
}
