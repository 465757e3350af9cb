// Package analyze divides the time of a recording. It finds the launch and the operator of each kernel, the steps, and
// the times at which each device was busy, starved or queued. It makes an Index of each model.Trace, one for each rank
// of a job, for rules and pictures. From the indexes it makes an Analysis, the document with the figures. The caller
// passes in the function that finds the findings (package rules); this package imports no reader and no rule.
//
// An input is one trace file. The steps that count are those that are not dropped as warm-up; their windows are the
// steady part. Phases, such as start-up and compilation, are not steady. A device is starved while the host has not yet
// launched its next operation, and queued from the launch until the operation begins. A finding claims the time that
// its change would save; a Ledger grants each nanosecond to one finding. In comments "-1 none" means that an index is
// -1 if nothing was found.
package analyze

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Index holds what rules read from a trace, computed once. The trace does not change. Concurrent use is safe.
type Index struct {
	T *model.Trace
	// Span is the time from the first start to the last end of all events.
	Span model.Span
	// Steps holds all steps in order. If there are two or more, the first ones are Dropped as warm-up.
	Steps []StepSpan
	// StepSource describes the source of the steps for users.
	StepSource string
	// StepLaunches is the number of launches of the median step if the order of launches gave the steps, else 0.
	StepLaunches int
	// Steady is the time that findings may claim: the windows of the steps that are not dropped as warm-up; without
	// steps, Span minus notSteady.
	Steady  model.Spans
	Devices []*DeviceTime
	// Main is the lane (thread) of the steps; without steps, the lane with the most launches.
	Main uint32
	// Trailing is the index in T.Host of the synchronization with which the profiler ended the recording, -1 none.
	Trailing int32
	// Warnings name facts that the index could not determine; T.Warnings are about the trace itself.
	Warnings []gpuprof.Warning

	Recording Recording
	// Roofline compares operators with peak rates. The rules set it; nil without recorded arguments.
	Roofline *Roofline
	// notSteady is the time of phases, such as start-up and compilation, and of work launched before the recording.
	// before is the time until which the devices may run work launched before the recording, 0 none.
	notSteady model.Spans
	before    int64

	// Called is the time of the steps that are not dropped, by the host's clock: each lasts from its start on the host
	// to the end of its device work, but at most to the start of the next step; see unionOfSteps.
	Called model.Spans

	Info []NameInfo // by NameID
	// hasTensorProducts reports that some name in the trace is of a tensor product of irreducible representations
	// (e3nn).
	hasTensorProducts bool

	// parent, end, op and mod have one entry for each host event: its enclosing event (-1 none), the index after its
	// last nested event, and the innermost operator and module around it.
	parent, end, op, mod []int32
	lanes                []LaneRange

	launched []int32 // GPU events with a launch, sorted by launch
	launchAt []int32 // launch of each event of launched
	gpuOp    []int32 // by GPU event: the operator that launched it, -1 unknown
	class    []uint8 // by GPU event: index into classList

	forward     *forwardTable // the forward operators that created autograd nodes
	hostAccount *HostAccount
	waits       map[int]model.Spans // by device: time in collectives in which it waits for ranks that arrive later
}

// LaneRange is the range of indices into T.Host that holds the events of one lane (thread).
type LaneRange struct {
	lane   uint32
	Lo, Hi int32
}

// NewIndex computes the index of a trace that model's Finish has completed.
func NewIndex(ctx context.Context, t *model.Trace) (*Index, error) {
	if len(t.Host) > model.MaxEvents || len(t.GPU) > model.MaxEvents {
		return nil, gpuprof.Errorf(nil, "indexing %s: more than %d events", t.Path, model.MaxEvents).WithFix("record a shorter stretch")
	}
	x := &Index{T: t, Trailing: -1}
	x.Info = describeNames(t)
	x.hasTensorProducts = slices.ContainsFunc(x.Info, func(in NameInfo) bool {
		return in.model == moduleTensorProduct || in.Kernel == cTensorProduct || in.op.class == cTensorProduct
	})
	x.lanes = listLanes(t.Host)
	x.nestEvents()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("indexing %s: %w", t.Path, err)
	}
	var wg sync.WaitGroup
	wg.Go(x.sortLaunches)
	x.Span = model.Extent(t)
	wg.Go(func() {
		x.findProgram()
		x.findPhases()
	})
	x.linkForward()
	x.attributeOps()
	x.classifyKernels()
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("indexing %s: %w", t.Path, err)
	}
	x.findSteps()
	x.classifyGeneration()
	x.findTrailing()
	x.divideDeviceTimes()
	x.fillRecording()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("indexing %s: %w", t.Path, err)
	}
	return x, nil
}

// Parent returns the innermost event around a host event on its lane, -1 none.
func (x *Index) Parent(host int32) int32 { return x.parent[host] }

// Up returns the innermost event around a host event that ok accepts, -1 none.
func (x *Index) Up(host int32, ok func(*model.Host) bool) int32 {
	for h := x.parent[host]; h >= 0; h = x.parent[h] {
		if ok(&x.T.Host[h]) {
			return h
		}
	}
	return -1
}

// Inside returns the range [lo, hi) of the host events nested in a host event.
func (x *Index) Inside(host int32) (lo, hi int32) { return host + 1, x.end[host] }

// Launched returns the indices in T.GPU of the events launched in a host event or an event nested in it, sorted by
// launch. The caller must not change the slice.
func (x *Index) Launched(host int32) []int32 {
	lo, _ := slices.BinarySearch(x.launchAt, host)
	hi, _ := slices.BinarySearch(x.launchAt[lo:], x.end[host])
	return x.launched[lo : lo+hi]
}

// EnclosingOp returns the innermost operator around a GPU event's launch, else the operator with the GPU event's
// external id, else -1.
func (x *Index) EnclosingOp(gpu int32) int32 { return x.gpuOp[gpu] }

// Op returns the innermost operator that encloses or equals a host event, -1 none.
func (x *Index) Op(host int32) int32 { return x.op[host] }

// Class returns the class of a GPU event.
func (x *Index) Class(gpu int32) model.Class { return classList[x.class[gpu]] }

// Call returns the kind of a runtime or driver call; CallNone for other events.
func (x *Index) Call(host int32) model.Call {
	if x.T.Host[host].Kind != model.API {
		return model.CallNone
	}
	return x.Info[x.T.Host[host].Name].call
}

// Device returns the time breakdown of a device (index into T.Devices); nil if it has no operations.
func (x *Index) Device(device int) *DeviceTime {
	for _, d := range x.Devices {
		if d.Device == device {
			return d
		}
	}
	return nil
}

// SteadySteps returns the number of steps that findings cover, at least 1 so that callers can divide by it.
func (x *Index) SteadySteps() int {
	n := 0
	for i := range x.Steps {
		if !x.Steps[i].Dropped {
			n++
		}
	}
	return max(n, 1)
}

// InSteady reports whether the time at is, on the host, in a step that is not dropped. The device may still run the
// work of the previous step at that time.
func (x *Index) InSteady(at int64) bool { return x.Called.Contains(at) }

// Idle returns the idle time of a device between its first and last operation.
func (x *Index) Idle(device int) model.Spans {
	d := x.Device(device)
	if d == nil {
		return nil
	}
	return model.Spans{d.Window}.Minus(d.Busy)
}

func listLanes(host []model.Host) []LaneRange {
	var out []LaneRange
	for lo := 0; lo < len(host); {
		lane := host[lo].Lane
		hi := lo + model.RunLength(len(host)-lo, func(i int) bool { return host[lo+i].Lane == lane })
		out = append(out, LaneRange{lane, int32(lo), int32(hi)})
		lo = hi
	}
	return out
}

// sortLaunches sorts GPU events by launch. It packs the indices of launch and event into one number, because numbers
// sort fast.
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
