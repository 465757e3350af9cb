package rules

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// droppedLimit: idle time is unreliable if more than 1/droppedLimit of the kernel launches have no recorded kernel,
// because a busy device then looks idle. The same limit holds for the share of lost records among all records.
const droppedLimit = 100

// cutOffShare: at most 1/cutOffShare of the launches are assumed to be still queued when a recording ends.
const cutOffShare = 10

type traceQuality struct {
	launches, dropped           int // calls that launch a kernel, and the calls whose kernel is missing
	cutOff                      int // last launches, whose kernels ran after the recording
	graphLaunches, graphKernels int // launches of CUDA graphs, and operations that they started
	// unknown is the idle time before operations without a recorded launch, ns, span the judged time, on the device with
	// the largest ratio of both.
	unknown, span int64
	linksBroken   bool // the device's idle time is unreliable: too many kernels or records are missing
	lost          bool // too many records are missing
	noKernels     bool // launches were recorded, but no device operation
	// sampled reports that events were removed from the recording. numbered is the length of the range of the operators'
	// ids, recorded the number of operators that are left.
	sampled  bool
	recorded int
	numbered int64
}

// hidesDevice reports whether a device idles, for 99 % of its time or more, before operations without a recorded
// launch. Nothing on the host can then be named as the reason for the device's waits.
func (q traceQuality) hidesDevice() bool {
	return q.span > 0 && q.unknown*100 >= q.span*99
}

// measureQuality measures how completely the recording covers the steps that are not dropped. It also stores in
// ruleDevice.uncertainIdle the idle time in which a missing kernel may have run (see countLaunches).
func (c *ruleContext) measureQuality() traceQuality {
	var q traceQuality
	c.countLaunches(&q)
	for _, d := range c.devices {
		d.uncertainIdle = model.UnionOf(d.uncertainIdle)
		u, s := c.lackLaunch(d).TotalAnd(d.steady), d.steady.Total()
		if q.span == 0 || u*q.span > q.unknown*s {
			q.unknown, q.span = u, s
		}
	}
	ofGraph := func(g int32) bool { return c.isGraphOp(&c.t.GPU[g]) }
	c.eachSteadyOp(ofGraph, func(*ruleDevice, int32, *model.GPU) { q.graphKernels++ })
	q.noKernels = len(c.devices) == 0 && c.t.Gate.Launches > 0
	q.recorded, q.numbered, q.sampled = c.x.SampledOperators()
	q.lost = c.t.Lost*droppedLimit > c.t.Lost+int64(c.t.Events) || q.sampled
	q.linksBroken = len(c.devices) > 0 && (q.lost || q.dropped*droppedLimit > q.launches)
	return q
}

// lackLaunch returns the idle time before operations whose launch is not in the recording, except migrations of
// unified memory, which no call launches.
func (c *ruleContext) lackLaunch(d *ruleDevice) model.Spans {
	migrates := func(g int32) bool { return c.t.GPU[g].Memory == model.Migrated }
	if !slices.ContainsFunc(d.Ops, migrates) {
		return d.Unknown
	}
	var lacking model.Spans
	for _, gap := range d.Unknown {
		if i := firstOp(c.t, d.Ops, gap.End); i == len(d.Ops) || !migrates(d.Ops[i]) {
			lacking = append(lacking, gap)
		}
	}
	return lacking
}

// findLinkedLaunches marks the launches whose device operation was recorded, by index into Trace.Host. last is the
// start of the last of these launches.
func (c *ruleContext) findLinkedLaunches() (linked []bool, last int64) {
	linked, last = make([]bool, len(c.t.Host)), math.MinInt64
	for i := range c.t.GPU {
		if l := c.t.GPU[i].Launch; l >= 0 {
			linked[l] = true
			last = max(last, c.t.Host[l].Start)
		}
	}
	return linked, last
}

// countLaunches counts in q the launches in the steps that are not dropped, and the launches whose kernels are missing.
func (c *ruleContext) countLaunches(q *traceQuality) {
	linked, last := c.findLinkedLaunches()
	// A launch during graph capture starts no kernel, so none is missing.
	capturing, lane := false, uint32(0)
	for i := range c.t.Host {
		h := &c.t.Host[i]
		if h.Kind != model.API {
			continue
		}
		if h.Lane != lane {
			capturing, lane = false, h.Lane
		}
		if c.nameHasMark(h.Name, markCapture) {
			capturing = strings.Contains(c.t.Name(h.Name), "Begin")
		}
		if capturing || !c.x.InSteady(h.Start) {
			continue
		}
		if c.nameHasMark(h.Name, markGraph) {
			q.graphLaunches++
			continue
		}
		if !c.nameHasMark(h.Name, markKernel) {
			continue
		}
		q.launches++
		switch {
		case linked[i]:
		case h.Start > last:
			q.cutOff++
		default:
			q.dropped++
			for _, d := range c.devices {
				if d.isDrivenBy(c, h.Lane) {
					d.doubtAfter(h.Start)
				}
			}
		}
	}
	if q.cutOff*cutOffShare > q.launches { // too many to have been queued when the recording ended
		q.dropped, q.cutOff = q.dropped+q.cutOff, 0
	}
}

// doubtAfter adds to d.uncertainIdle the idle spans in which the missing kernel of a launch at the time at may have run: the
// span that contains the launch, and the span that the next launch ends.
func (d *ruleDevice) doubtAfter(at int64) {
	i, _ := slices.BinarySearch(d.Launches, at+1)
	end := at + 1
	if i < len(d.Launches) {
		end = d.Launches[i]
	}
	for _, t := range [...]int64{at, end - 1} {
		d.uncertainIdle = append(d.uncertainIdle, d.Starved.Around(t)...)
	}
}

// findTraceQuality reports why the other findings are less reliable: missing launches or wrong records. It runs last
// and lists the time that other rules would have claimed.
func (c *ruleContext) findTraceQuality() []analyze.Found {
	q := &c.quality
	var why []string
	if q.unknown*unknownLimit > q.span {
		why = append(why, fmt.Sprintf("%.1f %% of the device's time is idle before work whose launch is not in the trace", percent(q.unknown, q.span)))
	}
	if q.graphLaunches > 0 || q.graphKernels > 0 {
		why = append(why, describeGraphs(q.graphLaunches, q.graphKernels))
	}
	if text := c.describeLoss(); text != "" {
		why = append(why, text)
	}
	if q.dropped*droppedLimit > q.launches && len(c.devices) > 0 {
		why = append(why, fmt.Sprintf("%d of %d kernels that were launched are missing", q.dropped, q.launches))
	}
	if q.noKernels {
		why = append(why, analyze.LostKernels(c.t))
	}
	if op := c.findDeviceOp(); op != "" && !q.noKernels {
		why = append(why, op+" ran on a device, and nothing of a device was recorded: times of operators are of the host alone")
	}
	failed, texts := c.sumFailedRecords()
	why = append(why, texts...)
	if len(why) == 0 {
		return nil
	}
	title := "the trace is incomplete: " + strings.Join(why, "; ")
	if len(texts) == len(why) {
		title = "records of the trace are wrong: " + strings.Join(why, "; ")
	}
	f := c.newFinding(claim{device: -1}, title)
	if f.First = q.sampled; q.sampled {
		f.Evidence["sampled_operators"], f.Evidence["operators_by_ids"] = q.recorded, q.numbered
	}
	f.Evidence["untimed_records"] = failed.Untimed
	f.Evidence["overrunning_records"] = failed.Overruns
	f.Evidence["records_sharing_a_launch"] = failed.Shared
	f.Evidence["unknown_ns"] = q.unknown
	f.Evidence["unknown_percent"] = percent(q.unknown, q.span)
	f.Evidence["graph_launches"] = q.graphLaunches
	f.Evidence["graph_operations"] = q.graphKernels
	f.Evidence["kernel_launches"] = q.launches
	f.Evidence["dropped_kernels"] = q.dropped
	f.Evidence["launches_cut_off_at_the_end"] = q.cutOff
	f.Evidence["lost_records"] = c.t.Lost
	if failed.Failed() > 0 && !slices.ContainsFunc(c.devices, func(d *ruleDevice) bool { return d.faulty }) {
		f.Caveats = append(f.Caveats, "less than 1 % of the records of a device are wrong: claims stand")
	}
	if q.graphLaunches+q.graphKernels > 0 {
		f.Caveats = append(f.Caveats, "kernels of graphs are left out of launch-bound and have no call site; other claims stand")
	}
	var muted []string
	for _, id := range slices.Sorted(maps.Keys(c.withheld)) {
		if lost := c.withheld[id]; lost.Total() > 0 {
			muted = append(muted, id)
			f.Caveats = append(f.Caveats, fmt.Sprintf("suppressed: %s would have claimed up to %s", id, c.formatPerStep(lost)))
		}
	}
	f.Evidence["suppressed"] = strings.Join(muted, " ")
	if i := slices.IndexFunc(c.t.Warnings, func(w gpuprof.Warning) bool { return w.Code == analyze.WholeGraphs }); i >= 0 && len(why) == 1 {
		f.PyTorch, f.AnyProgram = c.t.Warnings[i].Fix, true
		return []analyze.Found{f}
	}
	f.PyTorch = "record again: with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], schedule=schedule(wait=1, warmup=2, active=3)), a shorter stretch, and graphs off to see their launches"
	return []analyze.Found{f}
}

// describeLoss describes lost or removed records, "" if there are none.
func (c *ruleContext) describeLoss() string {
	switch q := &c.quality; {
	case q.sampled:
		return fmt.Sprintf("it is a sample: %d operators are there of the %d that their ids count", q.recorded, q.numbered)
	case q.lost:
		return fmt.Sprintf("up to %d records were lost beside %d that are there", c.t.Lost, c.t.Events)
	}
	return ""
}

func describeGraphs(launches, operations int) string {
	text := analyze.Plural(launches, "graph launch", "graph launches")
	if operations == 0 {
		return text + " started work that the trace does not link to them"
	}
	return text + fmt.Sprintf(" started %s without a launch or an operator of their own", analyze.Plural(operations, "operation", "operations"))
}

func (c *ruleContext) sumFailedRecords() (sum model.GateCount, texts []string) {
	for device := range c.t.Gate.Devices {
		g := &c.t.Gate.Devices[device]
		sum.Records += g.Records
		sum.Untimed, sum.Overruns, sum.Shared = sum.Untimed+g.Untimed, sum.Overruns+g.Overruns, sum.Shared+g.Shared
		if what := g.Describe(); what != "" {
			texts = append(texts, fmt.Sprintf("of %d records of device %d %s", g.Records, c.t.Devices[device].ID, what))
		}
	}
	return sum, texts
}
