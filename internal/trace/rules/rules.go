// Package rules turns the account of a recording into findings: a condition, the time
// that the finding claims of the step, and the change that helps, by program (PyTorch,
// JAX, CUDA). In come an analyze.Index and a ledger that grants each instant once; out
// go findings in the order of the table in rules.go. Each rule has a file of its own.
// It imports analyze and model, and no reader.
package rules

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/roofline"
)

// rule is one entry of the table: an id and what it looks for.
type rule struct {
	id string
	// host says that the rule claims starved time, which rests on knowing which
	// launch ended each wait.
	host bool
	find func(c *ruleContext) []analyze.Found
	// notes says that a finding of the rule that claims nothing is worth reading.
	notes bool
	// whole says that the rule speaks of the recording, however little of it is steady.
	whole bool
	// alone says that the rule claims work during which the device does nothing else, which
	// rests on a trace that has everything else.
	alone bool
}

// ruleTable lists the rules in the order in which they claim time.
func ruleTable() []rule {
	return []rule{
		{id: gpuprof.RuleNotSteady, notes: true, whole: true, find: (*ruleContext).notSteady},
		{id: gpuprof.RuleAllocatorChurn, host: true, find: (*ruleContext).allocatorChurn},
		{id: gpuprof.RuleDataloaderStall, host: true, find: (*ruleContext).dataloaderStall},
		{id: gpuprof.RuleHiddenSync, host: true, find: (*ruleContext).hiddenSync},
		{id: gpuprof.RuleBlockingCopy, host: true, find: (*ruleContext).blockingCopy},
		{id: gpuprof.RuleExplicitSync, host: true, find: (*ruleContext).explicitSync},
		{id: gpuprof.RuleItem, host: true, find: (*ruleContext).item},
		{id: gpuprof.RuleDataShape, host: true, find: (*ruleContext).dataDependentShape},
		{id: gpuprof.RulePageableH2D, notes: true, find: (*ruleContext).pageableH2D},
		{id: gpuprof.RuleUnifiedMemory, alone: true, notes: true, find: (*ruleContext).unifiedMemory},
		{id: gpuprof.RuleExposedCopy, alone: true, find: (*ruleContext).exposedCopy},
		{id: gpuprof.RuleDDPBuffers, alone: true, find: (*ruleContext).ddpBuffers},
		{id: gpuprof.RuleEagerDecode, host: true, notes: true, find: (*ruleContext).eagerDecode},
		{id: gpuprof.RuleLaunchBound, host: true, find: (*ruleContext).launchBound},
		{id: gpuprof.RuleNoTF32, find: (*ruleContext).noTF32},
		{id: gpuprof.RuleNoAMP, notes: true, find: (*ruleContext).noAMP},
		{id: gpuprof.RuleTensorCores, find: (*ruleContext).tensorCores},
		{id: gpuprof.RuleOffPeakGEMM, find: (*ruleContext).offPeakGEMM},
		{id: gpuprof.RuleDeterministic, find: (*ruleContext).deterministicSort},
		{id: gpuprof.RuleDeterministicFill, find: (*ruleContext).deterministicFill},
		{id: gpuprof.RuleUnfusedAttention, find: (*ruleContext).unfusedAttention},
		{id: gpuprof.RuleAttentionOffPeak, find: (*ruleContext).attentionOffPeak},
		{id: gpuprof.RuleMemoryBoundChain, find: (*ruleContext).memoryChain},
		{id: gpuprof.RuleElementwiseChain, find: (*ruleContext).elementwiseChain},
		{id: gpuprof.RuleSmallCollective, alone: true, find: (*ruleContext).smallCollective},
		{id: gpuprof.RuleExposedComm, alone: true, find: (*ruleContext).exposedComm},
		{id: gpuprof.RuleHostBound, host: true, notes: true, find: (*ruleContext).hostBound},
		{id: gpuprof.RuleCheckpointWrite, find: (*ruleContext).checkpointWrite},
		{id: gpuprof.RuleLogging, find: (*ruleContext).logging},
		{id: gpuprof.RuleOutsideOperators, find: (*ruleContext).outsideOperators},
		{id: gpuprof.RuleRecomputation, find: (*ruleContext).recomputation},
		{id: gpuprof.RuleStarvedMachine, find: (*ruleContext).starvedMachine},
		{id: gpuprof.RuleFloat64, find: (*ruleContext).float64Parameters},
		{id: gpuprof.RuleTooManyThreads, notes: true, find: (*ruleContext).tooManyThreads},
		{id: gpuprof.RuleAnomalyMode, notes: true, find: (*ruleContext).anomalyMode},
		{id: gpuprof.RuleOptimizerLoop, notes: true, find: (*ruleContext).optimizerLoop},
		{id: gpuprof.RuleStreamWait, alone: true, find: (*ruleContext).streamWait},
		{id: gpuprof.RuleSmallGrid, notes: true, whole: true, find: (*ruleContext).smallGrid},
		{id: gpuprof.RulePrefillInDecode, notes: true, find: (*ruleContext).prefillInDecode},
		{id: gpuprof.RuleSchedulerGap, host: true, notes: true, find: (*ruleContext).schedulerGap},
		{id: gpuprof.RuleRecompilation, notes: true, whole: true, find: (*ruleContext).recompilation},
		{id: gpuprof.RuleHostOperator, notes: true, find: (*ruleContext).hostOperator},
		{id: gpuprof.RuleTraceQuality, notes: true, whole: true, find: (*ruleContext).traceQuality},
	}
}

// RuleIDs are the ids of all rules in the order in which they claim time, that of a job's ranks first.
func RuleIDs() []string {
	ids := []string{gpuprof.RuleStraggler}
	for _, r := range ruleTable() {
		ids = append(ids, r.id)
	}
	return ids
}

// Compare is analyze.CompareInOrder with the findings in the order of the rules.
func Compare(before, after *analyze.Analysis) *analyze.Comparison {
	return analyze.CompareInOrder(before, after, RuleIDs())
}

// OfHost says whether what a rule claims is time of the host: what slows the host
// down, such as profiling, makes it larger.
func OfHost(rule string) bool {
	for _, r := range ruleTable() {
		if r.id == rule {
			return r.host
		}
	}
	return false
}

// Rules runs every rule over a trace, in order, claiming time from the ledger.
// The findings are in the order of the rules; times are totals over the steady
// steps in ns. Rules is deterministic.
//
// Over several devices a claim is that of the device it frees most time on,
// and an instant claimed on one device is not claimed again on another by a
// later rule: all claims of a trace add up to no more than its steady span.
// The settings that the events show go into the recording's card, and operators against the peak rates into x.Roofline.
func Rules(x *analyze.Index, l *analyze.Ledger) []analyze.Found {
	c := newRuleContext(x, l)
	var out []analyze.Found
	only := c.x.Unjudged()
	x.Recording.Settings = c.settingsSeen()
	x.Roofline = roofline.Of(x, c.kernelPrecision)
	for _, r := range ruleTable() {
		if c.rule = r; only && !r.whole {
			continue
		}
		for _, f := range r.find(c) {
			if !f.AnyProgram {
				f.PyTorch = changeFor(x.Recording.Program, f.Rule, f.PyTorch)
			}
			if f.ClaimNS > 0 || c.worthReading(&f) {
				out = append(out, f)
			}
			if f.Device < 0 {
				c.claimedHost = c.claimedHost.Or(f.Spans)
			}
		}
	}
	return out
}

// worthReading says whether a finding without a claim is one: a rule's that
// cannot put a number on what it saw, or of the host where the trace does not
// allow one. What the device is busy under anyway wins nothing and is none.
func (c *ruleContext) worthReading(f *analyze.Found) bool {
	return c.rule.notes || c.rule.host && c.quality.linksBroken && len(f.Sites) > 0
}

// ruleContext is what the rules share: the trace, the ledger and facts that
// more than one of them needs.
type ruleContext struct {
	x       *analyze.Index
	t       *model.Trace
	l       *analyze.Ledger
	rule    rule
	steps   int64
	span    int64 // steady, ns
	names   []nameFacts
	devices []*ruleDevice
	quality traceQuality
	// lived is the time of all steps, also of those left out.
	lived model.Spans
	// wall are the instants some device was granted; used with several devices only.
	wall model.Spans
	// stalls are the host calls that wait for a device, by lane, then start.
	stalls []stall
	// others are those of steps left out.
	others   []stall
	blockers []blocker
	// launches are the starts of calls that launch something, by process.
	launches map[int32][]int64
	shapes   map[uint32]string // of operands, by Host.Stack; see shapesOf
	tf32NS   int64             // claimed by no-tf32
	copyNS   int64             // claimed by pageable-h2d
	// inMemoryChain are the operations that memory-bound-chain names: elementwise-chain leaves them out.
	inMemoryChain map[int32]bool
	withheld      map[string]model.Spans // by rule, on the device where it is most
	// host is the account of the host thread, nil unknown. hostOutside is the part of its time outside events,
	// and claimedHost what findings claim of a trace without a device.
	host                     *analyze.HostAccount
	hostOutside, claimedHost model.Spans
}

// ruleDevice is a device as the rules see it.
type ruleDevice struct {
	*analyze.DeviceTime
	props  model.Device
	arch   int            // the least compute capability that its kernels need, 0 unknown
	steady model.Spans    // the steady part of its window
	mine   []bool         // by place in Ops: part of the steady steps
	procs  map[int32]bool // processes that launch on it
	doubt  model.Spans    // waits that a kernel missing from the trace may have filled
	// withheld would have been claimed, were the trace better.
	withheld model.Spans
	// faulty: too many of its records fail the gate to tell when it was idle.
	faulty bool
}

func newRuleContext(x *analyze.Index, l *analyze.Ledger) *ruleContext {
	c := &ruleContext{x: x, t: x.T, l: l, steps: int64(max(x.SteadySteps(), 1)), span: x.Steady.Total(), withheld: map[string]model.Spans{}, shapes: map[uint32]string{}}
	c.names = describeRuleNames(x.T)
	if c.host = x.HostAccount(); c.host != nil {
		c.hostOutside = x.HostOutside()
	}
	c.lived = x.Lived()
	for _, d := range x.Devices {
		rd := &ruleDevice{DeviceTime: d, steady: x.Steady.Within(d.Window), procs: map[int32]bool{}}
		rd.faulty = x.T.Gate.Faulty(d.Device)
		if d.Device < len(x.T.Devices) {
			rd.props = x.T.Devices[d.Device]
		}
		last := uint32(math.MaxUint32)
		for _, g := range d.Ops {
			if op := &x.T.GPU[g]; op.Kind == model.Kernel && int(op.Name) < len(c.names) {
				rd.arch = max(rd.arch, c.names[op.Name].arch)
			}
			if h := x.T.GPU[g].Launch; h >= 0 && x.T.Host[h].Lane != last {
				last = x.T.Host[h].Lane
				rd.procs[x.T.ProcessOf(last)] = true
			}
		}
		c.findOwn(rd)
		c.devices = append(c.devices, rd)
	}
	c.findLaunches()
	c.quality = c.judge()
	c.stalls, c.others = c.findStalls()
	c.blockers = c.findBlockers()
	return c
}

// on says whether what a lane does can keep a device waiting: its process
// launches on it. Where no launch is known every process may.
func (d *ruleDevice) on(c *ruleContext, lane uint32) bool {
	return len(d.procs) == 0 || d.procs[c.t.ProcessOf(lane)]
}

// claimHost claims for each device the starved part of what the host did;
// want gives that for one device. Where the links to launches cannot be
// trusted the claim is withheld and remembered for the note.
func (c *ruleContext) claimHost(want func(*ruleDevice) model.Spans) claim {
	return c.grant(func(d *ruleDevice) model.Spans {
		if c.idleUnsure(d) {
			c.withhold(d, want(d))
			return nil
		}
		return c.l.ClaimHost(d.Device, want(d).Minus(d.doubt))
	})
}

// withhold remembers what a rule would have claimed of a device.
func (c *ruleContext) withhold(d *ruleDevice, want model.Spans) {
	c.withholdOf(d, d.Starved.And(want).And(d.steady))
}

// withholdOf is withhold for time that is not the host's.
func (c *ruleContext) withholdOf(d *ruleDevice, want model.Spans) {
	lost := want.Minus(c.l.Claimed(d.Device)).Minus(d.withheld)
	d.withheld = d.withheld.Or(lost)
	if lost.Total() > c.withheld[c.rule.id].Total() {
		c.withheld[c.rule.id] = lost
	}
}

// claimGPU claims for each device what want gives, which no operation outside
// the finding overlaps.
func (c *ruleContext) claimGPU(want func(*ruleDevice) model.Spans) claim {
	return c.grant(func(d *ruleDevice) model.Spans {
		if c.rule.alone && (c.quality.lost || d.faulty) {
			c.withholdOf(d, want(d).And(d.steady))
			return nil
		}
		return c.l.ClaimGPU(d.Device, want(d).And(d.steady))
	})
}

// claimOps is claimGPU for operations that would not run at all: with the time
// the device needed to begin each.
func (c *ruleContext) claimOps(pick func(g int32) bool, want func(*ruleDevice) model.Spans) claim {
	return c.grant(func(d *ruleDevice) model.Spans {
		return c.l.ClaimGPU(d.Device, want(d).And(d.steady)).Or(c.claimQueued(d, d.waits(c, pick, false)))
	})
}

// idleUnsure says whether the idle time of a device cannot be trusted.
func (c *ruleContext) idleUnsure(d *ruleDevice) bool {
	return c.quality.linksBroken || d.faulty || c.x.OneCutStep()
}

// claimQueued claims time in which a device had work and had not begun it, where its records
// tell that.
func (c *ruleContext) claimQueued(d *ruleDevice, want model.Spans) model.Spans {
	if d.faulty {
		c.withholdOf(d, want.And(d.Queued).And(d.steady))
		return nil
	}
	return c.l.ClaimQueued(d.Device, want)
}

// claim is what a finding was granted: the device that gains most.
type claim struct {
	ns     int64
	spans  model.Spans
	device int // index into T.Devices, -1 none
}

func (c *ruleContext) grant(of func(*ruleDevice) model.Spans) claim {
	best := claim{device: -1}
	for _, d := range c.devices {
		got := of(d)
		if len(c.devices) > 1 {
			got = got.Minus(c.wall)
		}
		if n := got.Total(); n > best.ns {
			best = claim{n, got, d.Device}
		}
	}
	if len(c.devices) > 1 {
		c.wall = c.wall.Or(best.spans)
	}
	return best
}

// finding makes a finding of the running rule from its claim; what happened is
// the sentence, to which the bound is added.
func (c *ruleContext) finding(cl claim, what string) analyze.Found {
	f := analyze.Found{
		Finding: gpuprof.Finding{Rule: c.rule.id, ClaimNS: cl.ns, StepNS: cl.ns / c.steps, Title: what, Evidence: map[string]any{}},
		Spans:   cl.spans, Device: cl.device,
	}
	if c.span > 0 {
		f.Share = float64(cl.ns) / float64(c.span)
	}
	f.Severity = analyze.SeverityOf(f.ClaimNS, f.Share)
	if cl.ns > 0 {
		f.Title += ", which costs up to " + c.perStep(cl.spans)
	}
	if cl.ns > 0 && len(c.devices) > 1 && cl.device >= 0 {
		f.Evidence["device"] = c.t.Devices[cl.device].ID
	}
	if c.rule.host {
		c.hostCaveats(&f)
	}
	return f
}

// unsettled is how many times the shortest step the longest may take.
const unsettled = 2

// stepRange is the shortest and the longest of the steps findings speak of; 0
// where there are none.
func (c *ruleContext) stepRange() (low, high int64) {
	if !c.stepped() {
		return 0, 0
	}
	for i := range c.x.Steps {
		if s := &c.x.Steps[i]; !s.Dropped {
			n := s.Window.Len()
			if low == 0 || n < low {
				low = n
			}
			high = max(high, n)
		}
	}
	return low, high
}

func (c *ruleContext) hostCaveats(f *analyze.Found) {
	if c.t.Inflated {
		text := "inflated by profiling: the recording has the profiler's own overhead in it, which lengthens the host's work"
		if c.x.Recording.Program == analyze.PyTorch {
			text = "inflated by profiling: the trace has Python frames or the profiler's own overhead, which lengthen the host's work; record again without with_stack to measure it"
		}
		f.Caveats = append(f.Caveats, text)
	}
	if low, high := c.stepRange(); f.ClaimNS > 0 && high > unsettled*low {
		f.Caveats = append(f.Caveats, fmt.Sprintf("the steps take %s to %s: the program or the profiler had not settled, so times of the host are not representative; record later, or longer", gpuprof.FormatNS(low), gpuprof.FormatNS(high)))
	}
	switch {
	case len(c.devices) > 0 && c.quality.linksBroken:
		f.Caveats = append(f.Caveats, "no time claimed: too many kernels are missing from the trace to say when the device was idle (see trace-quality)")
	case f.ClaimNS == 0 && slices.ContainsFunc(c.devices, func(d *ruleDevice) bool { return d.faulty }):
		f.Caveats = append(f.Caveats, "no time claimed: too many records of the device are wrong to say when it was idle (see trace-quality)")
	}
}
