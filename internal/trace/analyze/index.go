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

// Index holds everything that rules read from a trace, computed once. It reads the trace and never changes it; all
// its methods may be called from several goroutines.
type Index struct {
	T *model.Trace
	// Span is the first start to the last end of anything recorded.
	Span model.Span
	// Steps are all steps in order; the first one is Dropped when there are two
	// or more.
	Steps []StepSpan
	// StepSource describes the source of the steps in plain words.
	StepSource string
	// StepLaunches is the number of launches of the median step, if the order of launches gave the steps; 0
	// otherwise.
	StepLaunches int
	// Steady is the time that findings may claim: the windows of the steps that are not dropped; Span without steps.
	Steady model.Spans
	// Devices are the devices with operations, by index.
	Devices []*DeviceTime
	// Main is the lane of the steps, or the one with the most launches.
	Main uint32
	// Trailing is the synchronization with which the profiler closed the recording (index into T.Host), -1 none. It
	// belongs to the profiler, not to the program.
	Trailing int32
	// Warnings name the facts that could not be determined; T has the trace's own warnings.
	Warnings []gpuprof.Warning

	// Recording describes the program and the recording.
	Recording Recording
	// Roofline compares operators with peak rates; the rules set it, nil without recorded arguments.
	Roofline *Roofline
	// notSteady is the time of phases, and of work from before the recording, which may continue until before.
	notSteady model.Spans
	before    int64

	// Called is the host's time in steps that are not dropped, and between them.
	Called model.Spans

	Info []NameInfo // by NameID
	// products: some name shows that the program has tensor products of irreducible representations.
	products bool

	// By host event: the enclosing one (-1 none), one past the last one nested in it, and the innermost operator and
	// module that equal or enclose it.
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

// LaneRange is the range of T.Host that belongs to one lane.
type LaneRange struct {
	lane   uint32
	Lo, Hi int32
}

// NewIndex computes the index of a trace after model's Finish.
func NewIndex(ctx context.Context, t *model.Trace) (*Index, error) {
	if len(t.Host) > model.MaxEvents || len(t.GPU) > model.MaxEvents {
		return nil, gpuprof.Errorf(nil, "indexing %s: more than %d events", t.Path, model.MaxEvents).WithFix("record a shorter stretch")
	}
	x := &Index{T: t, Trailing: -1}
	x.Info = describeNames(t)
	x.products = slices.ContainsFunc(x.Info, func(in NameInfo) bool {
		return in.model == moduleTensorProduct || in.Kernel == cTensorProduct || in.op.class == cTensorProduct
	})
	x.lanes = lanesOf(t.Host)
	x.nestEvents()
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
	x.attributeOps()
	x.classifyKernels()
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("indexing %s: %w", t.Path, err)
	}
	x.findSteps()
	x.classifyGeneration()
	x.findTrailing()
	x.accountDevices()
	x.fillRecording()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("indexing %s: %w", t.Path, err)
	}
	return x, nil
}

// Parent returns the event of any kind that encloses a host event on its lane, -1 none.
func (x *Index) Parent(host int32) int32 { return x.parent[host] }

// Up returns the nearest event around a host event (excluding the event itself) that ok accepts, -1 none.
func (x *Index) Up(host int32, ok func(*model.Host) bool) int32 {
	for h := x.parent[host]; h >= 0; h = x.parent[h] {
		if ok(&x.T.Host[h]) {
			return h
		}
	}
	return -1
}

// Inside returns the range [lo, hi) of host events nested in one.
func (x *Index) Inside(host int32) (lo, hi int32) { return host + 1, x.end[host] }

// Launched returns the GPU events whose launch is nested in the host event, or is the event itself, in the order of
// their launches. The slice belongs to the index.
func (x *Index) Launched(host int32) []int32 {
	lo, _ := slices.BinarySearch(x.launchAt, host)
	hi, _ := slices.BinarySearch(x.launchAt[lo:], x.end[host])
	return x.launched[lo : lo+hi]
}

// EnclosingOp returns the operator of a GPU event: the innermost one around its launch, else the one with its
// external id, else -1.
func (x *Index) EnclosingOp(gpu int32) int32 { return x.gpuOp[gpu] }

// Op returns the innermost operator that equals or encloses the host event, -1 none.
func (x *Index) Op(host int32) int32 { return x.op[host] }

// Class returns the class of a GPU event.
func (x *Index) Class(gpu int32) model.Class { return classList[x.class[gpu]] }

// Call returns the kind of a runtime or driver call; CallNone for events that are not API calls.
func (x *Index) Call(host int32) model.Call {
	if x.T.Host[host].Kind != model.API {
		return model.CallNone
	}
	return x.Info[x.T.Host[host].Name].call
}

// Device returns the times of a device (index into T.Devices), nil for one without operations.
func (x *Index) Device(device int) *DeviceTime {
	for _, d := range x.Devices {
		if d.Device == device {
			return d
		}
	}
	return nil
}

// SteadySteps returns the number of steps that findings cover; at least 1, so that it can divide.
func (x *Index) SteadySteps() int {
	n := 0
	for i := range x.Steps {
		if !x.Steps[i].Dropped {
			n++
		}
	}
	return max(n, 1)
}

// InSteady reports whether host activity at an instant belongs to the steps that findings cover. The device may still
// run work of the previous step.
func (x *Index) InSteady(at int64) bool { return x.Called.Contains(at) }

// Idle returns the idle time of a device between its first and last operation.
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

// sortLaunches sorts the linked GPU events by launch. Keys that join the launch and the event in one number keep the
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
