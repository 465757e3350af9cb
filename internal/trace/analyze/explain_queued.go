package analyze

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// LatencyLimit is the longest delay from a launch to its operation that counts as launch latency, which is usually 5 to
// 10 us. A longer delay has another cause.
const LatencyLimit = 20_000 // ns

// queueContext holds the state for explaining queued time while it walks the operations of a device.
type queueContext struct {
	x *Index
	d *DeviceTime
	// last maps each stream to the operation that began last on it; before is the operation of any stream that ended
	// last.
	last   map[int64]int32
	before int32
	begun  map[int32]bool // the graph launches of which at least one operation has begun
	// waits holds the recorded event waits by waiting stream, in the order of their calls.
	waits       map[int64][]recordedWait
	records     map[int64]int32 // host calls that record events, by correlation id
	memoryCalls []model.Span    // calls that allocate or free device memory in the driver
}

type recordedWait struct {
	call int32
	wait *model.StreamWait
}

func (x *Index) newQueueContext(d *DeviceTime) *queueContext {
	v := &queueContext{x: x, d: d, last: map[int64]int32{}, before: -1, begun: map[int32]bool{}, waits: map[int64][]recordedWait{}, records: map[int64]int32{}}
	byCorr := map[int64]*model.StreamWait{}
	for i := range x.T.Waits {
		w := &x.T.Waits[i]
		byCorr[w.Corr] = w
		v.records[w.Record] = -1
	}
	for i := range x.T.Host {
		h := &x.T.Host[i]
		if h.Kind != model.API {
			continue
		}
		if w := byCorr[h.Corr]; w != nil && h.Corr != 0 {
			v.waits[w.Stream] = append(v.waits[w.Stream], recordedWait{int32(i), w})
		}
		if _, awaited := v.records[h.Corr]; awaited && h.Corr != 0 {
			v.records[h.Corr] = int32(i)
		}
		if c := x.Info[h.Name].call; c == model.CallAlloc || c == model.CallFree {
			v.memoryCalls = append(v.memoryCalls, model.Span{Start: h.Start, End: h.End})
		}
	}
	for _, w := range v.waits {
		slices.SortFunc(w, func(a, b recordedWait) int { return cmp.Compare(x.T.Host[a.call].Start, x.T.Host[b.call].Start) })
	}
	return v
}

// QueuedWaits returns the reasons for which a device was idle although its next operation was already launched.
func (x *Index) QueuedWaits(d *DeviceTime) WaitSums {
	out := WaitSums{}
	v := x.newQueueContext(d)
	queued := d.Queued.And(x.Steady)
	for _, g := range d.Ops {
		op := &x.T.GPU[g]
		for len(queued) > 0 && queued[0].End < op.Start {
			queued = queued[1:]
		}
		if len(queued) > 0 && queued[0].End == op.Start && op.End > op.Start && op.Launch >= 0 {
			v.explainWait(g, queued[0], out)
			queued = queued[1:]
		}
		v.addOperation(g)
	}
	return out
}

func (v *queueContext) addOperation(g int32) {
	op := &v.x.T.GPU[g]
	v.last[op.Stream] = g
	if v.before < 0 || op.End >= v.x.T.GPU[v.before].End {
		v.before = g
	}
	if op.Launch >= 0 && (op.Graph || v.x.Call(op.Launch) == model.CallGraph) {
		v.begun[op.Launch] = true
	}
}

// explainWait assigns the wait q before operation g to reasons in out. Time inside the call that launches g counts for
// that call if it exceeds LatencyLimit. The rest of q counts for the reason that delayReason returns.
func (v *queueContext) explainWait(g int32, q model.Span, out WaitSums) {
	t := v.x.T
	op := &t.GPU[g]
	call := &t.Host[op.Launch]
	if n := min(q.End, call.End) - max(q.Start, call.Start); n > LatencyLimit {
		out.addWait("for the call that launches the work to return", "in "+t.Name(call.Name), n)
		if q.Start = max(q.Start, call.End); q.Len() <= 0 {
			return
		}
	}
	kind, example := v.delayReason(g, q)
	out.addWait(kind, example, q.Len())
}

// delayReason returns the reason for which the launched operation g did not begin during q, and an example for the
// text.
func (v *queueContext) delayReason(g int32, q model.Span) (kind, example string) {
	t := v.x.T
	op := &t.GPU[g]
	before := "before " + ShortName(t.Name(op.Name))
	if text := v.eventText(g); text != "" {
		return text, ""
	}
	if v.x.Call(op.Launch) == model.CallGraph || op.Graph {
		if !v.begun[op.Launch] {
			return "for CUDA graphs to begin after their launch", before
		}
		return "between the operations of CUDA graphs", before
	}
	if q.Len() <= LatencyLimit {
		return "for single operations to begin after their launch (launch latency)", ""
	}
	if op.Kind == model.Memcpy && op.Dir == model.H2D && op.Memory == model.Pageable {
		return "for the driver to stage pageable memory", "before " + t.Name(op.Name)
	}
	if v.before >= 0 && t.GPU[v.before].Stream != op.Stream {
		return v.describeWait(v.before, op.Stream), ""
	}
	if text := v.concurrentWork(q); text != "" {
		return text, ""
	}
	if v.before >= 0 && v.x.Class(v.before).Communicates() {
		return v.describeWait(v.before, op.Stream), ""
	}
	return "for a reason that is not in the trace", before
}

func (v *queueContext) describeWait(g int32, stream int64) string {
	return fmt.Sprintf("on stream %d after %s", stream, v.describeOp(g))
}

func (v *queueContext) describeOp(g int32) string {
	t := v.x.T
	op := &t.GPU[g]
	what := "kernel "
	switch {
	case v.x.Class(g).Communicates():
		what = "communication "
	case op.Kind == model.Memcpy:
		what = "copy "
	case op.Kind == model.Memset:
		what = "fill "
	}
	return fmt.Sprintf("%s%s of stream %d", what, ShortName(t.Name(op.Name)), op.Stream)
}

// eventText describes the wait of operation g for an event (cudaStreamWaitEvent). It uses the recorded event waits, or
// the calls before the launch if the trace has none. The text is "" without such a wait.
func (v *queueContext) eventText(g int32) string {
	t := v.x.T
	op := &t.GPU[g]
	launched := t.Host[op.Launch].Start
	since := int64(-1 << 62) // launch of the previous operation on this stream
	if p, ok := v.last[op.Stream]; ok && t.GPU[p].Launch >= 0 {
		since = t.Host[t.GPU[p].Launch].Start
	}
	for _, w := range slices.Backward(v.waits[op.Stream]) {
		if at := t.Host[w.call].Start; at > since && at <= launched {
			return v.eventTarget(w.wait, op)
		}
	}
	if len(t.Waits) > 0 || !v.eventBefore(op.Launch) {
		return ""
	}
	if v.before >= 0 && t.GPU[v.before].Stream != op.Stream {
		return fmt.Sprintf("on stream %d for an event (cudaStreamWaitEvent), last after %s", op.Stream, v.describeOp(v.before))
	}
	return fmt.Sprintf("on stream %d for an event (cudaStreamWaitEvent)", op.Stream)
}

// eventTarget describes the operation for which op waited by the event wait w. It is the last operation on stream w.On
// that began before op and was launched before the event was recorded. An unrecorded launch counts as earlier.
func (v *queueContext) eventTarget(w *model.StreamWait, op *model.GPU) string {
	text := fmt.Sprintf("on stream %d for an event of stream %d (cudaStreamWaitEvent)", op.Stream, w.On)
	if w.On < 0 {
		text = fmt.Sprintf("on stream %d for an event (cudaStreamWaitEvent)", op.Stream)
	}
	recorded, known := v.records[w.Record]
	best := int32(-1)
	for _, d := range v.x.Devices {
		for _, g := range d.Ops {
			o := &v.x.T.GPU[g]
			if o.Start >= op.Start {
				break
			}
			if o.Stream != w.On || known && recorded >= 0 && o.Launch >= 0 && v.x.T.Host[o.Launch].Start > v.x.T.Host[recorded].Start {
				continue
			}
			best = g
		}
	}
	if best < 0 {
		return text
	}
	return text + " after " + v.describeOp(best)
}

// mostLookBack is the number of host events before a launch that are searched for a wait call.
const mostLookBack = 64

// eventBefore reports whether the thread of a launch called cudaStreamWaitEvent between its previous launch and this
// launch.
func (v *queueContext) eventBefore(launch int32) bool {
	t := v.x.T
	for i := launch - 1; i >= max(0, launch-mostLookBack) && t.Host[i].Lane == t.Host[launch].Lane; i-- {
		switch v.x.Call(i) {
		case model.CallWaitEvent:
			return true
		case model.CallLaunch, model.CallGraph, model.CallCopy, model.CallFill:
			return false
		}
	}
	return false
}

// concurrentWork describes activity that may have delayed the device during q because it takes at least half of q: a
// call that allocates or frees device memory, or work on another device. It returns "" without any.
func (v *queueContext) concurrentWork(q model.Span) string {
	for _, c := range v.memoryCalls {
		if 2*(min(c.End, q.End)-max(c.Start, q.Start)) >= q.Len() {
			return "while the program allocates memory from the driver or frees it (cudaMalloc, cudaFree)"
		}
	}
	for _, d := range v.x.Devices {
		if d == v.d {
			continue
		}
		for _, s := range []struct {
			spans model.Spans
			what  string
		}{{d.Comm, "communicates"}, {d.Busy, "works"}} {
			if 2*s.spans.TotalIn(q) >= q.Len() {
				return fmt.Sprintf("while device %d %s", v.x.DeviceID(d.Device), s.what)
			}
		}
	}
	return ""
}

// unknownWaits returns the waits of a device before operations without a recorded launch.
func (x *Index) unknownWaits(d *DeviceTime) WaitSums {
	out := WaitSums{}
	unknown := d.Unknown.And(x.Steady)
	for _, g := range d.Ops {
		op := &x.T.GPU[g]
		for len(unknown) > 0 && unknown[0].End < op.Start {
			unknown = unknown[1:]
		}
		if len(unknown) > 0 && unknown[0].End == op.Start && op.End > op.Start {
			out.addWait("before "+ShortName(x.T.Name(op.Name)), "", unknown[0].Len())
			unknown = unknown[1:]
		}
	}
	return out
}
