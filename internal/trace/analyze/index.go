// Package analyze accounts for the time of a recording: the launch and operator of each
// kernel, the steps, and where each device was busy, starved or queued. In comes a
// model.Trace, or one per rank of a job; out goes an Index for rules and pictures, and an
// Analysis, the document with the figures. The findings come from a function that the
// caller passes in (package rules). It imports model and document, no reader and no rule.
package analyze

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Index is everything the rules ask of a trace, worked out once. It reads the
// trace and never changes it; all its methods may be called from several
// goroutines.
type Index struct {
	T *model.Trace
	// Span is the first start to the last end of anything recorded.
	Span model.Span
	// Steps are all steps in order; the first one is Dropped when there are two
	// or more.
	Steps []StepSpan
	// StepSource says in plain words where the steps came from.
	StepSource string
	// StepLaunches is how much the median step launches, where the order of launches gave the
	// steps; 0 elsewhere.
	StepLaunches int
	// Steady is the time findings may speak of: the windows of the steps that
	// are not dropped; Span when there are no steps.
	Steady model.Spans
	// Devices are the devices that did something, by index.
	Devices []*DeviceTime
	// Main is the lane of the steps, or the one with the most launches.
	Main uint32
	// Trailing is the synchronisation the profiler made to close the recording
	// (index into T.Host), -1 when there is none. It is the profiler's, not the
	// program's.
	Trailing int32
	// Warnings are about what could not be worked out; the trace's own are in T.
	Warnings []gpuprof.Warning

	// Recording is what the recording is of.
	Recording Recording
	// Roofline compares operators with peak rates; the rules set it, nil without recorded arguments.
	Roofline *Roofline
	// notSteady is the time of phases, and of work from before the recording, which may be under
	// way until before.
	notSteady model.Spans
	before    int64

	// Called is when the host is in a step that is not dropped, or between two.
	Called model.Spans

	Info []NameInfo // by NameID
	// products: some name says that the program has tensor products of irreducible representations.
	products bool

	// By host event: the enclosing one (-1 none), one past the last one nested
	// in it, and the innermost operator and module that are it or enclose it.
	parent, end, op, mod []int32
	lanes                []LaneRange

	launched []int32 // GPU events that have a launch, in the order of launches
	launchAt []int32 // their launches
	gpuOp    []int32 // by GPU event: the operator it belongs to, -1 unknown
	class    []uint8 // by GPU event: index into Classes

	forward     *forwardTable // the operator that made an autograd node
	hostAccount *HostAccount
	waits       map[int]model.Spans // by device, for ranks that arrive later in collectives
}

// LaneRange is the part of T.Host that belongs to one lane.
type LaneRange struct {
	lane   uint32
	Lo, Hi int32
}

// NewIndex works out the index of a trace that has been through Finish.
func NewIndex(ctx context.Context, t *model.Trace) (*Index, error) {
	if len(t.Host) > model.MaxEvents || len(t.GPU) > model.MaxEvents {
		return nil, gpuprof.Errorf(nil, "indexing %s: more than %d events", t.Path, model.MaxEvents).WithFix("record a shorter stretch")
	}
	x := &Index{T: t, Trailing: -1}
	x.Info = describeNames(t)
	x.products = slices.ContainsFunc(x.Info, func(in NameInfo) bool {
		return in.model == modelTensorProduct || in.Kernel == cTensorProduct || in.op.class == cTensorProduct
	})
	x.lanes = lanesOf(t.Host)
	x.nest()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("indexing %s: %w", t.Path, err)
	}
	var wg sync.WaitGroup
	wg.Go(x.sortLaunches)
	x.Span = model.Extent(t)
	wg.Go(func() {
		x.findProgram()
		x.findWindow()
	})
	x.linkForward()
	x.attribute()
	x.classify()
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("indexing %s: %w", t.Path, err)
	}
	x.findSteps()
	x.findTrailing()
	x.account()
	x.card()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("indexing %s: %w", t.Path, err)
	}
	return x, nil
}

// Parent is the event that encloses a host event on its lane, of any kind, -1
// when there is none.
func (x *Index) Parent(host int32) int32 { return x.parent[host] }

// Up is the nearest event enclosing a host event (not the event itself) that
// satisfies ok, -1 when there is none.
func (x *Index) Up(host int32, ok func(*model.Host) bool) int32 {
	for h := x.parent[host]; h >= 0; h = x.parent[h] {
		if ok(&x.T.Host[h]) {
			return h
		}
	}
	return -1
}

// Inside is the range [lo, hi) of host events nested in one.
func (x *Index) Inside(host int32) (lo, hi int32) { return host + 1, x.end[host] }

// Launched are the GPU events whose launch is the host event or lies inside
// it on its lane, in the order of their launches. The slice is the index's own.
func (x *Index) Launched(host int32) []int32 {
	lo, _ := slices.BinarySearch(x.launchAt, host)
	hi, _ := slices.BinarySearch(x.launchAt[lo:], x.end[host])
	return x.launched[lo : lo+hi]
}

// EnclosingOp is the operator a GPU event belongs to: the innermost one around
// its launch, else the one with its external id, else -1.
func (x *Index) EnclosingOp(gpu int32) int32 { return x.gpuOp[gpu] }

// Op is the innermost operator that is the host event or encloses it, -1 none.
func (x *Index) Op(host int32) int32 { return x.op[host] }

// Class is the class of a GPU event.
func (x *Index) Class(gpu int32) model.Class { return classList[x.class[gpu]] }

// Call is what a runtime or driver function does; CallNone for events that
// are not API calls.
func (x *Index) Call(host int32) model.Call {
	if x.T.Host[host].Kind != model.API {
		return model.CallNone
	}
	return x.Info[x.T.Host[host].Name].call
}

// Device is the account of a device (index into T.Devices), nil when it did
// nothing.
func (x *Index) Device(device int) *DeviceTime {
	for _, d := range x.Devices {
		if d.Device == device {
			return d
		}
	}
	return nil
}

// SteadySteps is how many steps findings speak of; at least 1, so that it can
// divide.
func (x *Index) SteadySteps() int {
	n := 0
	for i := range x.Steps {
		if !x.Steps[i].Dropped {
			n++
		}
	}
	return max(n, 1)
}

// InSteady says whether what the host does at an instant belongs to the steps
// findings speak of. The device may still be at work on the one before.
func (x *Index) InSteady(at int64) bool { return x.Called.Contains(at) }

// Idle is the time a device did nothing between its first and last operation.
func (x *Index) Idle(device int) model.Spans {
	d := x.Device(device)
	if d == nil {
		return nil
	}
	return model.Spans{d.Window}.Minus(d.Busy)
}

// lanesOf splits sorted host events by lane.
func lanesOf(host []model.Host) []LaneRange {
	var out []LaneRange
	for lo := 0; lo < len(host); {
		lane := host[lo].Lane
		hi := lo + model.RunLength(len(host)-lo, func(i int) bool { return host[lo+i].Lane == lane })
		out = append(out, LaneRange{lane, int32(lo), int32(hi)})
		lo = hi
	}
	return out
}

// sortLaunches orders the linked GPU events by launch. Launches of one lane
// are in the order of time and so, nearly, are the GPU events: counting by
// launch keeps it linear.
func (x *Index) sortLaunches() {
	gpu := x.T.GPU
	keys := make([]uint64, 0, len(gpu))
	for i := range gpu {
		if l := gpu[i].Launch; l >= 0 {
			keys = append(keys, uint64(l)<<32|uint64(uint32(i)))
		}
	}
	slices.Sort(keys)
	x.launched, x.launchAt = make([]int32, len(keys)), make([]int32, len(keys))
	for i, k := range keys {
		x.launchAt[i], x.launched[i] = int32(k>>32), int32(uint32(k))
	}
}
