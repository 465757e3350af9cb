// Package optim turns gradients into a training step: the norm of all gradients, clipping, and Adam in PyTorch's three
// variants. Parameters are named float32 buffers. As in package op, optim.go has the launches and their costs,
// optim_host.go the host kernels, optim.cu the CUDA kernels and optim_ref.go the float64 reference.
package optim

import (
	_ "embed"
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

//go:embed optim.ptx.zst
var optimPTX string

// Variants of the optimizer step.
const (
	Fused   = "fused"   // one launch over all tensors
	Foreach = "foreach" // one launch per operation, over all tensors
	Loop    = "loop"    // one launch per operation and tensor
)

// Tensor is a parameter: N values and their gradients.
type Tensor struct {
	Name string
	N    int
	P, G device.Buffer
}

// perLaunch is the maximum number of tensors per launch, because a kernel has at most twenty arguments.
const perLaunch = 5

// Constants of Adam.
const (
	beta1 = 0.9
	beta2 = 0.999
	eps   = 1e-8
)

// Indices of the values in the state buffer, which kernels share.
const (
	stateStep      = iota // the step t
	stateRate             // learning rate
	stateFactor           // clipping factor
	stateStepSize         // lr/(1-beta1^t), by tickKernel
	stateRoot             // 1/sqrt(1-beta2^t), by tickKernel
	stateNorm             // norm of all gradients
	stateScale            // loss scale S, see Scaler
	stateInverse          // 1/S
	stateCotangent        // factor of cotangents: S times the weight of a micro-batch
	stateGood             // number of steps without overflow since S changed
	stateFound            // 1 if a gradient of this step is not finite
	stateWords
)

// Operations of adamPartKernel, in order.
const (
	partLerp    = iota // m += (g-m)(1-beta1)
	partMul            // v *= beta2
	partAddcmul        // v += (1-beta2) g g
	partSqrt           // d = sqrt v
	partDiv            // d *= 1/sqrt(1-beta2^t)
	partAdd            // d += eps
	partAddcdiv        // p -= lr/(1-beta1^t) m/d
	parts
)

const chunk = 4096 // number of values whose squares make one partial sum

// A kernel over up to five tensors has the end offsets of the first four in the concatenation of all as arguments. An
// item is one value for the Adam and scale kernels, and one chunk for squaresKernel; tickKernel and clipKernel have
// one item. Adam does nothing in a step with a gradient that is not finite.
var (
	adamKernel     = device.Typed[adamArgs](device.Kernel{Name: "adam", Host: adamHost, Grain: 1 << 12, PTX: optimPTX, Threads: 256, PerBlock: 1024})
	adamPartKernel = device.Typed[adamPartArgs](device.Kernel{Name: "adam_part", Host: adamPartHost, Grain: 1 << 12, PTX: optimPTX, Threads: 256, PerBlock: 1024})
	tickKernel     = device.Typed[adamTickArgs](device.Kernel{Name: "adam_tick", Host: tickHost, PTX: optimPTX, Threads: 32, PerBlock: 1})
	squaresKernel  = device.Typed[squaresArgs](device.Kernel{Name: "squares", Host: squaresHost, PTX: optimPTX, Threads: 256, PerBlock: 1})
	clipKernel     = device.Typed[clipArgs](device.Kernel{Name: "clip", Host: clipHost, PTX: optimPTX, Threads: 256, PerBlock: 1})
	scaleKernel    = device.Typed[scaleByArgs](device.Kernel{Name: "scale_by", Host: scaleHost, Grain: 1 << 14, PTX: optimPTX, Threads: 256, PerBlock: 1024})
)

// Adam is the optimizer, in one of its variants. Fused moves 28 bytes per parameter, the others 72. With t from 1:
//
//	m = b1 m + (1-b1) g,  v = b2 v + (1-b2) g^2,  p -= lr/(1-b1^t) m/(sqrt v/sqrt(1-b2^t) + eps)
type Adam struct {
	Impl string
	Rate float64
	// Limit is the maximum norm of all gradients, to which larger ones are scaled down; 0 means no limit.
	Limit float64

	scaler Scaler
	mem    *op.Arena
	state  device.Buffer
	groups []group
	all    []Tensor
}

// group holds the tensors of one launch, with their moments one after the other.
type group struct {
	tensors []Tensor
	n       int
	m, v, d device.Buffer
}

// Check returns the reason why the optimizer cannot be opened, or nil.
func (a *Adam) Check() error {
	switch a.Impl {
	case Fused, Foreach, Loop:
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "opening the optimizer: unknown way %q", a.Impl).WithFix("use fused, foreach or loop")
}

// cutGroups divides tensors into groups of at most the given number, one for each launch.
func cutGroups(all []Tensor, most int) (groups []group) {
	for part := range slices.Chunk(all, most) {
		g := group{tensors: part}
		for _, t := range part {
			g.n += t.N
		}
		groups = append(groups, g)
	}
	return groups
}

func countChunks(n int) int { return (n + chunk - 1) / chunk }

// Open allocates the moments from mem and starts at step 0.
func (a *Adam) Open(mem *op.Arena, s device.Stream, all []Tensor) error {
	a.mem, a.all = mem, all
	a.state = mem.Words("the optimizer's state", stateWords, device.OnDevice)
	most := perLaunch
	if a.Impl == Loop {
		most = 1
	}
	a.groups = cutGroups(all, most)
	for i := range a.groups {
		g := &a.groups[i]
		g.m = mem.Words("first moments", int64(g.n), device.OnDevice)
		g.v = mem.Words("second moments", int64(g.n), device.OnDevice)
		g.d = g.v // unused by fused
		if a.Impl != Fused {
			g.d = mem.Words("denominators", int64(g.n), device.OnDevice)
		}
	}
	if mem.Err != nil {
		return mem.Err
	}
	return a.Reset(s)
}

// Reset returns to step 0 with moments of 0 and waits until that is done.
func (a *Adam) Reset(s device.Stream) error {
	state := make([]float32, stateWords)
	state[stateRate], state[stateFactor] = float32(a.Rate), 1
	a.scaler.initState(state)
	if err := op.Send(a.mem.Dev, s, a.state, state); err != nil {
		return err
	}
	for _, g := range a.groups {
		zero := make([]float32, g.n)
		if err := op.Send(a.mem.Dev, s, g.m, zero); err != nil {
			return err
		}
		if err := op.Send(a.mem.Dev, s, g.v, zero); err != nil {
			return err
		}
	}
	return nil
}

func (a *Adam) countValues() (n int) {
	for _, t := range a.all {
		n += t.N
	}
	return n
}

// normLaunches returns the launches that compute the norm of all gradients and the clipping factor min(1, Limit/(norm +
// 1e-6)), which stays on the device. They first divide the gradients by the loss scale, if there is one, and sum their
// squares in chunks.
func (a *Adam) normLaunches() ([]op.Launch, error) {
	at := 0
	for _, t := range a.all {
		at += countChunks(t.N)
	}
	partial := a.mem.Words("sums of squares", int64(max(at, 1)), device.OnDevice)
	if a.mem.Err != nil {
		return nil, a.mem.Err
	}
	all := a.unscaleLaunches()
	at = 0
	for _, t := range a.all {
		all = append(all, op.Launch{Kernel: &squaresKernel, N: countChunks(t.N), Cost: op.Moved(2*t.N, t.N, countChunks(t.N)).In("fp64", int64(2*t.N)), Args: squaresArgs{
			g: t.G, partial: partial, values: t.N, at: at,
		}})
		at += countChunks(t.N)
	}
	return append(all, op.Launch{Kernel: &clipKernel, N: 1, Cost: op.Moved(at+4, at, 2).In("fp64", int64(at)), Args: clipArgs{
		partial: partial, state: a.state, count: at, limit: float32(a.Limit),
	}}), nil
}

func (a *Adam) clipLaunches() (all []op.Launch) {
	for _, t := range a.all {
		all = append(all, a.scaleLaunch(t.G, t.N, stateFactor))
	}
	return all
}

// scaleLaunch returns a launch that multiplies n values of b by one value of the state buffer, whose index is by.
func (a *Adam) scaleLaunch(b device.Buffer, n, by int) op.Launch {
	return op.Launch{Kernel: &scaleKernel, N: n, Cost: op.Moved(n, n+1, n), Args: scaleByArgs{
		g: b, state: a.state, which: by,
	}}
}

// BindStep binds one step of the optimizer.
func (a *Adam) BindStep() (*op.Bound, error) {
	n := a.countValues()
	return op.BindLaunches(a.mem.Dev, "the optimizer", op.Moved(12*n, 4*n, 3*n), a.stepLaunches()...)
}

func (a *Adam) stepLaunches() []op.Launch {
	all := []op.Launch{{Kernel: &tickKernel, N: 1, Cost: op.Moved(8, 3, 3), Args: adamTickArgs{state: a.state}}}
	for _, g := range a.groups {
		if a.Impl == Fused {
			p, d, e := g.operands()
			all = append(all, op.Launch{Kernel: &adamKernel, N: g.n, Cost: op.Moved(12*g.n, 4*g.n, 3*g.n), Args: adamArgs{
				state: a.state, m: g.m, v: g.v,
				p0: p[0], g0: d[0], p1: p[1], g1: d[1], p2: p[2], g2: d[2], p3: p[3], g3: d[3], p4: p[4], g4: d[4],
				e0: e[0], e1: e[1], e2: e[2], e3: e[3],
			}})
		}
	}
	if a.Impl != Fused {
		// Each operation runs over all tensors before the next one.
		for part := range parts {
			for _, g := range a.groups {
				c := partCosts[part]
				p, d, e := g.operands()
				all = append(all, op.Launch{Kernel: &adamPartKernel, N: g.n, Cost: op.Moved(c[0]*g.n, c[1]*g.n, c[2]*g.n), Args: adamPartArgs{
					state: a.state, m: g.m, v: g.v, d: g.d,
					p0: p[0], g0: d[0], p1: p[1], g1: d[1], p2: p[2], g2: d[2], p3: p[3], g3: d[3], p4: p[4], g4: d[4],
					e0: e[0], e1: e[1], e2: e[2], e3: e[3], part: part,
				}})
			}
		}
	}
	return all
}

// partCosts lists, for each operation of adamPartKernel, the flops, values read and values written per value.
var partCosts = [parts][3]int{{3, 2, 1}, {1, 1, 1}, {3, 2, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {3, 3, 1}}

// operands returns the values and gradients of a launch's tensors, and the end offsets of the first four in their
// concatenation. For fewer than five tensors it repeats the last one with an empty range.
func (g group) operands() (p, grad [perLaunch]device.Buffer, ends [perLaunch]int) {
	at := 0
	for i := range perLaunch {
		t := g.tensors[min(i, len(g.tensors)-1)]
		p[i], grad[i] = t.P, t.G
		if i < len(g.tensors) {
			at += t.N
		}
		ends[i] = at
	}
	return p, grad, ends
}

// Values returns the moment buffers of a tensor, and the offset of its values in them.
func (a *Adam) Values(name string) (m, v device.Buffer, at int, err error) {
	for _, g := range a.groups {
		at = 0
		for _, t := range g.tensors {
			if t.Name == name {
				return g.m, g.v, at, nil
			}
			at += t.N
		}
	}
	return nil, nil, 0, fmt.Errorf("the optimizer has no tensor %q", name)
}

// State returns the state buffer, whose first value is the number of the last finished step.
func (a *Adam) State() device.Buffer { return a.state }
