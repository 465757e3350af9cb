package events

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Tracer implements all optional interfaces of a device. Each method calls the wrapped device's method, with the
// device's own stream in place of the traced one. If the device lacks the method, the error is an ErrUsage.

var (
	_ device.Threader     = (*Tracer)(nil)
	_ device.Pool         = (*Tracer)(nil)
	_ device.CacheFlusher = (*Tracer)(nil)
	_ device.Spinner      = (*Tracer)(nil)
	_ device.GRUMaker     = (*Tracer)(nil)

	_ device.KernelCompiler = (*Tracer)(nil)
)

func (t *Tracer) missingError(doing, what string) error {
	return gpuprof.Errorf(gpuprof.ErrUsage, "%s: device %s has no %s", doing, t.Info().Name, what).WithFix("use another device")
}

// SetThreads implements device.Threader.
func (t *Tracer) SetThreads(n int) error {
	d, ok := t.Device.(device.Threader)
	if !ok {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting threads=%d: device %s has no CPU threads to limit", n, t.Info().Name).WithFix("leave threads at all")
	}
	return d.SetThreads(n)
}

// TrimPool implements device.Pool.
func (t *Tracer) TrimPool() error {
	d, ok := t.Device.(device.Pool)
	if !ok {
		return t.missingError("trimming the memory pool", "memory pool")
	}
	return d.TrimPool()
}

// ResetPeak implements device.Pool.
func (t *Tracer) ResetPeak() error {
	d, ok := t.Device.(device.Pool)
	if !ok {
		return t.missingError("resetting the peak of memory", "memory pool")
	}
	return d.ResetPeak()
}

// Reserved implements device.Pool; 0 without a pool.
func (t *Tracer) Reserved() int64 {
	d, ok := t.Device.(device.Pool)
	if !ok {
		return 0
	}
	return d.Reserved()
}

// FlushCache implements device.CacheFlusher.
func (t *Tracer) FlushCache(s device.Stream) error {
	d, ok := t.Device.(device.CacheFlusher)
	if !ok {
		return t.missingError("clearing the cache", "way to clear its cache")
	}
	return d.FlushCache(baseStream(s))
}

// CanFlush reports whether the device can flush its cache.
func (t *Tracer) CanFlush() bool { _, ok := t.Device.(device.CacheFlusher); return ok }

// CanSpin reports whether the device can spin.
func (t *Tracer) CanSpin() bool { _, ok := t.Device.(device.Spinner); return ok }

// Spin implements device.Spinner.
func (t *Tracer) Spin(s device.Stream, ns int64) error {
	d, ok := t.Device.(device.Spinner)
	if !ok {
		return t.missingError("spinning", "kernel that spins")
	}
	return d.Spin(baseStream(s), ns)
}

// BindGRU implements device.GRUMaker.
func (t *Tracer) BindGRU(spec device.GRUSpec, x, h0, weights, y, hn device.Buffer) (device.Op, error) {
	d, ok := t.Device.(device.GRUMaker)
	if !ok {
		return nil, t.missingError("binding a GRU layer", "library with one")
	}
	op, err := d.BindGRU(spec, x, h0, weights, y, hn)
	if err != nil {
		return nil, err
	}
	return t.traceOp(op), nil
}

// Compiler implements device.KernelCompiler.
func (t *Tracer) Compiler() (string, error) {
	d, ok := t.Device.(device.KernelCompiler)
	if !ok {
		return "", t.missingError("looking for a compiler", "compiler")
	}
	return d.Compiler()
}

// Compile implements device.KernelCompiler.
func (t *Tracer) Compile(src device.CUDASource) (string, error) {
	d, ok := t.Device.(device.KernelCompiler)
	if !ok {
		return "", t.missingError("compiling a kernel", "compiler")
	}
	return d.Compile(src)
}

// Libraries loads the vendor's libraries and returns their versions by name; nil for a device without them.
func (t *Tracer) Libraries() map[string]string {
	if d, ok := t.Device.(interface{ Libraries() map[string]string }); ok {
		return d.Libraries()
	}
	return nil
}

// baseStream returns the device's stream behind a traced one.
func baseStream(s device.Stream) device.Stream {
	if ts, ok := s.(*tracedStream); ok {
		return ts.Stream
	}
	return s
}
