package loop

import (
	"math"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Binder loads a workload's kernels, each once, and binds their arguments. After the first failure, which Err keeps,
// it does nothing.
type Binder struct {
	Dev     device.Device
	Err     error
	Loading time.Duration // load time of the kernels

	funcs map[*device.Kernel]device.Func
}

// View is a buffer that starts at element At, for a vendor's routine, which takes no offset: the routine receives the
// address, as a CUDA device passes it on.
type View struct {
	Buf device.Buffer
	At  int
}

// Bind loads kern and writes args to to. They are checked against its signature: a Buffer or View is b, an int or
// bool is i, a float32 is f. own returns the letter of an argument of the workload's own kind, 0 for other kinds.
func (b *Binder) Bind(kern *device.Kernel, to *device.Args, own func(i int, arg any) byte, args ...any) device.Func {
	sig := make([]byte, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case device.Buffer:
			to.SetBuf(i, v)
			sig[i] = 'b'
		case View:
			to.SetBuf(i, v.Buf)
			to.Bits[i] += 4 * uint64(v.At)
			sig[i] = 'b'
		case int:
			to.SetInt(i, v)
			sig[i] = 'i'
		case bool:
			if v {
				to.SetInt(i, 1)
			}
			sig[i] = 'i'
		case float32:
			to.SetF32(i, v)
			sig[i] = 'f'
		default:
			if sig[i] = own(i, arg); sig[i] == 0 {
				sig[i] = '?'
			}
		}
	}
	fn := b.load(kern)
	if string(sig) != kern.Sig && b.Err == nil {
		b.Err = gpuprof.Errorf(gpuprof.ErrDevice, "binding kernel %s: its signature is %q but the arguments are %q", kern.Name, kern.Sig, sig).WithFix("report it as a defect of the workload")
	}
	return fn
}

func (b *Binder) load(kern *device.Kernel) device.Func {
	fn, ok := b.funcs[kern]
	if !ok && b.Err == nil {
		began := time.Now()
		if fn, b.Err = b.Dev.Load(kern); b.funcs == nil {
			b.funcs = map[*device.Kernel]device.Func{}
		}
		b.Loading += time.Since(began)
		b.funcs[kern] = fn
	}
	return fn
}

// Shortest returns the least time of three passes, after one to warm up. A pass waits for the device; between runs
// after each pass, outside the time, and may be nil.
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
