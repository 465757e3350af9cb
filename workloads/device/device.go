// Package device defines the contract of a device that runs kernels: buffers, streams, events, launches, captures, and
// counters of the calls. device/host (CPU) and device/cuda implement it; workloads and probes use it.
package device

import (
	"context"
	"errors"
	"reflect"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Place is the kind of memory that holds a buffer.
type Place uint8

const (
	// OnDevice memory is read and written by kernels.
	OnDevice Place = iota
	// Pinned host memory can be copied without blocking the caller.
	Pinned
	// Pageable is ordinary host memory. Its copies are counted separately, because a GPU driver has to stage them.
	Pageable
)

func (p Place) String() string {
	switch p {
	case OnDevice:
		return "device"
	case Pinned:
		return "pinned"
	case Pageable:
		return "pageable"
	}
	return "unknown"
}

// Buffer is a block of memory owned by one device.
type Buffer interface {
	Place() Place
	Len() int      // bytes
	Bytes() []byte // the host's view; nil for GPU memory
	Addr() uint64  // the address that a GPU kernel receives
	Free() error   // an error if already freed
}

// Kernel is one computation, implemented for the host and for CUDA. The host ignores the fields for CUDA, and CUDA
// those for the host.
type Kernel struct {
	Name string // as shown in reports, e.g. "tp_csr"
	Sig  string // one letter per parameter: b buffer, i int32, f float32

	// Host computes items [lo, hi) of n. Several goroutines call it on disjoint ranges, unless Serial is set.
	Host   func(a *Args, lo, hi int)
	Serial bool
	Grain  int // least items per goroutine; 0 means 1

	PTX, Entry  string // CUDA implementation: PTX text, plain or compressed with zstd (package ptx), and its entry
	Lib         string // or a vendor library's routine
	Threads     int    // threads per block
	PerBlock    int    // items per block; blocks = ceil(n/PerBlock)
	SharedBytes int
	Cooperative bool

	args reflect.Type // see Typed
}

// Func is a kernel loaded on one device.
type Func interface{ Kernel() *Kernel }

// Event marks a point in a stream.
type Event interface {
	// Done reports whether the stream has passed the event, without blocking.
	Done() (bool, error)
	// Wait blocks the caller until the stream has passed the event. Meter.EventWaits and BlockedNS count it.
	Wait() error
}

// Stream runs work in order, concurrently with the caller.
type Stream interface {
	// Launch enqueues n items of f without waiting. a holds one argument per letter of the kernel's Sig; its buffers
	// must be live. a may be nil if Sig is empty.
	Launch(f Func, n int, a *Args) error
	// Copy enqueues a copy of n bytes without waiting. At least one side must be device memory.
	Copy(dst Buffer, dstOff int, src Buffer, srcOff, n int) error
	Record(Event) error
	// WaitFor makes the stream, not the caller, wait for the event's latest Record; without a Record it fails.
	WaitFor(Event) error
	// Sync waits until the stream is empty and returns its work's first error; see Meter.SyncPoints and BlockedNS.
	Sync() error
	Close() error
}

// Meter counts the calls of a device since it was opened. Empty launches and copies count; a replay of a capture
// counts its parts. The counts are exact, so they can be compared without statistics.
type Meter struct {
	Launches         int64
	CopiesH2D        int64
	BytesH2D         int64
	BytesH2DPageable int64
	CopiesD2H        int64
	BytesD2H         int64
	BytesD2HPageable int64
	CopiesD2D        int64
	BytesD2D         int64
	SyncPoints       int64 // Stream.Sync calls
	EventWaits       int64 // Event.Wait calls
	BlockedNS        int64 // caller's time inside Sync and Wait
	Allocations      int64 // Device.Alloc calls
}

// Sub returns m - o for every field.
func (m Meter) Sub(o Meter) Meter {
	return Meter{
		Launches: m.Launches - o.Launches, CopiesH2D: m.CopiesH2D - o.CopiesH2D,
		BytesH2D: m.BytesH2D - o.BytesH2D, BytesH2DPageable: m.BytesH2DPageable - o.BytesH2DPageable,
		CopiesD2H: m.CopiesD2H - o.CopiesD2H, BytesD2H: m.BytesD2H - o.BytesD2H,
		BytesD2HPageable: m.BytesD2HPageable - o.BytesD2HPageable,
		CopiesD2D:        m.CopiesD2D - o.CopiesD2D, BytesD2D: m.BytesD2D - o.BytesD2D,
		SyncPoints: m.SyncPoints - o.SyncPoints, EventWaits: m.EventWaits - o.EventWaits,
		BlockedNS: m.BlockedNS - o.BlockedNS, Allocations: m.Allocations - o.Allocations,
	}
}

// Add returns m + o for every field.
func (m Meter) Add(o Meter) Meter { return m.Sub(Meter{}.Sub(o)) }

// CountCopy counts one copy of n bytes by its direction. If one side is pageable memory, it also counts the bytes as
// pageable.
func (m *Meter) CountCopy(dst, src Place, n int64) {
	switch {
	case dst == OnDevice && src == OnDevice:
		m.CopiesD2D++
		m.BytesD2D += n
	case dst == OnDevice:
		m.CopiesH2D++
		m.BytesH2D += n
		if src == Pageable {
			m.BytesH2DPageable += n
		}
	default:
		m.CopiesD2H++
		m.BytesD2H += n
		if dst == Pageable {
			m.BytesD2HPageable += n
		}
	}
}

// Given returns the arguments for a launch of k on the stream of that name: a itself, or empty Args if a is nil and the
// kernel has no parameters. If a is nil and the kernel has parameters, it returns an ErrUsage.
func (k *Kernel) Given(a *Args, stream string) (*Args, error) {
	switch {
	case a != nil:
		return a, nil
	case k.Sig == "":
		return new(Args), nil
	}
	return nil, gpuprof.Errorf(gpuprof.ErrUsage, "launching kernel %s on stream %s: its signature %q has arguments, and Args is nil", k.Name, stream, k.Sig).WithFix("give an Args with a value for each letter")
}

// Check returns an ErrUsage if the kernel has no name, or a signature that no device supports. device is the name of
// the device that loads it, for the error.
func (k *Kernel) Check(device string) error {
	if k == nil || k.Name == "" {
		return gpuprof.Errorf(gpuprof.ErrUsage, "loading a kernel on %s: it has no name", device).WithFix("give it one")
	}
	if len(k.Sig) > MaxArgs {
		return gpuprof.Errorf(gpuprof.ErrUsage, "loading kernel %s on %s: %d parameters", k.Name, device, len(k.Sig)).WithFix("at most %d fit", MaxArgs)
	}
	if i := strings.IndexFunc(k.Sig, func(r rune) bool { return r != 'b' && r != 'i' && r != 'f' }); i >= 0 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "loading kernel %s on %s: signature %q has %q at %d", k.Name, device, k.Sig, k.Sig[i], i).WithFix("use b, i and f")
	}
	return nil
}

// BufferParams returns the indices of the buffer parameters.
func (k *Kernel) BufferParams() []int {
	var list []int
	for i := range len(k.Sig) {
		if k.Sig[i] == 'b' {
			list = append(list, i)
		}
	}
	return list
}

// CheckCopy returns an ErrUsage for a copy that exceeds its buffers or has host memory on both sides; stream is the
// stream's name for the error.
func CheckCopy(stream string, dst Buffer, dstOff int, src Buffer, srcOff, n int) error {
	for _, end := range []struct {
		name string
		b    Buffer
		off  int
	}{{"destination", dst, dstOff}, {"source", src, srcOff}} {
		if n < 0 || end.off < 0 || end.off > end.b.Len()-n { // off + n could overflow
			return gpuprof.Errorf(gpuprof.ErrUsage, "copying %d bytes on stream %s: %d bytes from offset %d do not fit the %s, %s of %d bytes", n, stream, n, end.off, end.name, end.b, end.b.Len()).
				WithFix("correct the offset or the size")
		}
	}
	if dst.Place() != OnDevice && src.Place() != OnDevice {
		return gpuprof.Errorf(gpuprof.ErrUsage, "copying %d bytes on stream %s: both %s and %s are host memory", n, stream, dst, src).WithFix("copy between their Bytes instead")
	}
	return nil
}

// Memory counts a device's allocations, in bytes.
type Memory struct {
	InUse     int64
	Peak      int64
	Available int64 // bytes that Alloc would still grant
}

// Info describes a device.
type Info struct {
	Kind  string // "host" or "cuda"
	Name  string
	Arch  string // "amd64", "sm_90"
	Cores int    // CPU threads the device uses, or multiprocessors
	// MaxThreads is the largest number of CPU threads that a Threader accepts; 0 for other devices.
	MaxThreads int
	// CacheBytes is the size of the last-level cache. A measurement in steady mode rotates over inputs of more bytes than
	// this.
	CacheBytes int64
	// Facts are further fingerprint fields (driver, cuda, uuid_hash, …).
	Facts map[string]string
}

// Device runs kernels. One goroutine calls it; other goroutines may only fill host buffers.
type Device interface {
	Info() Info
	// Alloc returns memory with undefined content, or an ErrMemory if the request does not fit.
	Alloc(bytes int, p Place) (Buffer, error)
	Load(*Kernel) (Func, error)
	NewStream(name string) (Stream, error)
	NewEvent() (Event, error)
	// ElapsedNS returns the time between two events that are done.
	ElapsedNS(from, to Event) (int64, error)
	// Capture records the work that fn enqueues on s as an Op. Sync, WaitFor and Capture inside fn are errors.
	Capture(s Stream, fn func() error) (Op, error)
	Meter() Meter
	Memory() Memory
	// Ceilings measures the device's peak rates and returns the best rates of this and earlier calls. Its launches, copies
	// and allocations are not in the counts of Meter.
	Ceilings(context.Context) (gpuprof.Ceilings, error)
	// Close waits for work in flight and releases everything still allocated.
	Close() error
}

// Threader is a device whose kernels can be limited to n CPU threads.
type Threader interface {
	SetThreads(n int) error
}

// Pool is a device whose memory comes from a memory pool.
type Pool interface {
	// TrimPool returns unused memory of the pool to the system, like torch.cuda.empty_cache.
	TrimPool() error
	// ResetPeak restarts Memory.Peak, like torch.cuda.reset_peak_memory_stats.
	ResetPeak() error
	// Reserved returns the number of bytes that the pool holds, used or unused.
	Reserved() int64
}

// CacheFlusher clears the last-level cache between cold samples, in stream order. Meter does not count it.
type CacheFlusher interface{ FlushCache(Stream) error }

// Spinner keeps a stream busy for about ns nanoseconds, so that later launches queue up. Meter does not count it.
type Spinner interface {
	Spin(s Stream, ns int64) error
}

// GRUSpec is a stack of GRU layers in one direction.
type GRUSpec struct {
	Input, Hidden, Layers, Batch, Steps int
	Precision                           string // fp32, tf32, bf16 or fp16
}

// GRUMaker binds a vendor library's GRU layers. x is [Steps, Batch, Input], y [Steps, Batch, Hidden], h0 and hn
// [Layers, Batch, Hidden]. weights hold for each layer W_i [3 Hidden, Input or Hidden], W_h [3 Hidden, Hidden], b_i
// and b_h [3 Hidden], with PyTorch's gate order r, z, n. Values are float32, or 16 bits wide for bf16 and fp16.
// BindGRU copies the weights. Without the library it returns an ErrDevice that names the searched places.
type GRUMaker interface {
	BindGRU(spec GRUSpec, x, h0, weights, y, hn Buffer) (Op, error)
}

// CUDASource is CUDA C++ source of a kernel, generated at run time. Headers maps the names in its include directives
// to text; the device adds the headers of gpuprof's dialect (device.cuh).
type CUDASource struct {
	Text    string
	Headers map[string]string
}

// KernelCompiler compiles a kernel's source to PTX for Load. Compiler returns the compiler's name and version, or an
// ErrDevice that names the searched places.
type KernelCompiler interface {
	Compiler() (string, error)
	Compile(CUDASource) (ptx string, err error)
}

// Op is one or more launches that set-up has bound to their arguments.
type Op interface {
	Enqueue(Stream) error  // no allocation, no blocking
	Parts() []gpuprof.Part // one entry per launch, in order
}

// Short returns the error for a refused allocation: refusal, or the device's own failure if it is broken. A broken
// device also reports no available memory, so Short tests it by allocating a megabyte.
func Short(d Device, refusal error) error {
	if d.Memory().Available > 0 {
		return refusal
	}
	b, err := d.Alloc(1<<20, OnDevice)
	switch {
	case err == nil:
		err = b.Free()
	case errors.Is(err, gpuprof.ErrMemory):
		return refusal
	}
	if err != nil {
		return err
	}
	return refusal
}
