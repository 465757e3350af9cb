package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	// overrunNS is the longest accepted overlap of consecutive records of a stream: old profilers round to microseconds.
	overrunNS = 1000
	// apartNS is the longest accepted pause in a recording, ns. Records beyond a longer pause have wrong times.
	apartNS = 24 * 3600 * 1_000_000_000
	// lateNS is the longest accepted time from the span of the host events to device work. If that span is longer than
	// lateNS, its length is the limit.
	lateNS = 60 * 1_000_000_000
	// faultyShare: a device is faulty if more than 1/faultyShare of its records are invalid.
	faultyShare = 100
)

// GateCount counts the records of a device, and the invalid ones by kind.
type GateCount struct {
	Records  int // all records of the reader
	Untimed  int // removed (time 0, or far from all others), or set to length 0 (end before start)
	Overruns int // shortened: the record overlaps the next one of its stream
	Shared   int // unlinked: their launch call, which is no graph launch, had already started another kernel
}

// Failed returns the number of invalid records.
func (g *GateCount) Failed() int { return g.Untimed + g.Overruns + g.Shared }

// Gate counts the invalid records of a trace, which Finish removes or repairs.
type Gate struct {
	Devices  []GateCount // by index into Trace.Devices
	Host     int         // removed host events without a time
	Launches int         // calls that start kernels, including graph launches
}

// Faulty reports whether so many records of a device are invalid that idle time and launch links are unreliable.
func (g *Gate) Faulty(device int) bool {
	if device >= len(g.Devices) {
		return false
	}
	c := &g.Devices[device]
	return c.Failed()*faultyShare > c.Records
}

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

// dropUntimed removes records with time 0 or far from all others. Device records that end before they start get
// length 0.
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

// extents are the first start, the last start and the last end of all events, and the spans of host and of device
// events.
type extents struct {
	first, last, end int64
	host             Span // without events of kind Instant
	device           Span
	zeros            bool // an event starts and ends at time 0 of the file
}

// scanTimes scans all events once. Host events that end before they start get length 0.
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
			e.host.Start, e.host.End = min(e.host.Start, h.Start), max(e.host.End, h.End)
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

// recordedWindow holds the time spans of valid records: host events and device operations.
type recordedWindow struct {
	host, device Span
	zero         int64 // time 0 of the file
	zeroWrong    bool  // events that start and end at zero are invalid: no other event begins near zero
}

func (w *recordedWindow) isWrong(s, in Span) bool {
	return w.zeroWrong && s.Start == w.zero && s.End == w.zero || s.Start < in.Start || s.End > in.End
}

// zeroNS: time 0 is valid only if the first record of the file begins within zeroNS of it.
const zeroNS = 1_000_000

// findWindow returns the time spans of valid records. Host events must lie within apartNS of the largest group of
// events without a pause longer than apartNS. Device records must lie near the host events of that group (lateNS).
// fine reports that all records are valid.
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
	calls := e.host
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

// largestGroup returns the first and last start of the largest group without a pause of more than apartNS.
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
		if hi-lo >= most { // of equally large groups, take the later one: times that were not recorded are 0
			most, first, last = hi-lo, starts[lo], starts[hi-1]
		}
		lo = hi
	}
	return first, last
}

// streamKey identifies a stream; stream numbers count per process and device.
type streamKey struct {
	stream  int64
	process int32
	device  uint16
}

// clipOverruns ends each record at the start of the next record of its stream. It leaves kernels that may overlap:
// kernels of a graph and, from compute capability 9.0 on, dependent kernels (programmatic dependent launch).
func (k *recordGate) clipOverruns() {
	nested := k.t.Format == XLA // operations of a TPU nest: a loop is an operation too
	var streams []streamLast
	at := map[streamKey]int{} // index in streams; findStream reads it only if there are many streams
	here := 0
	for i := range k.t.GPU {
		g := &k.t.GPU[i]
		if g.Memory == Migrated { // the driver moves pages outside the streams
			continue
		}
		key := streamKey{g.Stream, g.Process, g.Device}
		if here >= len(streams) || streams[here].key != key {
			if here = findStream(streams, at, key); here == len(streams) {
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

type streamLast struct {
	key  streamKey
	last int32
}

func findStream(streams []streamLast, at map[streamKey]int, key streamKey) int {
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

// overlapsDependents reports whether consecutive kernels of a stream may overlap on a device.
func (k *recordGate) overlapsDependents(device uint16) bool {
	return int(device) < len(k.t.Devices) && k.t.Devices[device].Major >= dependentLaunch && !k.t.Devices[device].AMD()
}

// dependentLaunch is the least major compute capability with overlapping kernels in a stream.
const dependentLaunch = 9

func (k *recordGate) isGraphOp(g *GPU) bool {
	return g.Graph || g.Launch >= 0 && k.callOf(g.Launch) == CallGraph
}

func (k *recordGate) callOf(host int32) Call {
	if n := k.t.Host[host].Name; int(n) < len(k.calls) {
		return k.calls[n]
	}
	return CallNone
}

// unlinkShared sets Launch to -1 for kernels whose launch call already started an earlier kernel. Graph launches may
// start several kernels.
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

// warnLeftOut warns about removed host events. The rule trace-quality reports removed device records.
func (t *Trace) warnLeftOut() {
	if n := t.Gate.Host; n > 0 {
		t.Warn("bad-times", fmt.Sprintf("%d host events have the time 0, or one far from all others, and are left out", n), "")
	}
}

// Describe describes the invalid records, "" if there are none.
func (g *GateCount) Describe() string {
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

// readCalls classifies every API name once and counts launches.
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

// gpuBefore orders operations by start, then by end.
func gpuBefore(a, b *GPU) bool {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) < 0
}
