package analyze

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

// Collectives describes the communication of one rank in the last complete steps: the start of each collective and the
// work between collectives. Times are in ns. It is small enough to send to other ranks, and suffices to find the rank
// for which the others wait.
type Collectives struct {
	Rank   int    `json:"rank"`   // -1 unknown
	World  int    `json:"world"`  // 0 unknown
	Trace  string `json:"trace"`  // the trace file
	Device string `json:"device"` // name of the device; "" of a recording of the host alone
	OnHost bool   `json:"on_host,omitempty"`
	// Role is a hash of kernel names (operator names without a device). Ranks with equal roles do the same work.
	Role string `json:"role"`
	// Parts divides the device's time in the mean step.
	Parts Parts `json:"parts"`

	Steps model.Column `json:"steps"` // step numbers
	Cut   int          `json:"cut"`   // number of earlier steps that were left out
	Names []string     `json:"names"` // names of kinds and process groups

	// The columns from Kind to After have one entry for each collective, in the order of requests.
	Kind  model.Column `json:"kind"`  // index into Names
	Group model.Column `json:"group"` // index into Names
	Seq   model.Column `json:"seq"`   // number within the group plus one, 0 unknown
	Bytes model.Column `json:"bytes"` // bytes that the rank contributes, 0 unknown
	Step  model.Column `json:"step"`  // index into Steps
	Start model.Column `json:"start"` // ns since the start of the first step
	Dur   model.Column `json:"dur"`
	After model.Column `json:"after"` // the previous collective on the same stream plus one, 0 none

	// Moments lists the events of the rank in order of time, each as a code. Code 2i is the request of collective i.
	// Code 2i+1 is the time at which the rank begins to wait for the end of collective i. Code -1-k is the end of step k.
	// Work, Idle and Held have one entry for each moment and divide the time since the previous one: work of the rank,
	// idle time, and communication that is not listed here. Waits for collectives are in none of them.
	Moments            model.Column `json:"moments"`
	Work               model.Column `json:"work"`
	Idle               model.Column `json:"idle"`
	OtherCommunication model.Column `json:"held"`

	begin         int64 // start of the first step, by the clock of the trace
	input, device int   // indices of the trace file and of the device in Trace.Devices
}

const (
	// mostCollectives limits the collectives that are stored for a rank.
	mostCollectives = 4000
	// adjacentNS is the longest gap, ns, after which an operation still counts as having waited for the end of the
	// previous one: a launched operation begins within a few microseconds.
	adjacentNS = 50_000
	// leastWaitNS is the shortest wait for a collective that counts, ns.
	leastWaitNS = 20_000
	// latestEndNS is the longest delay, ns, with which a library of the host records the end of a collective. Up to 2 ms
	// were measured with gloo on two cores at a load of 13.
	latestEndNS = 5_000_000
)

// CollectivesOf returns the communication of each device of each trace of a job, or of the host if there are no
// devices. A trace without communication yields none.
func CollectivesOf(indexes []*Index) []Collectives {
	out := []Collectives{}
	for _, x := range indexes {
		var found []Collectives
		for _, d := range x.Devices {
			if c := x.collectivesOf(d, synchronizesAll); c != nil {
				found = append(found, *c)
			}
		}
		if len(x.Devices) == 0 {
			if c := x.hostCollectives(); c != nil {
				found = append(found, *c)
			}
		}
		for i := range found {
			if len(found) > 1 { // one process drives several devices
				found[i].Rank = -1
			}
		}
		out = append(out, found...)
	}
	return out
}

type collectiveCall struct {
	model.Span
	requested   int64 // time from which only other ranks delay the collective; at most Start
	kind, group string
	seq, bytes  int64
	stream      int64
	step        int // index into rankTimeline.steps
	after       int // the previous call on the stream plus one, 0 none
}

// rankTimeline holds the steps, collectives and work of one rank, from which buildColumns makes Collectives.
type rankTimeline struct {
	whole   model.Span
	steps   []StepSpan
	calls   []collectiveCall
	compute model.Spans // time in which the rank works
	other   model.Spans // communication that calls omits
	// waited reports whether the host waited for a collective that ended at end before more work began at next.
	waited func(end, next int64) bool
	// lateEnds reports that the recorded end of a call may be later than the time at which the rank resumed.
	lateEnds bool
}

func (x *Index) countedSteps() []StepSpan {
	var out []StepSpan
	for _, s := range x.Steps {
		if !s.Dropped && !s.Empty {
			out = append(out, s)
		}
	}
	if len(out) == 0 && x.Span.Len() > 0 {
		out = []StepSpan{{Name: model.WholeTrace, Host: x.Span, Window: x.Span}}
	}
	return out
}

// stepOf returns the step on the host that contains a time, -1 none.
func stepOf(steps []StepSpan, at int64) int {
	for i := range steps {
		if at >= steps[i].Host.Start && at < steps[i].Host.End {
			return i
		}
	}
	return -1
}

// collectivesOf returns the collectives that ran on device d and whose kind accepts allows; nil without any.
func (x *Index) collectivesOf(d *DeviceTime, accepts func(kind string) bool) *Collectives {
	t := &rankTimeline{steps: x.countedSteps(), compute: d.Compute.Or(d.Memcpy).Or(d.Memset)}
	details := x.T.CollectivesByCorr()
	var other []model.Span
	ready := x.readyTimes(d)
	for _, g := range d.Ops {
		op := &x.T.GPU[g]
		if op.Kind != model.Kernel || !x.Class(g).Communicates() {
			continue
		}
		c := x.collectiveCallOf(g, details[op.Corr])
		// The exchange between experts is left out: ranks finish it at different times, so that its shortest duration is
		// not the transfer time.
		if c.step = x.stepOfLaunch(t.steps, op); c.step < 0 || x.class[g] == cMoEAllToAll || !accepts(c.kind) {
			other = append(other, c.Span)
			continue
		}
		c.requested = min(op.Start, max(ready(op), t.steps[0].Window.Start))
		t.calls = append(t.calls, c)
	}
	if len(t.calls) == 0 {
		return nil
	}
	t.chainStreams()
	t.other = model.UnionOf(other)
	t.waited = x.waitedOnHost(d)
	out := t.buildColumns()
	out.Rank, out.World, out.Trace, out.Device = x.T.Rank, x.T.World, x.T.Path, "device"
	if d.Device < len(x.T.Devices) {
		out.Device = cmp.Or(x.T.Devices[d.Device].Name, out.Device)
	}
	out.Parts = x.steadyParts(d).divideBy(float64(x.SteadySteps()))
	names := map[string]bool{}
	for _, g := range d.Ops {
		if op := &x.T.GPU[g]; op.Kind == model.Kernel && !x.Class(g).Communicates() {
			names[x.T.Name(op.Name)] = true
		}
	}
	out.Role = hashRole(names)
	return out
}

// stepOfLaunch returns the step in which an operation was launched. If the launch was not recorded, it returns the step
// in whose window the operation starts; -1 none.
func (x *Index) stepOfLaunch(steps []StepSpan, op *model.GPU) int {
	if op.Launch >= 0 {
		return stepOf(steps, x.T.Host[op.Launch].Start)
	}
	for i := range steps {
		if w := steps[i].Window; op.Start >= w.Start && op.Start < w.End {
			return i
		}
	}
	return -1
}

// readyTimes returns a function that estimates when the input of a collective was ready: at the end of all operations
// that the host launched before the collective, or at the collective's own launch if that is later.
func (x *Index) readyTimes(d *DeviceTime) func(op *model.GPU) int64 {
	type launched struct{ at, end int64 }
	var list []launched
	for _, g := range d.Ops {
		op := &x.T.GPU[g]
		if op.Launch >= 0 && !x.Class(g).Communicates() {
			list = append(list, launched{x.T.Host[op.Launch].Start, op.End})
		}
	}
	slices.SortFunc(list, func(a, b launched) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.end, b.end)) })
	for i := 1; i < len(list); i++ {
		list[i].end = max(list[i].end, list[i-1].end)
	}
	return func(op *model.GPU) int64 {
		if op.Launch < 0 {
			return op.Start
		}
		at := x.T.Host[op.Launch].Start
		i, _ := slices.BinarySearchFunc(list, at, func(l launched, at int64) int { return cmp.Compare(l.at, at) })
		if i == 0 {
			return at
		}
		return max(at, list[i-1].end)
	}
}

// collectiveCallOf describes the communication kernel with index g in Trace.GPU. details holds the properties that the
// profiler recorded, nil without any.
func (x *Index) collectiveCallOf(g int32, details *model.Collective) collectiveCall {
	op := &x.T.GPU[g]
	c := collectiveCall{Span: model.Span{Start: op.Start, End: op.End}, stream: op.Stream}
	if details == nil {
		c.kind = string(x.CollectiveOf(g))
		return c
	}
	c.kind = string(parseCollectiveKind(x.T.Name(details.Name)))
	c.group = strings.Trim(x.T.Name(details.Group)+" "+x.T.Name(details.Ranks), " ")
	if details.Size > 0 {
		c.group = strconv.Itoa(int(details.Size)) + " " + c.group
	}
	c.seq, c.bytes = details.Seq, details.In*max(1, opcost.ElementBytes(x.T.Name(details.Element)))
	return c
}

// synchronizesAll reports whether a collective of this kind ends on every rank only after all ranks have started it.
func synchronizesAll(kind string) bool {
	switch CollectiveKind(kind) {
	case AllReduceCalls, AllGatherCalls, ReduceScatterCalls, AllToAllCalls, BarrierCalls:
		return true
	}
	return false
}

func isGroupCollective(kind string) bool {
	return synchronizesAll(kind) || CollectiveKind(kind) == BroadcastCalls
}

// waitedOnHost returns a function that reports whether the host waited for the device at the end of a collective, and
// launched the next operation only afterwards.
func (x *Index) waitedOnHost(d *DeviceTime) func(end, next int64) bool {
	var waits []model.Span
	for i := range x.T.Host {
		h := &x.T.Host[i]
		if c := x.Info[h.Name].call; h.Kind == model.API && (c == model.CallSync || c == model.CallCopy) && h.Dur() >= leastWaitNS {
			waits = append(waits, model.Span{Start: h.Start, End: h.End + adjacentNS})
		}
	}
	set := model.UnionOf(waits)
	return func(end, next int64) bool {
		i, _ := slices.BinarySearchFunc(d.Launches, end, cmp.Compare[int64])
		return set.Contains(end) && i < len(d.Launches) && d.Launches[i] <= next
	}
}

// hostCollectives returns the communication by a library of the host (gloo), without a device; nil without any.
func (x *Index) hostCollectives() *Collectives {
	t := &rankTimeline{steps: x.countedSteps(), waited: func(int64, int64) bool { return true }, lateEnds: true}
	var work []model.Span
	names := map[string]bool{}
	for i := range x.T.Host {
		h := &x.T.Host[i]
		name := x.T.Name(h.Name)
		if h.Kind != model.Op && h.Kind != model.Annotation {
			continue
		}
		library, _, _ := strings.Cut(name, ":")
		if slices.Contains([]string{"gloo", "mpi", "ucc"}, library) && synchronizesAll(string(parseCollectiveKind(name))) {
			if step := stepOf(t.steps, h.Start); step >= 0 {
				t.calls = append(t.calls, collectiveCall{Span: model.Span{Start: h.Start, End: h.End}, requested: h.Start, kind: string(parseCollectiveKind(name)), step: step})
			}
			continue
		}
		if h.Kind == model.Op && h.Lane == x.Main && x.Info[h.Name].op.class != cCommunication {
			work = append(work, model.Span{Start: h.Start, End: h.End})
			names[name] = true
		}
	}
	if len(t.calls) == 0 {
		return nil
	}
	slices.SortStableFunc(t.calls, func(a, b collectiveCall) int { return cmp.Compare(a.Start, b.Start) })
	t.compute = model.UnionOf(work)
	out := t.buildColumns()
	out.Rank, out.World, out.Trace, out.OnHost, out.Role = x.T.Rank, x.T.World, x.T.Path, true, hashRole(names)
	return out
}

func hashRole(names map[string]bool) string {
	sum := sha256.Sum256([]byte(strings.Join(slices.Sorted(maps.Keys(names)), "\x00")))
	return hex.EncodeToString(sum[:6])
}
