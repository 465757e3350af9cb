package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	// overrunNS is the longest time by which a record may run over the next one of its stream: old profilers round
	// starts and lengths to microseconds.
	overrunNS = 1000
	// apartNS is the longest pause within a recording. Records that a longer one separates carry a wrong time.
	apartNS = 24 * 3600 * 1_000_000_000
	// lateNS is the least time for which a device may work before the first and after the last host event; a longer
	// recording of the host extends it to the length of that recording.
	lateNS = 60 * 1_000_000_000
	// faultyShare: a device is faulty if more than one record in so many fails.
	faultyShare = 100
)

// GateCount counts the records of a device that fail the gate.
type GateCount struct {
	Records  int // that the reader handed over
	Untimed  int // left out, as the time is 0 or far from all others; or without length, as it ends before it starts
	Overruns int // clipped: they run over the start of the next record of their stream
	Shared   int // unlinked: a plain launch starts one kernel, and theirs owns another
}

// Failed returns the number of failed records.
func (g *GateCount) Failed() int { return g.Untimed + g.Overruns + g.Shared }

// Gate counts the records that fail.
type Gate struct {
	Devices  []GateCount // by index into Trace.Devices
	Host     int         // host events without a time, left out
	Launches int         // calls that start kernels, graph launches among them
}

// Faulty reports whether so many records of a device fail that its idle time and its links to launches are
// unreliable.
func (g *Gate) Faulty(device int) bool {
	if device >= len(g.Devices) {
		return false
	}
	c := &g.Devices[device]
	return c.Failed()*faultyShare > c.Records
}

// recordGate checks the records of a trace that is sorted and linked.
type recordGate struct {
	t     *Trace
	calls []Call // by NameID
}

func (g *Gate) countsOf(device uint16) *GateCount {
	for len(g.Devices) <= int(device) {
		g.Devices = append(g.Devices, GateCount{})
	}
	return &g.Devices[device]
}

// dropUntimed leaves out the records whose time is zero, or apart from all others by more than the recording could
// last, and repairs records that end before they start.
func (t *Trace) dropUntimed() {
	for i := range t.GPU {
		g := &t.GPU[i]
		c := t.Gate.countsOf(g.Device)
		c.Records++
		if g.End < g.Start {
			c.Untimed++
			g.End = g.Start
		}
	}
	var e extents
	e.scanTimes(t)
	w, fine := e.findWindow(t)
	if fine {
		return
	}
	n, before := len(t.Host), len(t.GPU)
	t.Host = slices.DeleteFunc(t.Host, func(h Host) bool { return w.isWrong(Span{h.Start, h.End}, w.host) })
	t.GPU = slices.DeleteFunc(t.GPU, func(g GPU) bool {
		wrong := w.isWrong(Span{g.Start, g.End}, w.device)
		if wrong {
			t.Gate.countsOf(g.Device).Untimed++
		}
		return wrong
	})
	if t.Gate.Host = n - len(t.Host); t.Gate.Host > 0 || len(t.GPU) < before {
		t.First = max(t.First, Extent(t).Start)
	}
}

// extents are the first start, the last start and the last end of all events, and of calls and device records
// separately.
type extents struct {
	first, last, end int64
	calls            Span // of host events that are no marks
	device           Span
	zeros            bool // some event has the time 0 of the file, and no length
}

// scanTimes scans all events once; host events that end before they start get no length.
func (e *extents) scanTimes(t *Trace) {
	*e = extents{math.MaxInt64, math.MinInt64, math.MinInt64, Span{math.MaxInt64, math.MinInt64}, Span{math.MaxInt64, math.MinInt64}, false}
	for i := range t.Host {
		h := &t.Host[i]
		h.End = max(h.End, h.Start)
		if h.Start == t.Shift && h.End == t.Shift {
			e.zeros = true
			continue
		}
		e.first, e.last, e.end = min(e.first, h.Start), max(e.last, h.Start), max(e.end, h.End)
		if h.Kind != Instant {
			e.calls.Start, e.calls.End = min(e.calls.Start, h.Start), max(e.calls.End, h.End)
		}
	}
	for i := range t.GPU {
		g := &t.GPU[i]
		if g.Start == t.Shift && g.End == t.Shift {
			e.zeros = true
			continue
		}
		e.first, e.last, e.end = min(e.first, g.Start), max(e.last, g.Start), max(e.end, g.End)
		e.device.Start, e.device.End = min(e.device.Start, g.Start), max(e.device.End, g.End)
	}
}

// recordedWindow is the time span of valid records.
type recordedWindow struct {
	host, device Span
	zero         int64 // time 0 of the file
	zeroWrong    bool  // no other record begins near it
}

func (w *recordedWindow) isWrong(s, in Span) bool {
	return w.zeroWrong && s.Start == w.zero && s.End == w.zero || s.Start < in.Start || s.End > in.End
}

// zeroNS is the largest distance from time 0 of the first record in a file in which 0 is a valid time.
const zeroNS = 1_000_000

// findWindow returns the time span of valid records: the largest group of starts without a pause of a day, and for
// device records the time near the host's events, if there are any. fine reports that all records are valid.
func (e *extents) findWindow(t *Trace) (w recordedWindow, fine bool) {
	if e.first > e.last {
		return w, true
	}
	w.zero = t.Shift
	first, last := e.first, e.last
	if uint64(last)-uint64(first) > apartNS {
		first, last = t.largestGroup()
	}
	w.zeroWrong = uint64(first)-uint64(w.zero) > zeroNS
	w.host = Span{first - apartNS, last + apartNS}
	calls := e.calls
	if w.isWrong(Span{e.first, e.end}, w.host) {
		calls = Span{math.MaxInt64, math.MinInt64}
		for i := range t.Host {
			if h := &t.Host[i]; h.Kind != Instant && h.Start >= first && h.End <= w.host.End {
				calls.Start, calls.End = min(calls.Start, h.Start), max(calls.End, h.End)
			}
		}
	}
	if w.device = w.host; calls.Start <= calls.End {
		far := max(lateNS, calls.Len())
		w.device = Span{calls.Start - far, calls.End + far}
	}
	device := e.device.Start <= e.device.End
	wrong := e.zeros && w.zeroWrong || w.isWrong(Span{e.first, e.end}, w.host) || device && w.isWrong(e.device, w.device)
	return w, !wrong
}

// largestGroup returns the first and the last start of the largest group without a long pause.
func (t *Trace) largestGroup() (first, last int64) {
	starts := make([]int64, 0, len(t.Host)+len(t.GPU))
	for i := range t.Host {
		starts = append(starts, t.Host[i].Start)
	}
	for i := range t.GPU {
		starts = append(starts, t.GPU[i].Start)
	}
	slices.Sort(starts)
	most := 0
	for lo := 0; lo < len(starts); {
		hi := lo + 1
		for hi < len(starts) && starts[hi]-starts[hi-1] <= apartNS {
			hi++
		}
		if hi-lo >= most { // of two as large the later one: clocks that were not read show 0
			most, first, last = hi-lo, starts[lo], starts[hi-1]
		}
		lo = hi
	}
	return first, last
}

// streamKey identifies a stream: stream numbers count per process and device.
type streamKey struct {
	stream  int64
	process int32
	device  uint16
}

// clipOverruns ends records at the start of the next one of their stream, which runs them one after the other.
// Kernels of a graph run in parallel, and so do kernels from compute capability 9.0 on, where a kernel may begin
// before the end of the kernel it depends on (programmatic dependent launch): it ends later.
func (k *recordGate) clipOverruns() {
	nested := k.t.Format == XLA // operations of a TPU nest in loops, which are operations too
	var streams []streamLast
	at := map[streamKey]int{} // of more streams than are looked through
	here := 0
	for i := range k.t.GPU {
		g := &k.t.GPU[i]
		if g.Memory == Migrated { // the driver moves pages outside the streams
			continue
		}
		key := streamKey{g.Stream, g.Process, g.Device}
		if here >= len(streams) || streams[here].key != key {
			if here = placeOf(streams, at, key); here == len(streams) {
				streams = append(streams, streamLast{key, int32(i)})
				at[key] = here
				continue
			}
		}
		p := &k.t.GPU[streams[here].last]
		streams[here].last = int32(i)
		if p.End-g.Start <= overrunNS || k.isGraphOp(p) || k.isGraphOp(g) || nested && p.Corr == 0 {
			continue
		}
		if k.overlapsDependents(p.Device) && p.Kind == Kernel && g.Kind == Kernel && p.End <= g.End {
			continue
		}
		p.End = g.Start
		k.t.Gate.countsOf(p.Device).Overruns++
	}
}

// streamLast is the last operation of a stream so far.
type streamLast struct {
	key  streamKey
	last int32
}

// placeOf returns the index of a stream, len(streams) for a new one.
func placeOf(streams []streamLast, at map[streamKey]int, key streamKey) int {
	const few = 16
	if len(streams) > few {
		if i, ok := at[key]; ok {
			return i
		}
		return len(streams)
	}
	for i := range streams {
		if streams[i].key == key {
			return i
		}
	}
	return len(streams)
}

// overlapsDependents reports whether kernels of one stream may overlap on a device.
func (k *recordGate) overlapsDependents(device uint16) bool {
	return int(device) < len(k.t.Devices) && k.t.Devices[device].Major >= dependentLaunch && !k.t.Devices[device].AMD()
}

// dependentLaunch is the major compute capability from which on kernels of a stream may overlap.
const dependentLaunch = 9

// isGraphOp reports whether a graph launch started an operation.
func (k *recordGate) isGraphOp(g *GPU) bool {
	return g.Graph || g.Launch >= 0 && k.callOf(g.Launch) == CallGraph
}

func (k *recordGate) callOf(host int32) Call {
	if n := k.t.Host[host].Name; int(n) < len(k.calls) {
		return k.calls[n]
	}
	return CallNone
}

// unlinkShared removes the launch from kernels whose plain launch owns an earlier one.
func (k *recordGate) unlinkShared() {
	owned := make([]bool, len(k.t.Host))
	for i := range k.t.GPU {
		g := &k.t.GPU[i]
		if g.Kind != Kernel || g.Launch < 0 || g.Graph || k.callOf(g.Launch) != CallLaunch {
			continue
		}
		if owned[g.Launch] {
			g.Launch = -1
			k.t.Gate.countsOf(g.Device).Shared++
			continue
		}
		owned[g.Launch] = true
	}
}

// warnLeftOut warns about the host events that were left out; rule trace-quality names the records of devices.
func (t *Trace) warnLeftOut() {
	if n := t.Gate.Host; n > 0 {
		t.Warn("bad-times", fmt.Sprintf("%d host events have the time 0, or one far from all others, and are left out", n), "")
	}
}

// Words describes the failed records, "" without any.
func (g *GateCount) Words() string {
	var parts []string
	for _, p := range []struct {
		n    int
		text string
	}{
		{g.Untimed, "%d have no usable time (0, far from all others, or an end before the start) and count for no time"},
		{g.Overruns, "%d run over the start of the next one of their stream and are ended there"},
		{g.Shared, "%d name a launch that started another kernel, so theirs is unknown"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf(p.text, p.n))
		}
	}
	return strings.Join(parts, "; ")
}

// readCalls classifies the name of every API function once, and counts the launches.
func (k *recordGate) readCalls() {
	k.calls = make([]Call, len(k.t.Names))
	for i := range k.t.Host {
		h := &k.t.Host[i]
		if h.Kind != API || int(h.Name) >= len(k.t.Names) {
			continue
		}
		if k.calls[h.Name] == CallNone {
			k.calls[h.Name] = CallOf(k.t.Names[h.Name])
		}
		if c := k.calls[h.Name]; c == CallLaunch || c == CallGraph {
			k.t.Gate.Launches++
		}
	}
}

// gpuBefore orders operations by start; at equal starts the shorter one goes first.
func gpuBefore(a, b *GPU) bool {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) < 0
}
