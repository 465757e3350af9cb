package analyze

import (
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// DeviceTime is where one device's time went, first operation to last.
// Kernel, Memcpy and Memset may overlap; Busy is their union. Starved, Queued
// and Unknown are disjoint and make up what is not Busy.
type DeviceTime struct {
	Device int // index into T.Devices
	// Window is from the first to the last of them. Where nothing repeats (one step,
	// or none found) the main device's begins with that, and ends with the one step,
	// so that the wait before the first operation and after the last one counts.
	Window model.Span
	Ops    []int32 // indices into T.GPU, by start

	Busy, Kernel, Memcpy, Memset model.Spans
	Compute                      model.Spans // kernels that are not communication
	Comm                         model.Spans // communication kernels
	// Starved: the device waited for a launch that the host had not made yet.
	// Queued: the launch was made and the device had not begun. Unknown: the
	// operation that ended the wait has no known launch.
	Starved, Queued, Unknown model.Spans
	// Classes has each busy nanosecond once; see sweep.
	Classes map[model.Class]int64
	Kernels int // kernels
	Linked  int // kernels whose launch is known
	// Lead is the wait from the start of the first step to the first operation.
	Lead Waits
	// worked is from the first start to the last end of its operations.
	Worked model.Span

	// Launches are the starts of the calls that launched its operations, in order.
	Launches []int64

	segments []segment
}

// segment is a stretch of time in which one class of work counts.
type segment struct {
	model.Span
	class uint8
}

// ClassesIn is the device's busy time in a span by class, each nanosecond once.
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

// account makes the accounts of all devices.
func (x *Index) account() {
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
			d.merge(x)
			d.sweep(x)
		})
		wg.Go(func() { d.launches(x.T) })
	}
	wg.Wait()
	x.countLeadIn()
	for _, d := range x.Devices {
		d.idle(x.T)
		if len(x.Steps) > 0 {
			d.lead(x.T, x.Steps[0].Host.Start)
		}
	}
	if len(x.Devices) == 0 {
		x.warnNoDevice()
	}
}

// warnNoDevice says that no device was recorded, and of launches that their kernels are lost.
func (x *Index) warnNoDevice() {
	again := "record with ProfilerActivity.CUDA, on a machine with a GPU"
	switch {
	case x.T.Gate.Launches > 0:
		x.warn("lost-kernels", LostKernels(x.T)+": nothing can be said of the device", "record again while no other profiler or monitor (Nsight, DCGM, a second profiler) reads the device, with a driver as new as the profiler")
		return
	case x.T.Format == model.XLA:
		again = "record on a machine with a GPU or TPU"
	case x.T.Format != model.Kineto:
		again = "let the recording cover work on a GPU"
	}
	x.warn("no-device", "no device was recorded: operators, steps and data loading are shown, and nothing can be said of a GPU", again)
}

// LostKernels is the sentence of a trace that has launches and nothing of a device.
func LostKernels(t *model.Trace) string {
	on := "a device"
	for i := range t.Devices {
		if t.Devices[i].Name != "" {
			on = t.Devices[i].Name
			break
		}
	}
	return fmt.Sprintf("%s on %s and none of the kernels they started: the records of the device were lost", Plural(t.Gate.Launches, "launch was recorded", "launches were recorded"), on)
}

// growing is a set of instants built from spans in order of their starts. It
// is built twice, to be counted and to be kept: a trace has millions of pieces
// and no memory to spare for lists that double.
type growing struct {
	set  model.Spans
	n    int
	last model.Span
}

func (s *growing) add(from, to int64) {
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

// counted is a set with room for the n pieces that were counted.
func (s *growing) counted() growing { return growing{set: make(model.Spans, 0, s.n)} }

// merge makes the unions of operations by kind.
func (d *DeviceTime) merge(x *Index) {
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
		comm = comm || communicates(x.class[i])
		d.Kernels++
		if g.Launch >= 0 {
			d.Linked++
		}
	}
	d.Worked = d.Window
	d.Busy = d.Union(t, func(int, int32) bool { return true })
	d.Kernel, d.Compute = d.Busy, d.Busy
	if other {
		d.Kernel = d.Union(t, func(_ int, i int32) bool { return t.GPU[i].Kind == model.Kernel })
		d.Memcpy = d.Union(t, func(_ int, i int32) bool { return t.GPU[i].Kind == model.Memcpy })
		d.Memset = d.Union(t, func(_ int, i int32) bool { return t.GPU[i].Kind == model.Memset })
		d.Compute = d.Kernel
	}
	if comm {
		d.Compute = d.Union(t, func(_ int, i int32) bool { return t.GPU[i].Kind == model.Kernel && !communicates(x.class[i]) })
		d.Comm = d.Union(t, func(_ int, i int32) bool { return t.GPU[i].Kind == model.Kernel && communicates(x.class[i]) })
	}
}

// Union is the time in which an operation was under way that ok accepts, by its place in
// Ops and its index.
func (d *DeviceTime) Union(t *model.Trace, ok func(k int, i int32) bool) model.Spans {
	var s growing
	for pass := range 2 {
		if pass > 0 {
			s = s.counted()
		}
		for k, i := range d.Ops {
			if ok(k, i) {
				s.add(t.GPU[i].Start, t.GPU[i].End)
			}
		}
	}
	return s.set
}

func (d *DeviceTime) launches(t *model.Trace) {
	v := make([]int64, 0, len(d.Ops))
	for _, i := range d.Ops {
		if l := t.GPU[i].Launch; l >= 0 {
			v = append(v, t.Host[l].Start)
		}
	}
	slices.Sort(v)
	d.Launches = slices.Compact(v)
}

// idle divides the time between busy pieces. The wait ends with the operation
// that starts the next piece (see launchOf). Until its launch began the device was starved, after it
// queued. A launch before the wait began leaves all of it queued; one after
// the operation started (the clocks of host and device disagree) leaves all of
// it starved.
func (d *DeviceTime) idle(t *model.Trace) {
	var starved, queued, unknown growing
	for pass := range 2 {
		if pass > 0 {
			starved, queued, unknown = starved.counted(), queued.counted(), unknown.counted()
		}
		ops := d.Ops
		for i := range len(d.Busy) + 1 {
			from, to := d.gap(i)
			if from >= to {
				continue
			}
			for len(ops) > 0 && t.GPU[ops[0]].Start < to {
				ops = ops[1:]
			}
			launch, known := launchOf(t, ops, to)
			if to > d.Worked.End { // no launch comes before the step ends
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

// gap is the time before the i-th busy piece, or after the last; operations
// without length can make the window longer than what is busy.
func (d *DeviceTime) gap(i int) (from, to int64) {
	from, to = d.Window.Start, d.Window.End
	if i > 0 {
		from = d.Busy[i-1].End
	}
	if i < len(d.Busy) {
		to = d.Busy[i].Start
	}
	return from, to
}

// launchOf is the start of the launch of the operation that ends a wait.
func launchOf(t *model.Trace, ops []int32, at int64) (launch int64, known bool) {
	pick := EndOfWait(t, ops, at)
	if pick < 0 || t.GPU[pick].Launch < 0 {
		return 0, false
	}
	return t.Host[t.GPU[pick].Launch].Start, true
}

// EndOfWait is the operation that ends a wait, -1 none: of those at the front of
// ops that start at that instant the first one, which is the shortest.
// Operations without length start no busy piece; they count where nothing else
// starts, at the end of the window.
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

// Ranks of operations that overlap: of those under way the first rank counts,
// and within it the one that began first.
const (
	rankCompute = iota
	rankComm
	rankMemcpy
	rankMemset
	ranks
)

// sweep gives every busy nanosecond to one class. Where operations overlap,
// kernels count before copies and copies before fills, computation before
// communication, and then what began first.
func (d *DeviceTime) sweep(x *Index) {
	gpu := x.T.GPU
	var sum [maxClasses]int64
	var queues [ranks]waiting
	d.segments = make([]segment, 0, len(d.Busy)+len(d.Busy)/8)
	at, next := int64(0), 0
	for {
		best := front(gpu, &queues, at)
		switch {
		case best >= 0: // up to the next change: it ends or another begins
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
				queues[rankOf(g, x.class[i])].add(i)
			}
		}
	}
}

func (d *DeviceTime) addSegment(s model.Span, class uint8) {
	if n := len(d.segments); n > 0 && d.segments[n-1].End == s.Start && d.segments[n-1].class == class {
		d.segments[n-1].End = s.End
		return
	}
	d.segments = append(d.segments, segment{s, class})
}

// waiting is a queue of operations under way, by start.
type waiting struct {
	ops  []int32
	head int // those before it are over
}

func (w *waiting) add(op int32) {
	if w.head == len(w.ops) {
		w.ops, w.head = w.ops[:0], 0
	}
	w.ops = append(w.ops, op)
}

// front is the operation that counts at an instant, -1 when none is under way.
func front(gpu []model.GPU, queues *[ranks]waiting, at int64) int32 {
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

func rankOf(g *model.GPU, class uint8) int {
	switch {
	case g.Kind == model.Memcpy:
		return rankMemcpy
	case g.Kind == model.Memset:
		return rankMemset
	case communicates(class):
		return rankComm
	}
	return rankCompute
}
