package op

import (
	"math"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Ref is a buffer argument that begins at byte At of Buf. If Buf is nil, it begins at byte At of scratch block Block,
// whose buffer Binder.Place returns at the time of a launch. Every repetition of the launch advances it by By bytes.
type Ref struct {
	Buf    device.Buffer
	Block  int // see Binder.Place
	At, By int64
}

// From returns the argument that begins at an element of a buffer of four-byte elements.
func From(buf device.Buffer, at int) Ref { return Ref{Buf: buf, At: floatBytes * int64(at)} }

// Num is an integer argument of a kernel: Value, which grows by By with every repetition of the launch, or the number
// that Count selects.
type Num struct {
	Value, By int
	Count     Count
}

// Count selects a number that is known only when a launch is enqueued, such as the number of edges in the batch.
type Count uint8

// The counts that a Num can be.
const (
	NoCount Count = iota
	Items         // of the launch
	Batch         // edges or images of the batch
)

// itemCount and edgeCount are the arguments for the two counts: the items of the launch, and the edges of the batch.
var itemCount, edgeCount = Num{Count: Items}, Num{Count: Batch}

// Call is a kernel bound to its arguments, with N items and their counted cost. Refs lists the buffer arguments that
// Set fills in before a launch.
type Call struct {
	Kernel string
	Func   device.Func
	Args   device.Args
	N      int
	Cost   gpuprof.Cost
	Refs   []LateRef

	nums []lateNum
}

// LateRef is a buffer argument whose address is known only at a launch. It depends on a scratch block, on a ring of
// buffers (see Binder.Rings) or on the repetition.
type LateRef struct {
	Ref
	arg  int
	ring []device.Buffer
}

type lateNum struct {
	Num
	arg int
}

// Binder loads the kernels of a workload, each once, and binds calls. After the first error, kept in Err, it loads
// none.
type Binder struct {
	Dev     device.Device
	Err     error
	Loading time.Duration // total load time
	// Place returns the buffer that holds a scratch block at the time of a launch, and the offset of the block's first
	// byte in this buffer.
	Place func(block int) (buf device.Buffer, at int64)
	// Rings lists, for a buffer, the buffers of equal size that take its place in rotation. Turn is the index of the
	// current one in every ring.
	Rings map[device.Buffer][]device.Buffer
	Turn  int

	funcs map[*device.Kernel]device.Func
}

// Bind binds a launch of kern over n items. args is the struct given to device.Typed. Its fields of type device.Ref
// hold a Buffer or a Ref, fields of type device.Num an int, a bool or a Num, fields of type device.Real a float32.
func (b *Binder) Bind(kern *device.Kernel, n int, cost gpuprof.Cost, args any) Call {
	cost.Launches = 1
	c := Call{Kernel: kern.Name, N: n, Cost: cost}
	list, err := kern.List(args)
	b.keepError(err)
	sig := make([]byte, len(list))
	for i, arg := range list {
		sig[i] = b.bindArg(&c, i, arg)
		if v, ok := arg.(int); ok && (v > math.MaxInt32 || v < math.MinInt32) {
			b.keepError(gpuprof.Errorf(gpuprof.ErrUsage, "argument %s of kernel %s, %d, does not fit 32 bits", kern.ParamName(i), kern.Name, v).WithFix("use a smaller batch"))
		}
	}
	if string(sig) != kern.Sig {
		b.keepError(gpuprof.Errorf(gpuprof.ErrDevice, "binding kernel %s: its signature is %q but the arguments are %q", kern.Name, kern.Sig, sig).WithFix("report it as a defect of the workload"))
	}
	c.Func = b.load(kern)
	return c
}

func (b *Binder) keepError(err error) {
	if b.Err == nil {
		b.Err = err
	}
}

// bindArg sets argument i, or registers it to be set at every launch, and returns its letter in the signature.
func (b *Binder) bindArg(c *Call, i int, arg any) byte {
	switch v := arg.(type) {
	case device.Buffer:
		return b.bindArg(c, i, Ref{Buf: v})
	case Ref:
		if ring := b.Rings[v.Buf]; v.Buf == nil || v.By != 0 || ring != nil {
			c.Refs = append(c.Refs, LateRef{v, i, ring})
		} else {
			c.Args.SetBufAt(i, v.Buf, v.At)
		}
		return 'b'
	case int:
		c.Args.SetInt(i, v)
		return 'i'
	case bool:
		if v {
			c.Args.SetInt(i, 1)
		}
		return 'i'
	case Num:
		c.nums = append(c.nums, lateNum{v, i})
		return 'i'
	case float32:
		c.Args.SetF32(i, v)
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

// Enqueue sets a call's arguments for repetition t, as Set does, and launches it.
func (b *Binder) Enqueue(s device.Stream, c *Call, t int) error {
	b.Set(c, t, 0)
	return s.Launch(c.Func, c.N, &c.Args)
}

// Set sets the arguments of a call that are known only at a launch: scratch blocks, rings at their current Turn,
// arguments that depend on the repetition t, and the numbers of items and of edges or images in the batch. It allocates
// nothing. A call without blocks and rings needs no binder: b may be nil.
func (b *Binder) Set(c *Call, t, batch int) {
	for i := range c.Refs {
		r := &c.Refs[i]
		buf, at := r.Buf, r.At+int64(t)*r.By
		if r.ring != nil {
			buf = r.ring[b.Turn]
		}
		if buf == nil {
			var first int64
			buf, first = b.Place(r.Block)
			at += first
		}
		c.Args.SetBufAt(r.arg, buf, at)
	}
	for i := range c.nums {
		n := &c.nums[i]
		v := [...]int{NoCount: n.Value + t*n.By, Items: c.N, Batch: batch}[n.Count]
		c.Args.SetInt(n.arg, v)
	}
}
