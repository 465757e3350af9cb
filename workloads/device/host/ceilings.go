package host

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/cgroup"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

const (
	productSize  = 480 // side of the square matrices
	tileRows     = 48  // rows per piece of work
	copyPiece    = 1 << 20
	ceilingTries = 5
	ceilingTime  = 20 * time.Millisecond // for all tries of one peak rate
	nearCache    = 16 << 10              // bytes per thread that fit a core's own cache
	cachePasses  = 4 << 20               // bytes that a thread moves per try within the caches
	doubleSteps  = 1 << 14
	launchRow    = 64 // empty kernels per try
	leastPiece   = 64 // least bytes per thread of a move within the caches
)

// Ceilings implements device.Device. Rates use all of the device's threads and are the best of at most
// Options.CeilingTries per call, over the calls since the threads were last set. They show the speed of this program,
// not the limit of the processor. It takes about 300 ms and first waits for work in flight.
//
// Memory rates come from copying between two buffers, reading one (counting a byte value) and clearing one. A buffer
// has four times the last-level cache, at most Options.LargestCopy; smaller buffers would partly measure the cache. The
// cache rate is the fastest of these three within a quarter of the last-level cache and within 16 KiB per thread. The
// data are random. The buffers do not count towards the device's limit and memory, and are released before Ceilings
// returns. They take at most half of the memory that the machine and the control groups have left; a rate whose buffers
// do not fit is 0.
//
// FlopsPerS is the rate of a 480 x 480 x 480 float32 product by workloads/vec, which the workloads' kernels use, at a
// size that suits it. FP64FlopsPerS is the rate of scalar multiply-adds in registers, as in kernels that compute in
// float64. Products of lower precision run in float32 here and have no rate of their own.
func (d *Device) Ceilings(ctx context.Context) (gpuprof.Ceilings, error) {
	if d.closed {
		return gpuprof.Ceilings{}, errClosed("measuring peak rates")
	}
	d.drain()
	var c gpuprof.Ceilings
	for _, measure := range []func(context.Context, *gpuprof.Ceilings) error{d.productRate, d.doubleRate, d.launchTime, d.memoryRates} {
		if err := measure(ctx, &c); err != nil {
			return gpuprof.Ceilings{}, err
		}
	}
	if d.ceilings != nil {
		c = c.Best(*d.ceilings)
	}
	d.ceilings = &c
	return c, nil
}

// memoryRates measures reads, writes and copies in memory and in the caches, if memory is available.
func (d *Device) memoryRates(ctx context.Context, c *gpuprof.Ceilings) error {
	want := min(4*d.facts.cache, d.largest)
	size := min(want, cgroup.MemoryAvailable(d.root)/4)
	if size < int64(leastPiece*max(1, d.pool.threads)) {
		return nil
	}
	var scratch arena
	var bufs [2][]byte
	var err error
	for i := range bufs {
		mem, refused := scratch.allocate(int(size))
		if refused != nil { // by a limit outside the control groups; the run continues without the rate
			break
		}
		bufs[i] = mem
	}
	if bufs[1] != nil {
		err = d.ratesOf(ctx, c, bufs[0], bufs[1], size == want)
	}
	for _, mem := range bufs {
		if mem != nil {
			err = cmp.Or(err, scratch.free(mem))
		}
	}
	if err = cmp.Or(err, scratch.close()); err != nil {
		return fmt.Errorf("measuring the rate of memory: %w", err)
	}
	return nil
}

// move is one way of moving memory. rate points to its result, bytes is the number of bytes moved per byte of the
// buffer, and do moves a part of the buffer.
type move struct {
	rate  *float64
	bytes float64
	do    func(lo, hi int)
}

// ratesOf measures the rates of moving data between two buffers. past means that the buffers are larger than the
// caches; only then does it measure the memory rates.
func (d *Device) ratesOf(ctx context.Context, c *gpuprof.Ceilings, to, from []byte, past bool) error {
	size := len(from)
	pieces := (size-1)/copyPiece + 1
	var counts [1]atomic.Int64 // keeps the reads alive
	moves := []move{
		{&c.CopyBytesPerS, 2, func(lo, hi int) { copy(to[lo:hi], from[lo:hi]) }},
		{&c.ReadBytesPerS, 1, func(lo, hi int) { counts[0].Add(int64(bytes.Count(from[lo:hi], []byte{0x5a}))) }},
		{&c.WriteBytesPerS, 1, func(lo, hi int) { clear(to[lo:hi]) }},
	}
	each := func(do func(lo, hi int)) *device.Kernel {
		return &device.Kernel{Name: "memory rate", Host: func(_ *device.Args, lo, hi int) {
			for at := lo; at < hi; at++ {
				do(at*copyPiece, min((at+1)*copyPiece, size))
			}
		}}
	}
	// Fill both buffers first: memory that was never written has no pages, so reading it would measure the cache.
	var j job
	j.init()
	if err := d.pool.run(&j, each(func(lo, hi int) { fillRandom(from[lo:hi], uint64(lo)+1); fillRandom(to[lo:hi], uint64(hi)+1) }), nil, pieces); err != nil {
		return err
	}
	for _, m := range moves {
		if !past {
			break
		}
		best, err := d.bestTime(ctx, each(m.do), pieces)
		if err != nil {
			return err
		}
		*m.rate = m.bytes * float64(size) / best
	}
	return d.cacheRates(ctx, c, moves, size)
}

// cacheRates measures the rate within the caches: each thread repeatedly moves its own part of the buffers, small
// enough for the shared cache, then for a core's own.
func (d *Device) cacheRates(ctx context.Context, c *gpuprof.Ceilings, moves []move, size int) error {
	threads := max(1, d.pool.threads)
	for _, set := range []int{int(d.facts.cache) / 4 / threads, nearCache} {
		set = max(leastPiece, min(set, size/threads))
		passes := max(1, cachePasses/set)
		for _, m := range moves {
			k := &device.Kernel{Name: "cache rate", Host: func(_ *device.Args, lo, hi int) {
				for t := lo; t < hi; t++ {
					for range passes {
						m.do(t*set, (t+1)*set)
					}
				}
			}}
			best, err := d.bestTime(ctx, k, threads)
			if err != nil {
				return err
			}
			c.CacheBytesPerS = max(c.CacheBytesPerS, m.bytes*float64(set)*float64(passes)*float64(threads)/best)
		}
	}
	return nil
}

// fillRandom fills memory with random bytes (xorshift64, Marsaglia 2003).
func fillRandom(p []byte, x uint64) {
	for i := 0; i+8 <= len(p); i += 8 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint64(p[i:], x)
	}
}

func (d *Device) doubleRate(ctx context.Context, c *gpuprof.Ceilings) error {
	threads := max(1, d.pool.threads)
	var sink [1]atomic.Uint64 // keeps the sums alive
	k := &device.Kernel{Name: "float64 rate", Host: func(_ *device.Args, lo, hi int) {
		for range hi - lo {
			x, a, b := [8]float64{1, 2, 3, 4, 5, 6, 7, 8}, 0.999, 0.001
			x0, x1, x2, x3, x4, x5, x6, x7 := x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
			for range doubleSteps {
				x0, x1, x2, x3 = math.FMA(x0, a, b), math.FMA(x1, a, b), math.FMA(x2, a, b), math.FMA(x3, a, b)
				x4, x5, x6, x7 = math.FMA(x4, a, b), math.FMA(x5, a, b), math.FMA(x6, a, b), math.FMA(x7, a, b)
			}
			sink[0].Add(math.Float64bits(x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7))
		}
	}}
	best, err := d.bestTime(ctx, k, threads)
	if err != nil {
		return fmt.Errorf("measuring the peak rate of float64: %w", err)
	}
	c.FP64FlopsPerS = float64(threads) * 8 * 2 * doubleSteps / best
	return nil
}

// launchTime measures how many seconds the pool takes per launch of an empty kernel, in a series of launches.
func (d *Device) launchTime(ctx context.Context, c *gpuprof.Ceilings) error {
	k := &device.Kernel{Name: "null", Serial: true, Host: func(*device.Args, int, int) {}}
	for range d.tries {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("measuring the time of a launch: %w", err)
		}
		var j job
		j.init()
		start := d.clockNS()
		for range launchRow {
			if err := d.pool.run(&j, k, nil, 1); err != nil {
				return fmt.Errorf("measuring the time of a launch: %w", err)
			}
		}
		if s := gpuprof.Seconds(max(1, d.clockNS()-start)) / launchRow; c.LaunchS == 0 || s < c.LaunchS {
			c.LaunchS = s
		}
	}
	return nil
}

func (d *Device) productRate(ctx context.Context, c *gpuprof.Ceilings) error {
	const n = productSize
	a, b, out := make([]float32, n*n), make([]float32, n*n), make([]float32, n*n)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range a {
		a[i], b[i] = rng.Float32()-0.5, rng.Float32()-0.5
	}
	k := &device.Kernel{Name: "product rate", Host: func(_ *device.Args, lo, hi int) {
		for t := lo; t < hi; t++ {
			vec.Gemm(tileRows, n, n, 1, a[t*tileRows*n:], n, b, n, out[t*tileRows*n:], n)
		}
	}}
	best, err := d.bestTime(ctx, k, n/tileRows)
	if err != nil {
		return fmt.Errorf("measuring the peak rate of products: %w", err)
	}
	c.FlopsPerS = 2 * n * n * n / best
	return nil
}

// bestTime returns the shortest time of kernel k over n items, in seconds. No other work may run meanwhile.
func (d *Device) bestTime(ctx context.Context, k *device.Kernel, n int) (float64, error) {
	var j job
	j.init()
	best := int64(0)
	begin := d.clockNS()
	for try := range d.tries {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		start := d.clockNS()
		if err := d.pool.run(&j, k, nil, n); err != nil {
			return 0, err
		}
		if t := max(1, d.clockNS()-start); try == 0 || t < best {
			best = t
		}
		if try > 0 && d.clockNS()-begin > int64(ceilingTime) {
			break
		}
	}
	return gpuprof.Seconds(best), nil
}
