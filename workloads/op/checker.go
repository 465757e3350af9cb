package op

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// Checker reads device buffers and compares them with references, for the check of a session. It keeps the first error
// in Err and from then on reads zeros, so that one check of Err after many comparisons is enough.
type Checker struct {
	Mem    *Arena
	Stream device.Stream
	Errs   []ErrorNorm // by stage
	Err    error
}

// Stops records err and reports whether there was an error so far.
func (c *Checker) Stops(err error) bool {
	c.Err = cmp.Or(c.Err, err)
	return c.Err != nil
}

// Read returns elements [at, at+n) of a buffer.
func (c *Checker) Read(b device.Buffer, at, n int) []float32 {
	if c.Err == nil {
		if v, err := c.Mem.Receive(c.Stream, b, at, n); !c.Stops(err) {
			return v
		}
	}
	return make([]float32, n)
}

// Read64 is Read in float64.
func (c *Checker) Read64(b device.Buffer, at, n int) []float64 { return As[float64](c.Read(b, at, n)) }

// Compare compares the elements of a buffer from index at on with ref, and adds the errors to a stage.
func (c *Checker) Compare(stage int, b device.Buffer, at int, ref []float64) {
	c.Errs[stage].Add(c.Read(b, at, len(ref)), ref)
}

// PickRows returns, in order, the rows out of n that a check compares. If there are more than count, these are up to
// count random rows and the rows in always, otherwise all.
func PickRows(rng *rand.Rand, n, count int, always ...int) []int {
	if n <= count {
		rows := make([]int, n)
		for i := range rows {
			rows[i] = i
		}
		return rows
	}
	rows := slices.Clone(always)
	for range count {
		rows = append(rows, rng.IntN(n))
	}
	slices.Sort(rows)
	return slices.Compact(rows)
}

// PoisonHost fills host buffers with NaN and skips nil.
func PoisonHost(buffers ...device.Buffer) {
	for _, b := range buffers {
		if b == nil {
			continue
		}
		v := device.Floats(b)
		for i := range v {
			v[i] = float32(math.NaN())
		}
	}
}
