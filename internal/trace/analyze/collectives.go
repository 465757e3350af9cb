package analyze

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

// Collectives is one rank's part in the communication of a job, over the last whole
// steps that count: when each collective began, and what the rank did between them. It
// is small enough to be left in a shared folder, and all that finding the rank that the
// others wait for takes. Times are ns.
type Collectives struct {
	Rank   int    `json:"rank"`   // -1 unknown
	World  int    `json:"world"`  // 0 unknown
	Trace  string `json:"trace"`  // the file
	Device string `json:"device"` // name of the device; "" of a recording of the host alone
	OnHost bool   `json:"on_host,omitempty"`
	// Role is a hash of the names of the kernels, or of the operators without a device:
	// ranks that do the same work have the same.
	Role string `json:"role"`
	// Parts is where the device's time went in the mean step.
	Parts Parts `json:"parts"`

	Steps model.Column `json:"steps"` // numbers of the steps
	Cut   int          `json:"cut"`   // earlier steps that were left out
	Names []string     `json:"names"` // of kinds and groups, by number

	// One entry for each collective, in the order in which they were asked for.
	Kind  model.Column `json:"kind"`  // index into Names
	Group model.Column `json:"group"` // index into Names
	Seq   model.Column `json:"seq"`   // number in the group plus one, 0 unknown
	Bytes model.Column `json:"bytes"` // that the rank gives, 0 unknown
	Step  model.Column `json:"step"`  // index into Steps
	Start model.Column `json:"start"` // after the start of the first step
	Dur   model.Column `json:"dur"`
	After model.Column `json:"after"` // the collective before it on its stream plus one, 0 none

	// One entry for each moment, in order. A moment is twice the index of a collective
	// where that is asked for, and one more where the rank begins to wait for its end;
	// -1 minus the index of a step where that ends. Before it the rank works, does
	// nothing, or is held up by communication that is no collective of all of a group.
	Moments model.Column `json:"moments"`
	Work    model.Column `json:"work"`
	Idle    model.Column `json:"idle"`
	Held    model.Column `json:"held"`

	begin         int64 // of the first step, by the clock of the trace
	input, device int   // of which analysis
}

const (
	// mostCollectives is how many a rank keeps.
	mostCollectives = 4000
	// adjacent is how long after the end of an operation another one begins that waited
	// for it: a launch that is ready takes a few microseconds.
	adjacent = 50_000
	// leastWait is the least wait for a collective that counts as one.
	leastWait = 20_000
	// latestEnd is how much later than it is a library of the host may note the end of a
	// collective. Up to 2 ms were seen of gloo on two cores at a load of 13.
	latestEnd = 5_000_000
)

// CollectivesOf is what each trace of a job holds of its communication; none of a trace
// without.
func CollectivesOf(indexes []*Index) []Collectives {
	out := []Collectives{}
	for _, x := range indexes {
		var found []Collectives
		for _, d := range x.Devices {
			if c := x.collectivesOf(d, ofAll); c != nil {
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

// call is one collective of a rank.
type call struct {
	model.Span
	asked       int64 // no later than Start: when all that it needs of its rank was there
	kind, group string
	seq, bytes  int64
	stream      int64
	step        int // index into the steps that count
	after       int // the call before on its stream plus one, 0 none
}

// part is what a timeline is made from.
type timeline struct {
	whole   model.Span
	steps   []StepSpan
	calls   []call
	compute model.Spans // the rank works
	other   model.Spans // communication that is none of the calls
	waited  func(end, next int64) bool
	// lateEnds: the end of a call may be noted after the rank has gone on.
	lateEnds bool
}

// counted are the steps that count.
func (x *Index) counted() []StepSpan {
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

// stepOf is the step in which something was asked for, -1 none.
func stepOf(steps []StepSpan, at int64) int {
	for i := range steps {
		if at >= steps[i].Host.Start && at < steps[i].Host.End {
			return i
		}
	}
	return -1
}

// collectivesOf is the part of a device in the collectives of the kinds that takes chooses.
func (x *Index) collectivesOf(d *DeviceTime, takes func(kind string) bool) *Collectives {
	t := &timeline{steps: x.counted(), compute: d.Compute.Or(d.Memcpy).Or(d.Memset)}
	told := x.T.ToldCollectives()
	var other []model.Span
	ready := x.readiness(d)
	for _, g := range d.Ops {
		op := &x.T.GPU[g]
		if op.Kind != model.Kernel || !x.Class(g).Communicates() {
			continue
		}
		c := x.callOf(g, told[op.Corr])
		// Ranks do not leave the exchange between experts together: its shortest time is no transfer.
		if c.step = x.askedIn(t.steps, op); c.step < 0 || x.class[g] == cMoEAllToAll || !takes(c.kind) {
			other = append(other, c.Span)
			continue
		}
		c.asked = min(op.Start, max(ready(op), t.steps[0].Window.Start))
		t.calls = append(t.calls, c)
	}
	if len(t.calls) == 0 {
		return nil
	}
	t.chain()
	t.other = model.UnionOf(other)
	t.waited = x.waitedOnHost(d)
	out := t.collectives()
	out.Rank, out.World, out.Trace, out.Device = x.T.Rank, x.T.World, x.T.Path, "device"
	if d.Device < len(x.T.Devices) {
		out.Device = cmp.Or(x.T.Devices[d.Device].Name, out.Device)
	}
	out.Parts = x.steadyParts(d).over(float64(x.SteadySteps()))
	names := map[string]bool{}
	for _, g := range d.Ops {
		if op := &x.T.GPU[g]; op.Kind == model.Kernel && !x.Class(g).Communicates() {
			names[x.T.Name(op.Name)] = true
		}
	}
	out.Role = roleOf(names)
	return out
}

// askedIn is the step whose call launched an operation, or in whose time it began.
func (x *Index) askedIn(steps []StepSpan, op *model.GPU) int {
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

// readiness says when a collective's data was there: it waits for what its stream was
// given before it, which is what the host launched before it.
func (x *Index) readiness(d *DeviceTime) func(op *model.GPU) int64 {
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

// callOf is what is known of a communication kernel; told is nil where the profiler told
// nothing.
func (x *Index) callOf(g int32, told *model.Collective) call {
	op := &x.T.GPU[g]
	c := call{Span: model.Span{Start: op.Start, End: op.End}, stream: op.Stream}
	if told == nil {
		c.kind = string(x.CollectiveOf(g))
		return c
	}
	c.kind = string(collectiveNamed(x.T.Name(told.Name)))
	c.group = strings.Trim(x.T.Name(told.Group)+" "+x.T.Name(told.Ranks), " ")
	if told.Size > 0 {
		c.group = strconv.Itoa(int(told.Size)) + " " + c.group
	}
	c.seq, c.bytes = told.Seq, told.In*max(1, opcost.ElementBytes(x.T.Name(told.Element)))
	return c
}

// ofAll says whether every end of such a collective depends on every start.
func ofAll(kind string) bool {
	switch CollectiveKind(kind) {
	case AllReduceCalls, AllGatherCalls, ReduceScatterCalls, AllToAllCalls, BarrierCalls:
		return true
	}
	return false
}

// ofGroup reports whether all ranks of a group take part in such a collective.
func ofGroup(kind string) bool { return ofAll(kind) || CollectiveKind(kind) == BroadcastCalls }

// waitedOnHost says whether the host waited for the device when a collective ended, and
// launched what the device did next only then.
func (x *Index) waitedOnHost(d *DeviceTime) func(end, next int64) bool {
	var waits []model.Span
	for i := range x.T.Host {
		h := &x.T.Host[i]
		if c := x.Info[h.Name].call; h.Kind == model.API && (c == model.CallSync || c == model.CallCopy) && h.Dur() >= leastWait {
			waits = append(waits, model.Span{Start: h.Start, End: h.End + adjacent})
		}
	}
	set := model.UnionOf(waits)
	return func(end, next int64) bool {
		i, _ := slices.BinarySearchFunc(d.Launches, end, cmp.Compare[int64])
		return set.Contains(end) && i < len(d.Launches) && d.Launches[i] <= next
	}
}

// hostCollectives is of a recording without a device, where a library of the host
// communicates (gloo).
func (x *Index) hostCollectives() *Collectives {
	t := &timeline{steps: x.counted(), waited: func(int64, int64) bool { return true }, lateEnds: true}
	var work []model.Span
	names := map[string]bool{}
	for i := range x.T.Host {
		h := &x.T.Host[i]
		name := x.T.Name(h.Name)
		if h.Kind != model.Op && h.Kind != model.Annotation {
			continue
		}
		library, _, _ := strings.Cut(name, ":")
		if slices.Contains([]string{"gloo", "mpi", "ucc"}, library) && ofAll(string(collectiveNamed(name))) {
			if step := stepOf(t.steps, h.Start); step >= 0 {
				t.calls = append(t.calls, call{Span: model.Span{Start: h.Start, End: h.End}, asked: h.Start, kind: string(collectiveNamed(name)), step: step})
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
	slices.SortStableFunc(t.calls, func(a, b call) int { return cmp.Compare(a.Start, b.Start) })
	t.compute = model.UnionOf(work)
	out := t.collectives()
	out.Rank, out.World, out.Trace, out.OnHost, out.Role = x.T.Rank, x.T.World, x.T.Path, true, roleOf(names)
	return out
}

func roleOf(names map[string]bool) string {
	list := make([]string, 0, len(names))
	for n := range names {
		list = append(list, n)
	}
	slices.Sort(list)
	sum := sha256.Sum256([]byte(strings.Join(list, "\x00")))
	return hex.EncodeToString(sum[:6])
}
