package events

import (
	"github.com/gpuprof/gpuprof"
)

// What a device may offer beyond the Device interface, handed through with the
// streams behind the traced ones. The Tracer has all of these methods; where
// the device has not, they return an ErrUsage that says so.

var (
	_ gpuprof.Threader     = (*Tracer)(nil)
	_ gpuprof.Pool         = (*Tracer)(nil)
	_ gpuprof.CacheFlusher = (*Tracer)(nil)
	_ gpuprof.Spinner      = (*Tracer)(nil)
	_ gpuprof.GRUMaker     = (*Tracer)(nil)
	_ gpuprof.GRUTrainer   = (*Tracer)(nil)

	_ gpuprof.KernelCompiler = (*Tracer)(nil)
)

func (t *Tracer) lacks(doing, what string) error {
	return gpuprof.Errorf(gpuprof.ErrUsage, "%s: device %s has no %s", doing, t.Info().Name, what).WithFix("use another device")
}

// SetThreads implements gpuprof.Threader.
func (t *Tracer) SetThreads(n int) error {
	d, ok := t.Device.(gpuprof.Threader)
	if !ok {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting threads=%d: device %s has no CPU threads to limit", n, t.Info().Name).WithFix("leave threads at all")
	}
	return d.SetThreads(n)
}

// TrimPool implements gpuprof.Pool.
func (t *Tracer) TrimPool() error {
	d, ok := t.Device.(gpuprof.Pool)
	if !ok {
		return t.lacks("trimming the memory pool", "memory pool")
	}
	return d.TrimPool()
}

// ResetPeak implements gpuprof.Pool.
func (t *Tracer) ResetPeak() error {
	d, ok := t.Device.(gpuprof.Pool)
	if !ok {
		return t.lacks("resetting the peak of memory", "memory pool")
	}
	return d.ResetPeak()
}

// Reserved implements gpuprof.Pool; it is 0 where there is no pool.
func (t *Tracer) Reserved() int64 {
	d, ok := t.Device.(gpuprof.Pool)
	if !ok {
		return 0
	}
	return d.Reserved()
}

// FlushCache implements gpuprof.CacheFlusher.
func (t *Tracer) FlushCache(s gpuprof.Stream) error {
	d, ok := t.Device.(gpuprof.CacheFlusher)
	if !ok {
		return t.lacks("clearing the cache", "way to clear its cache")
	}
	return d.FlushCache(behind(s))
}

// CanFlush reports whether FlushCache works.
func (t *Tracer) CanFlush() bool { _, ok := t.Device.(gpuprof.CacheFlusher); return ok }

// CanSpin reports whether Spin works.
func (t *Tracer) CanSpin() bool { _, ok := t.Device.(gpuprof.Spinner); return ok }

// Spin implements gpuprof.Spinner.
func (t *Tracer) Spin(s gpuprof.Stream, ns int64) error {
	d, ok := t.Device.(gpuprof.Spinner)
	if !ok {
		return t.lacks("spinning", "kernel that spins")
	}
	return d.Spin(behind(s), ns)
}

// BindGRU implements gpuprof.GRUMaker.
func (t *Tracer) BindGRU(spec gpuprof.GRUSpec, x, h0, weights, y, hn gpuprof.Buffer) (gpuprof.Op, error) {
	d, ok := t.Device.(gpuprof.GRUMaker)
	if !ok {
		return nil, t.lacks("binding a GRU layer", "library with one")
	}
	op, err := d.BindGRU(spec, x, h0, weights, y, hn)
	if err != nil {
		return nil, err
	}
	return t.trace(op), nil
}

// GRUSpace implements gpuprof.GRUTrainer.
func (t *Tracer) GRUSpace(spec gpuprof.GRUSpec) (weights, kept int64, err error) {
	d, ok := t.Device.(gpuprof.GRUTrainer)
	if !ok {
		return 0, 0, t.lacks("sizing a GRU to train", "library that trains one")
	}
	return d.GRUSpace(spec)
}

// Compiler implements gpuprof.KernelCompiler.
func (t *Tracer) Compiler() (string, error) {
	d, ok := t.Device.(gpuprof.KernelCompiler)
	if !ok {
		return "", t.lacks("looking for a compiler", "compiler")
	}
	return d.Compiler()
}

// Compile implements gpuprof.KernelCompiler.
func (t *Tracer) Compile(src gpuprof.CUDASource) (string, error) {
	d, ok := t.Device.(gpuprof.KernelCompiler)
	if !ok {
		return "", t.lacks("compiling a kernel", "compiler")
	}
	return d.Compile(src)
}

// Libraries loads the vendor's libraries and gives their versions by name; it
// is nil where the device has none to offer.
func (t *Tracer) Libraries() map[string]string {
	if d, ok := t.Device.(interface{ Libraries() map[string]string }); ok {
		return d.Libraries()
	}
	return nil
}

// behind is the device's own stream.
func behind(s gpuprof.Stream) gpuprof.Stream {
	if ts, ok := s.(*tracedStream); ok {
		return ts.Stream
	}
	return s
}
