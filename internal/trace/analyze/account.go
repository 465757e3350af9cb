package analyze

import (
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// DeviceTime divides the time of one device, from its first operation to its last. Busy is the union of Kernel, Memcpy
// and Memset, which may overlap. Starved, Queued and Unknown are disjoint and cover the time that is not Busy.
type DeviceTime struct {
	Device int // index into T.Devices
	// Window is the time that the fields divide, from the first operation to the last. If a trace has one step or none,
	// countLeadIn widens the window of the main device to the step, so that idle time at both ends of the step counts.
	Window model.Span
	Ops    []int32 // indices into T.GPU, by start

	Busy, Kernel, Memcpy, Memset model.Spans
	Compute                      model.Spans // kernels that are not communication
	Comm                         model.Spans // communication kernels
	// Starved: the host had not yet launched the next operation. Queued: the operation was launched and had not begun.
	// Unknown: the launch of the operation that ended the wait is not recorded.
	Starved, Queued, Unknown model.Spans
	// Classes holds the busy time by class, ns. Each busy nanosecond counts for one class; see sweepClasses.
	Classes map[model.Class]int64
	Kernels int
	Linked  int // number of kernels whose launch was recorded
	// InitialIdle divides the wait from the start of the first step to the device's first operation into starved, queued and
	// unknown time.
	InitialIdle Waits
	// ActiveSpan lasts from the start of the first operation to the end of the last one.
	ActiveSpan model.Span

	// Launches holds the start times of the calls that launched the operations, sorted.
	Launches []int64

	segments []classSegment
}

type classSegment struct {
	model.Span
	class uint8
}

// ClassesIn returns the busy time of the device within a span by class, each nanosecond once.
func (d *DeviceTime) ClassesIn(w model.Span) map[model.Class]int64 {
	var sum [maxClasses]int64
	d.addClasses(&sum, w)
	return classMap(&sum)
}

func (d *DeviceTime) addClasses(sum *[maxClasses]int64, w model.Span) {
	lo := sort.Search(len(d.segments), func(i int) bool { return d.segments[i].End > w.Start })
	for _, s := range d.segments[lo:] {
		if s.Start >= w.End {
			break
		}
		sum[s.class] += min(s.End, w.End) - max(s.Start, w.Start)
	}
}

func classMap(sum *[maxClasses]int64) map[model.Class]int64 {
	out := map[model.Class]int64{}
	for i, c := range classList {
		if sum[i] > 0 {
			out[c] = sum[i]
		}
	}
	return out
}

func (x *Index) divideDeviceTimes() {
	var counts []int
	for i := range x.T.GPU {
		d := int(x.T.GPU[i].Device)
		for len(counts) <= d {
			counts = append(counts, 0)
		}
		counts[d]++
	}
	byDevice := make([]*DeviceTime, len(counts))
	for d, n := range counts {
		if n > 0 {
			byDevice[d] = &DeviceTime{Device: d, Ops: make([]int32, 0, n)}
			x.Devices = append(x.Devices, byDevice[d])
		}
	}
	for i := range x.T.GPU {
		d := byDevice[x.T.GPU[i].Device]
		d.Ops = append(d.Ops, int32(i))
	}
	var wg sync.WaitGroup
	for _, d := range x.Devices {
		wg.Go(func() {
			d.setBusyTimes(x)
			d.sweepClasses(x)
		})
		wg.Go(func() { d.collectLaunches(x.T) })
	}
	wg.Wait()
	x.countLeadIn()
	for _, d := range x.Devices {
		d.splitIdle(x.T)
		if len(x.Steps) > 0 {
			d.divideLead(x.T, x.Steps[0].Host.Start)
		}
	}
	if len(x.Devices) == 0 {
		x.warnNoDevice()
	}
}

// warnNoDevice warns that no device operation was recorded, or that the kernels are lost if launches were recorded.
func (x *Index) warnNoDevice() {
	fix := "record with ProfilerActivity.CUDA, on a machine with a GPU"
	switch {
	case x.hasOnlySamples():
		return
	case x.T.Gate.Launches > 0:
		x.addWarning(lostKernels, LostKernels(x.T)+": nothing can be said of the device", "record again while no other profiler or monitor (Nsight, DCGM, a second profiler) reads the device, with a driver as new as the profiler")
		return
	case x.T.Format == model.XLA:
		fix = "record on a machine with a GPU or TPU"
	case x.T.Format == model.Nsys && !slices.ContainsFunc(x.T.Host, func(h model.Host) bool { return h.Kind == model.API }):
		fix = "record with nsys profile --trace=cuda,nvtx, and let the recording cover work on the GPU"
	case x.T.Format != model.Kineto:
		fix = "let the recording cover work on a GPU"
	}
	x.addWarning("no-device", "no device was recorded: operators, steps and data loading are shown, and nothing can be said of a GPU", fix)
}

// LostKernels returns the sentence for a trace with launches but without device operations.
func LostKernels(t *model.Trace) string {
	on := "a device"
	for i := range t.Devices {
		if t.Devices[i].Name != "" {
			on = t.Devices[i].Name
			break
		}
	}
	if t.Gate.Launches == 1 {
		return fmt.Sprintf("1 launch was recorded on %s and not the kernel that it started: the records of the device were lost", on)
	}
	return fmt.Sprintf("%s on %s and none of the kernels they started: the records of the device were lost", Plural(t.Gate.Launches, "launch was recorded", "launches were recorded"), on)
}

// spanBuilder merges spans, added in the order of their starts, into a set of disjoint spans. Callers add all spans
// twice, first to count the result and then to store it: a trace has millions of spans, and a growing slice would need
// twice the memory.
type spanBuilder struct {
	set  model.Spans
	n    int
	last model.Span
}

func (s *spanBuilder) add(from, to int64) {
	if to <= from {
		return
	}
	if s.n > 0 && from <= s.last.End {
		s.last.End = max(s.last.End, to)
	} else {
		s.n++
		s.last = model.Span{Start: from, End: to}
		if s.set != nil {
			s.set = append(s.set, s.last)
		}
	}
	if s.set != nil {
		s.set[len(s.set)-1].End = s.last.End
	}
}

// withCapacity returns an empty builder that stores spans, with capacity for as many as s has counted.
func (s *spanBuilder) withCapacity() spanBuilder { return spanBuilder{set: make(model.Spans, 0, s.n)} }

func (d *DeviceTime) setBusyTimes(x *Index) {
	t := x.T
	first := &t.GPU[d.Ops[0]]
	d.Window = model.Span{Start: first.Start, End: first.End}
	comm, other := false, false
	for _, i := range d.Ops {
		g := &t.GPU[i]
		d.Window.End = max(d.Window.End, g.End)
		if g.Kind != model.Kernel {
			other = true
			continue
		}
		comm = comm || isCommunication(x.class[i])
		d.Kernels++
		if g.Launch >= 0 {
			d.Linked++
		}
	}
	d.ActiveSpan = d.Window
	d.Busy = d.Union(t, func(int, int32) bool { return true })
	d.Kernel, d.Compute = d.Busy, d.Busy
	if other {
		d.Kernel = d.Union(t, func(_ int, i int32) bool { return t.GPU[i].Kind == model.Kernel })
		d.Memcpy = d.Union(t, func(_ int, i int32) bool { return t.GPU[i].Kind == model.Memcpy })
		d.Memset = d.Union(t, func(_ int, i int32) bool { return t.GPU[i].Kind == model.Memset })
		d.Compute = d.Kernel
	}
	if comm {
		d.Compute = d.Union(t, func(_ int, i int32) bool { return t.GPU[i].Kind == model.Kernel && !isCommunication(x.class[i]) })
		d.Comm = d.Union(t, func(_ int, i int32) bool { return t.GPU[i].Kind == model.Kernel && isCommunication(x.class[i]) })
	}
}

// Union returns the time in which at least one operation that ok accepts runs. The arguments of ok are k, an index into
// d.Ops, and i, an index into t.GPU.
func (d *DeviceTime) Union(t *model.Trace, ok func(k int, i int32) bool) model.Spans {
	var s spanBuilder
	for pass := range 2 {
		if pass > 0 {
			s = s.withCapacity()
		}
		for k, i := range d.Ops {
			if ok(k, i) {
				s.add(t.GPU[i].Start, t.GPU[i].End)
			}
		}
	}
	return s.set
}

func (d *DeviceTime) collectLaunches(t *model.Trace) {
	v := make([]int64, 0, len(d.Ops))
	for _, i := range d.Ops {
		if l := t.GPU[i].Launch; l >= 0 {
			v = append(v, t.Host[l].Start)
		}
	}
	slices.Sort(v)
	d.Launches = slices.Compact(v)
}

// splitIdle divides the time between busy spans. A wait ends with the operation that starts the next busy span (see
// EndOfWait). The device is starved until the launch of that operation, and queued after it. If the launch is earlier
// than the wait, all of the wait is queued; if it is later (the two clocks disagree), all of it is starved.
func (d *DeviceTime) splitIdle(t *model.Trace) {
	var starved, queued, unknown spanBuilder
	for pass := range 2 {
		if pass > 0 {
			starved, queued, unknown = starved.withCapacity(), queued.withCapacity(), unknown.withCapacity()
		}
		ops := d.Ops
		for i := range len(d.Busy) + 1 {
			from, to := d.idleBefore(i)
			if from >= to {
				continue
			}
			for len(ops) > 0 && t.GPU[ops[0]].Start < to {
				ops = ops[1:]
			}
			launch, known := launchOf(t, ops, to)
			if to > d.ActiveSpan.End { // the wait ends with the step: no launch ends it
				launch, known = to, true
			}
			if !known {
				unknown.add(from, to)
				continue
			}
			launch = min(max(launch, from), to)
			starved.add(from, launch)
			queued.add(launch, to)
		}
	}
	d.Starved, d.Queued, d.Unknown = starved.set, queued.set, unknown.set
}

// idleBefore returns the idle time before the i-th busy span, or after the last one. The window can be longer than the
// busy spans because operations of zero length count in it.
func (d *DeviceTime) idleBefore(i int) (from, to int64) {
	from, to = d.Window.Start, d.Window.End
	if i > 0 {
		from = d.Busy[i-1].End
	}
	if i < len(d.Busy) {
		to = d.Busy[i].Start
	}
	return from, to
}

// launchOf returns the start time of the call that launched the operation whose start ends a wait of the device. The
// wait ends at the time at; ops are the operations from there on. known is false if the launch was not recorded.
func launchOf(t *model.Trace, ops []int32, at int64) (launch int64, known bool) {
	pick := EndOfWait(t, ops, at)
	if pick < 0 || t.GPU[pick].Launch < 0 {
		return 0, false
	}
	return t.Host[t.GPU[pick].Launch].Start, true
}

// EndOfWait returns the operation whose start ends a wait of the device at the time at, or -1. ops are the operations
// from at on, sorted by start. The first operation of positive length that starts at that time is preferred, because
// an operation of zero length starts no busy span.
func EndOfWait(t *model.Trace, ops []int32, at int64) int32 {
	pick := int32(-1)
	for _, i := range ops {
		g := &t.GPU[i]
		if g.Start != at {
			break
		}
		if pick < 0 {
			pick = i
		}
		if g.End > g.Start {
			return i
		}
	}
	return pick
}

// Priorities of operations that overlap: their time counts for the operation with the lowest value, and for the one
// that began first among equal values. See sweepClasses.
const (
	priorityCompute = iota
	priorityComm
	priorityMemcpy
	priorityMemset
	priorities
)

// sweepClasses assigns every busy nanosecond to one class. Where operations overlap, computation counts before
// communication, then copies, then fills; within one of these, the operation that began first counts.
func (d *DeviceTime) sweepClasses(x *Index) {
	gpu := x.T.GPU
	var sum [maxClasses]int64
	var queues [priorities]opQueue
	d.segments = make([]classSegment, 0, len(d.Busy)+len(d.Busy)/8)
	at, next := int64(0), 0
	for {
		best := activeOp(gpu, &queues, at)
		switch {
		case best >= 0: // up to the time at which the operation ends or another begins
			until := gpu[best].End
			if next < len(d.Ops) {
				until = min(until, gpu[d.Ops[next]].Start)
			}
			sum[x.class[best]] += until - at
			d.addSegment(model.Span{Start: at, End: until}, x.class[best])
			at = until
		case next == len(d.Ops):
			d.Classes = classMap(&sum)
			return
		default:
			at = gpu[d.Ops[next]].Start
		}
		for ; next < len(d.Ops) && gpu[d.Ops[next]].Start <= at; next++ {
			i := d.Ops[next]
			if g := &gpu[i]; g.End > g.Start {
				queues[overlapPriority(g, x.class[i])].push(i)
			}
		}
	}
}

func (d *DeviceTime) addSegment(s model.Span, class uint8) {
	if n := len(d.segments); n > 0 && d.segments[n-1].End == s.Start && d.segments[n-1].class == class {
		d.segments[n-1].End = s.End
		return
	}
	d.segments = append(d.segments, classSegment{s, class})
}

type opQueue struct {
	ops  []int32
	head int // index into ops of the first operation that may still run
}

func (w *opQueue) push(op int32) {
	if w.head == len(w.ops) {
		w.ops, w.head = w.ops[:0], 0
	}
	w.ops = append(w.ops, op)
}

// activeOp returns the running operation with the highest priority at a time, or -1 if none is running.
func activeOp(gpu []model.GPU, queues *[priorities]opQueue, at int64) int32 {
	for r := range queues {
		q := &queues[r]
		for q.head < len(q.ops) && gpu[q.ops[q.head]].End <= at {
			q.head++
		}
		if q.head < len(q.ops) {
			return q.ops[q.head]
		}
	}
	return -1
}

func overlapPriority(g *model.GPU, class uint8) int {
	switch {
	case g.Kind == model.Memcpy:
		return priorityMemcpy
	case g.Kind == model.Memset:
		return priorityMemset
	case isCommunication(class):
		return priorityComm
	}
	return priorityCompute
}
