package host

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/vec"
)

const (
	productSize  = 480 // of the square matrices
	tileRows     = 48  // handed out at a time
	copyPiece    = 1 << 20
	ceilingTries = 5
	ceilingTime  = 40 * time.Millisecond // for the tries of one ceiling
)

// Ceilings implements gpuprof.Device. Both rates use all of the device's
// threads and are the best of at most five tries, kept until SetThreads.
//
// CopyBytesPerS counts bytes read plus bytes written by a plain copy between
// two buffers of four times the last-level cache, at most 256 MiB each; on a
// machine whose cache is larger than 64 MiB part of it is cache bandwidth.
// The buffers are outside the device's limit and account, and are released
// before Ceilings returns.
//
// FlopsPerS is a 480 x 480 x 480 float32 product by internal/vec, the code the
// workloads' kernels multiply with, at a size that suits it. It is what this
// program reaches, not what the processor could.
//
// It takes about 200 ms and waits for work in flight first.
func (d *Device) Ceilings(ctx context.Context) (gpuprof.Ceilings, error) {
	if d.closed {
		return gpuprof.Ceilings{}, errClosed("measuring ceilings")
	}
	if d.ceilings != nil {
		return *d.ceilings, nil
	}
	d.drain()
	flops, err := d.productRate(ctx)
	if err != nil {
		return gpuprof.Ceilings{}, err
	}
	bytes, err := d.copyRate(ctx)
	if err != nil {
		return gpuprof.Ceilings{}, err
	}
	d.ceilings = &gpuprof.Ceilings{CopyBytesPerS: bytes, FlopsPerS: flops}
	return *d.ceilings, nil
}

func (d *Device) copyRate(ctx context.Context) (float64, error) {
	size := int(min(4*d.facts.cache, largestCopy))
	var scratch arena
	var bufs [2][]byte
	for i := range bufs {
		mem, err := scratch.take(size)
		if err != nil {
			return 0, gpuprof.Errorf(gpuprof.ErrMemory, "measuring the copy ceiling: %s of memory: %w; free memory on this machine",
				gpuprof.FormatBytes(float64(size)), err)
		}
		bufs[i] = mem
	}
	each := func(do func(lo, hi int)) *gpuprof.Kernel {
		return &gpuprof.Kernel{Name: "copy ceiling", Host: func(_ *gpuprof.Args, lo, hi int) {
			do(lo*copyPiece, min(hi*copyPiece, size))
		}}
	}
	pieces := (size-1)/copyPiece + 1
	// Memory nobody has written has no pages of its own: reading it would
	// measure the cache.
	touch := each(func(lo, hi int) {
		for i := lo; i < hi; i += 4096 {
			bufs[0][i], bufs[1][i] = 1, 1
		}
	})
	var j job
	j.init()
	err := d.pool.run(&j, touch, nil, pieces)
	var best float64
	if err == nil {
		best, err = d.bestTime(ctx, each(func(lo, hi int) { copy(bufs[1][lo:hi], bufs[0][lo:hi]) }), pieces)
	}
	for _, mem := range bufs {
		if e := scratch.give(mem); err == nil {
			err = e
		}
	}
	if e := scratch.close(); err == nil {
		err = e
	}
	if err != nil {
		return 0, fmt.Errorf("measuring the copy ceiling: %w", err)
	}
	return 2 * float64(size) / best, nil
}

func (d *Device) productRate(ctx context.Context) (float64, error) {
	const n = productSize
	a, b, c := make([]float32, n*n), make([]float32, n*n), make([]float32, n*n)
	for i := range a {
		a[i], b[i] = float32(i%7)-3, float32(i%5)-2
	}
	k := &gpuprof.Kernel{Name: "product ceiling", Host: func(_ *gpuprof.Args, lo, hi int) {
		for t := lo; t < hi; t++ {
			vec.Gemm(tileRows, n, n, 1, a[t*tileRows*n:], n, b, n, c[t*tileRows*n:], n)
		}
	}}
	best, err := d.bestTime(ctx, k, n/tileRows)
	if err != nil {
		return 0, fmt.Errorf("measuring the product ceiling: %w", err)
	}
	return 2 * n * n * n / best, nil
}

// bestTime is the least of several times of k in seconds, beside no other work.
func (d *Device) bestTime(ctx context.Context, k *gpuprof.Kernel, n int) (float64, error) {
	var j job
	j.init()
	best := int64(0)
	begin := d.now()
	for try := range ceilingTries {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		start := d.now()
		if err := d.pool.run(&j, k, nil, n); err != nil {
			return 0, err
		}
		if t := max(1, d.now()-start); try == 0 || t < best {
			best = t
		}
		if try > 0 && d.now()-begin > int64(ceilingTime) {
			break
		}
	}
	return float64(best) / 1e9, nil
}
