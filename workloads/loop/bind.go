package loop

import (
	"math"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Binder loads a workload's kernels, each once, and binds their arguments, until an error, which it keeps in Err.
type Binder struct {
	Dev     device.Device
	Err     error
	Loading time.Duration // total load time

	funcs map[*device.Kernel]device.Func
}

// View is a buffer from element At on. It is for vendor routines, which take an address but no offset.
type View struct {
	Buf device.Buffer
	At  int
}

// Bind loads kern and writes its arguments into the list to. args is the struct given to device.Typed; in it a Ref is
// a Buffer or a View, a Num an int or bool, a Real a float32. The function own is called first for each argument: it
// sets the argument and returns its letter, or returns 0 to leave it to Bind.
func (b *Binder) Bind(kern *device.Kernel, to *device.Args, own func(i int, arg any) byte, args any) device.Func {
	list, err := kern.List(args)
	if err != nil && b.Err == nil {
		b.Err = err
	}
	sig := make([]byte, len(list))
	for i, arg := range list {
		if sig[i] = own(i, arg); sig[i] == 0 {
			sig[i] = setArg(to, i, arg)
		}
	}
	fn := b.load(kern)
	if string(sig) != kern.Sig && b.Err == nil {
		b.Err = gpuprof.Errorf(gpuprof.ErrDevice, "binding kernel %s: its signature is %q but the arguments are %q", kern.Name, kern.Sig, sig).WithFix("report it as a defect of the workload")
	}
	return fn
}

// setArg sets argument i and returns its letter in the signature.
func setArg(to *device.Args, i int, arg any) byte {
	switch v := arg.(type) {
	case device.Buffer:
		to.SetBuf(i, v)
		return 'b'
	case View:
		to.SetBufAt(i, v.Buf, 4*int64(v.At))
		return 'b'
	case int:
		to.SetInt(i, v)
		return 'i'
	case bool:
		to.SetInt(i, 0)
		if v {
			to.SetInt(i, 1)
		}
		return 'i'
	case float32:
		to.SetF32(i, v)
		return 'f'
	}
	return '?'
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
