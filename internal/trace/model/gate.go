package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	// overrunNS is how far a record may run over the next one of its stream: old profilers
	// round starts and lengths to microseconds.
	overrunNS = 1000
	// apartNS is the longest pause of a recording. Records that a longer one separates
	// carry a wrong time.
	apartNS = 24 * 3600 * 1_000_000_000
	// lateNS is how long a device may work before the first and after the last host event,
	// at least; else as long as the host was recorded.
	lateNS = 60 * 1_000_000_000
	// faultyShare: a device is faulty where more than one record in so many fails.
	faultyShare = 100
)

// GateCount counts the records of a device that fail the gate.
type GateCount struct {
	Records  int // that the reader handed over
	Untimed  int // left out, as the time is 0 or far from all others; or without length, as it ends before it starts
	Overruns int // clipped: they run over the start of the next record of their stream
	Shared   int // unlinked: a plain launch starts one kernel, and theirs owns another
}

// Failed is how many records fail.
func (g *GateCount) Failed() int { return g.Untimed + g.Overruns + g.Shared }

// Gate is the account of the records that fail.
type Gate struct {
	Devices  []GateCount // by index into Trace.Devices
	Host     int         // host events without a time, left out
	Launches int         // calls that start kernels, graph launches among them
}

// Faulty says whether so many records of a device fail that nothing can be told from
// its idle time and from its links to launches.
func (g *Gate) Faulty(device int) bool {
	if device >= len(g.Devices) {
		return false
	}
	c := &g.Devices[device]
	return c.Failed()*faultyShare > c.Records
}

// gate looks at the records of a trace that is sorted and linked.
type gate struct {
	t     *Trace
	calls []Call // by NameID
}

// of is the count of a device.
func (g *Gate) of(device uint16) *GateCount {
	for len(g.Devices) <= int(device) {
		g.Devices = append(g.Devices, GateCount{})
	}
	return &g.Devices[device]
}

// dropUntimed leaves out the records whose time is zero or apart from all others by more
// than the recording could last, and mends those that end before they start.
func (t *Trace) dropUntimed() {
	for i := range t.GPU {
		g := &t.GPU[i]
		c := t.Gate.of(g.Device)
		c.Records++
		if g.End < g.Start {
			c.Untimed++
			g.End = g.Start
		}
	}
	var e extents
	e.look(t)
	w, fine := e.window(t)
	if fine {
		return
	}
	n, before := len(t.Host), len(t.GPU)
	t.Host = slices.DeleteFunc(t.Host, func(h Host) bool { return w.isWrong(Span{h.Start, h.End}, w.host) })
	t.GPU = slices.DeleteFunc(t.GPU, func(g GPU) bool {
		wrong := w.isWrong(Span{g.Start, g.End}, w.device)
		if wrong {
			t.Gate.of(g.Device).Untimed++
		}
		return wrong
	})
	if t.Gate.Host = n - len(t.Host); t.Gate.Host > 0 || len(t.GPU) < before {
		t.First = max(t.First, Extent(t).Start)
	}
}

// extents are the first start, the last start and the last end of events, and of them those
// of device records.
type extents struct {
	first, last, end int64
	calls            Span // of host events that are no marks
	device           Span
	zeros            bool // some event has the time 0 of the file, and no length
}

// look goes over all events once; host events that end before they start get no length.
func (e *extents) look(t *Trace) {
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

// recordedWindow is when records can lie.
type recordedWindow struct {
	host, device Span
	zero         int64 // time 0 of the file
	zeroWrong    bool  // no other record begins near it
}

func (w *recordedWindow) isWrong(s, in Span) bool {
	return w.zeroWrong && s.Start == w.zero && s.End == w.zero || s.Start < in.Start || s.End > in.End
}

// zeroNS is how near to time 0 the first record begins in a file where 0 is a time.
const zeroNS = 1_000_000

// window is when records can lie: in the largest group of starts that no pause of a day
// divides, and those of a device near the host's events, where there are any. It is fine
// where all of them do.
func (e *extents) window(t *Trace) (w recordedWindow, fine bool) {
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

// largestGroup is the first and the last start of the largest group that no pause divides.
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

// streamKey names a stream: numbers of streams count per process and device.
type streamKey struct {
	stream  int64
	process int32
	device  uint16
}

// clipOverruns ends records at the start of the next one of their stream, which runs one
// after the other. Kernels of a graph run side by side, and so do kernels from compute
// capability 9.0 on, where the next one may begin before the end of the one it depends on
// (programmatic dependent launch): it ends later.
func (k *gate) clipOverruns() {
	nested := k.t.Format == XLA // operations of a TPU lie in loops, which are operations as well
	var streams []streamLast
	at := map[streamKey]int{} // of more streams than are looked through
	here := 0
	for i := range k.t.GPU {
		g := &k.t.GPU[i]
		if g.Memory == Migrated { // the driver moves pages beside the streams
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
		if p.End-g.Start <= overrunNS || k.ofGraph(p) || k.ofGraph(g) || nested && p.Corr == 0 {
			continue
		}
		if k.overlapsDependents(p.Device) && p.Kind == Kernel && g.Kind == Kernel && p.End <= g.End {
			continue
		}
		p.End = g.Start
		k.t.Gate.of(p.Device).Overruns++
	}
}

// streamLast is the last operation of a stream so far.
type streamLast struct {
	key  streamKey
	last int32
}

// placeOf is the place of a stream, len(streams) for a new one.
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

// overlapsDependents says whether kernels of one stream may overlap on a device.
func (k *gate) overlapsDependents(device uint16) bool {
	return int(device) < len(k.t.Devices) && k.t.Devices[device].Major >= dependentLaunch && !k.t.Devices[device].AMD()
}

// dependentLaunch is the major compute capability from which kernels of a stream may overlap.
const dependentLaunch = 9

// ofGraph says whether an operation was started by a graph launch.
func (k *gate) ofGraph(g *GPU) bool {
	return g.Graph || g.Launch >= 0 && k.callOf(g.Launch) == CallGraph
}

func (k *gate) callOf(host int32) Call {
	if n := k.t.Host[host].Name; int(n) < len(k.calls) {
		return k.calls[n]
	}
	return CallNone
}

// unlinkShared takes the launch from kernels whose plain launch owns another one that
// began before.
func (k *gate) unlinkShared() {
	owned := make([]bool, len(k.t.Host))
	for i := range k.t.GPU {
		g := &k.t.GPU[i]
		if g.Kind != Kernel || g.Launch < 0 || g.Graph || k.callOf(g.Launch) != CallLaunch {
			continue
		}
		if owned[g.Launch] {
			g.Launch = -1
			k.t.Gate.of(g.Device).Shared++
			continue
		}
		owned[g.Launch] = true
	}
}

// warnLeftOut counts the host events that were left out; rule trace-quality names the records
// of devices.
func (t *Trace) warnLeftOut() {
	if n := t.Gate.Host; n > 0 {
		t.Warn("bad-times", fmt.Sprintf("%d host events have the time 0, or one far from all others, and are left out", n), "")
	}
}

// Words says in words what failed, "" for nothing.
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

// readCalls reads the name of every API function once, and counts the launches.
func (k *gate) readCalls() {
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

// gpuBefore orders operations by start; of those that start at once the shorter goes first.
func gpuBefore(a, b *GPU) bool {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) < 0
}
