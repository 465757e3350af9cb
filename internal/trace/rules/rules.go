// Package rules turns the time breakdown of a recording into findings: a condition, the time of the step that the
// finding claims, and the change that helps, by kind of program (PyTorch, JAX, CUDA). Its input is an analyze.Index
// and a ledger that grants every nanosecond to at most one finding; its output is findings in the order of ruleTable.
// Each rule has its own file. The package imports analyze and model, and no reader.
//
// The comment of a find function states the condition of its rule after the colon, and then the time that the rule
// claims. The exclusive time of operations is the time in which nothing else runs on the device (exclusiveTime). Times
// are starved, queued and steady as in package analyze. Steady steps are the steps not dropped as warm-up. A product is
// a matrix product or a convolution.
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

type rule struct {
	id string
	// host reports that the rule claims idle time before a launch. The trace must then have the launch that ends each
	// wait.
	host bool
	find func(c *ruleContext) []analyze.Found
	// notes reports that findings of the rule are reported even if they claim no time.
	notes bool
	// runsOnStartUp reports that the rule also runs if the recording is mostly start-up, compilation and the like.
	runsOnStartUp bool
	// claimsExclusive reports that the rule claims time in which the device does nothing else. It claims no time if records of the
	// device are lost or faulty.
	claimsExclusive bool
}

// ruleTable lists the rules in the order in which they claim time.
func ruleTable() []rule {
	return []rule{
		{id: gpuprof.RuleNotSteady, notes: true, runsOnStartUp: true, find: (*ruleContext).findNotSteady},
		{id: gpuprof.RuleDecodeBytes, notes: true, find: (*ruleContext).findDecodeBytes},
		{id: gpuprof.RuleAllocatorChurn, host: true, find: (*ruleContext).findAllocatorChurn},
		{id: gpuprof.RuleDataloaderStall, host: true, find: (*ruleContext).findDataloaderStall},
		{id: gpuprof.RuleHiddenSync, host: true, find: (*ruleContext).findHiddenSync},
		{id: gpuprof.RuleBlockingCopy, host: true, find: (*ruleContext).findBlockingCopy},
		{id: gpuprof.RuleExplicitSync, host: true, find: (*ruleContext).findExplicitSync},
		{id: gpuprof.RuleItem, host: true, find: (*ruleContext).findItem},
		{id: gpuprof.RuleDataShape, host: true, find: (*ruleContext).findDataDependentShape},
		{id: gpuprof.RulePageableH2D, notes: true, find: (*ruleContext).findPageableH2D},
		{id: gpuprof.RuleUnifiedMemory, claimsExclusive: true, notes: true, find: (*ruleContext).findUnifiedMemory},
		{id: gpuprof.RuleExposedCopy, claimsExclusive: true, find: (*ruleContext).findExposedCopy},
		{id: gpuprof.RuleDDPBuffers, claimsExclusive: true, find: (*ruleContext).findDDPBuffers},
		{id: gpuprof.RuleEagerDecode, host: true, notes: true, find: (*ruleContext).findEagerDecode},
		{id: gpuprof.RuleLaunchBound, host: true, find: (*ruleContext).findLaunchBound},
		{id: gpuprof.RuleNoTF32, find: (*ruleContext).findNoTF32},
		{id: gpuprof.RuleNoAMP, notes: true, find: (*ruleContext).findNoAMP},
		{id: gpuprof.RuleTensorCores, find: (*ruleContext).findTensorCores},
		{id: gpuprof.RuleOffPeakGEMM, find: (*ruleContext).findOffPeakGEMM},
		{id: gpuprof.RuleDeterministic, find: (*ruleContext).findDeterministicSort},
		{id: gpuprof.RuleDeterministicFill, find: (*ruleContext).findDeterministicFill},
		{id: gpuprof.RuleUnfusedAttention, find: (*ruleContext).findUnfusedAttention},
		{id: gpuprof.RuleAttentionOffPeak, find: (*ruleContext).findAttentionOffPeak},
		{id: gpuprof.RuleMemoryBoundChain, find: (*ruleContext).findMemoryChain},
		{id: gpuprof.RuleElementwiseChain, find: (*ruleContext).findElementwiseChain},
		{id: gpuprof.RuleSmallCollective, claimsExclusive: true, find: (*ruleContext).findSmallCollective},
		{id: gpuprof.RulePipelineBubble, claimsExclusive: true, find: (*ruleContext).findPipelineBubble},
		{id: gpuprof.RuleExposedComm, claimsExclusive: true, find: (*ruleContext).findExposedComm},
		{id: gpuprof.RuleHostBound, host: true, notes: true, find: (*ruleContext).findHostBound},
		{id: gpuprof.RuleCheckpointWrite, find: (*ruleContext).findCheckpointWrite},
		{id: gpuprof.RuleLogging, find: (*ruleContext).findLogging},
		{id: gpuprof.RuleOutsideOperators, find: (*ruleContext).findOutsideOperators},
		{id: gpuprof.RuleRecomputation, find: (*ruleContext).findRecomputation},
		{id: gpuprof.RuleStarvedMachine, find: (*ruleContext).findStarvedMachine},
		{id: gpuprof.RuleFloat64, find: (*ruleContext).findFloat64Parameters},
		{id: gpuprof.RuleTooManyThreads, notes: true, find: (*ruleContext).findTooManyThreads},
		{id: gpuprof.RuleAnomalyMode, notes: true, find: (*ruleContext).findAnomalyMode},
		{id: gpuprof.RuleOptimizerLoop, notes: true, find: (*ruleContext).findOptimizerLoop},
		{id: gpuprof.RuleStreamWait, claimsExclusive: true, find: (*ruleContext).findStreamWait},
		{id: gpuprof.RuleSmallGrid, notes: true, runsOnStartUp: true, find: (*ruleContext).findSmallGrid},
		{id: gpuprof.RuleOneKernel, notes: true, runsOnStartUp: true, find: (*ruleContext).findOneKernel},
		{id: gpuprof.RulePrefillInDecode, notes: true, find: (*ruleContext).findPrefillInDecode},
		{id: gpuprof.RuleDecodeAllReduce, notes: true, find: (*ruleContext).findDecodeAllReduce},
		{id: gpuprof.RuleSchedulerGap, host: true, notes: true, find: (*ruleContext).findSchedulerGap},
		{id: gpuprof.RuleRecompilation, notes: true, runsOnStartUp: true, find: (*ruleContext).findRecompilation},
		{id: gpuprof.RuleHostOperator, notes: true, find: (*ruleContext).findHostOperator},
		{id: gpuprof.RuleTraceQuality, notes: true, runsOnStartUp: true, find: (*ruleContext).findTraceQuality},
	}
}

// RuleIDs returns the ids of all rules in the order in which they claim time, rules about the ranks of a job first.
func RuleIDs() []string {
	ids := []string{gpuprof.RuleStraggler, gpuprof.RuleExpertImbalance}
	for _, r := range ruleTable() {
		ids = append(ids, r.id)
	}
	return ids
}

// Compare compares two analyses with findings in the order of the rules; see analyze.CompareInOrder.
func Compare(before, after *analyze.Analysis) *analyze.Comparison {
	return analyze.CompareInOrder(before, after, RuleIDs())
}

// OfHost reports whether a rule claims idle time of the device before launches, which a slow host (for example under a
// profiler) increases.
func OfHost(rule string) bool {
	for _, r := range ruleTable() {
		if r.id == rule {
			return r.host
		}
	}
	return false
}

// Rules runs every rule over a trace, in the order of ruleTable, and claims time from the ledger. Times of findings are
// totals over the steps that are not dropped, ns. With several devices, a finding claims time on the device where it
// saves the most, and later rules cannot claim the same time on another device. So all claims of a trace add up to at
// most x.Steady. Rules also sets x.Recording.Settings and x.Roofline. It is deterministic.
func Rules(x *analyze.Index, l *analyze.Ledger) []analyze.Found {
	c := newRuleContext(x, l)
	var out []analyze.Found
	only := c.x.Unjudged()
	x.Recording.Settings = c.listSettings()
	x.Roofline = roofline.Of(x, c.nameKernelPrecision)
	for _, r := range ruleTable() {
		if c.rule = r; only && !r.runsOnStartUp {
			continue
		}
		for _, f := range r.find(c) {
			if line := c.adviseEngine(f.Rule); !f.AnyProgram && line != "" && x.ServesRequests() {
				f.PyTorch = line
			} else if !f.AnyProgram {
				f.PyTorch = changeFor(x.Recording.Program, x.Recording.Kind, f.Rule, f.PyTorch)
			}
			if f.SavesTime() || c.isWorthReading(&f) {
				out = append(out, f)
			}
			if f.Device < 0 {
				c.claimedHost = c.claimedHost.Or(f.Spans)
			}
		}
	}
	return out
}

// isWorthReading reports whether a finding that claims no time is reported. It is if its rule has notes set, or if its
// rule is about the host and the trace is too incomplete for a claim. Other findings about host time that device work
// hides would save nothing.
func (c *ruleContext) isWorthReading(f *analyze.Found) bool {
	return c.rule.notes || c.rule.host && c.quality.linksBroken && len(f.Sites) > 0
}

type ruleContext struct {
	x       *analyze.Index
	t       *model.Trace
	l       *analyze.Ledger
	rule    rule
	steps   int64 // number of steps that are not dropped, at least 1
	span    int64 // total length of x.Steady, ns
	names   []nameFacts
	devices []*ruleDevice
	quality traceQuality
	// lived is the time of all steps, including dropped ones.
	lived model.Spans
	// claimedAnywhere is the time that findings have claimed on any device; used with several devices only.
	claimedAnywhere model.Spans
	// stalls are the host calls that wait for a device, in the steps that are not dropped, sorted by thread and start.
	stalls []stall
	// others are the stalls outside these steps.
	others   []stall
	blockers []blocker
	// launches holds the start times of launch calls by process.
	launches map[int32][]int64
	shapes   map[uint32]string // operand shapes as text, by Host.Stack; see formatShapes
	tf32NS   int64             // time that the rule no-tf32 has claimed
	copyNS   int64             // time that the rule pageable-h2d has claimed
	// fusedBytes maps operations (indices into Trace.GPU) to the share of their bytes that the advice of the rule
	// memory-bound-chain saves. The rule elementwise-chain skips these operations.
	fusedBytes map[int32]float64
	withheld   map[string]model.Spans // by rule: time not claimed because the trace is unreliable, on the worst device
	// host is the time breakdown of the host thread, nil unknown. hostOutside is the unclaimed time of the host thread
	// outside events; claimedHost is the host time that findings without a device claim.
	host                     *analyze.HostAccount
	hostOutside, claimedHost model.Spans
	reading                  map[string]bool // lines that the finding of findManyReads names
}

type ruleDevice struct {
	*analyze.DeviceTime
	props         model.Device
	arch          int            // least compute capability that the device's kernels need (80 is 8.0), 0 unknown
	steady        model.Spans    // the part of x.Steady within the device's window
	counted       []bool         // by index in Ops: the operation belongs to a step that is not dropped
	procs         map[int32]bool // processes that launch on the device
	uncertainIdle model.Spans    // idle time in which a missing kernel may have run
	// withheld is time that was not claimed because the trace is unreliable.
	withheld model.Spans
	// faulty: too many records of the device are invalid (model.Gate), so its idle time is unknown.
	faulty bool
	decode *decodeWork // see sumDecode
}

func newRuleContext(x *analyze.Index, l *analyze.Ledger) *ruleContext {
	c := &ruleContext{x: x, t: x.T, l: l, steps: int64(max(x.SteadySteps(), 1)), span: x.Steady.Total(), withheld: map[string]model.Spans{}, shapes: map[uint32]string{}}
	c.names = describeRuleNames(x.T)
	if c.host = x.HostAccount(); c.host != nil {
		c.hostOutside = x.HostOutside()
	}
	c.lived = x.AllStepTime()
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
		c.markSteadyOps(rd)
		c.devices = append(c.devices, rd)
	}
	c.findLaunches()
	c.quality = c.measureQuality()
	c.stalls, c.others = c.findStalls()
	c.blockers = c.findBlockers()
	return c
}

// isDrivenBy reports whether the process of a lane (thread) launches work on the device. It is true if the trace has no
// launches for the device.
func (d *ruleDevice) isDrivenBy(c *ruleContext, lane uint32) bool {
	return len(d.procs) == 0 || d.procs[c.t.ProcessOf(lane)]
}

// claimHost claims, for each device, the part of the time that want returns in which the device waited for a launch. If
// the device's idle time is unreliable, it claims nothing and records the time for the rule trace-quality.
func (c *ruleContext) claimHost(want func(*ruleDevice) model.Spans) claim {
	return c.grantClaim(func(d *ruleDevice) model.Spans {
		if c.isIdleUnsure(d) {
			c.withholdStarved(d, want(d))
			return nil
		}
		return c.l.ClaimHost(d.Device, want(d).Minus(d.uncertainIdle))
	})
}

func (c *ruleContext) withholdStarved(d *ruleDevice, want model.Spans) {
	c.withholdTime(d, d.Starved.And(want).And(d.steady))
}

// withholdTime records time that the running rule would have claimed on device d if the trace were reliable.
func (c *ruleContext) withholdTime(d *ruleDevice, want model.Spans) {
	lost := want.Minus(c.l.Claimed(d.Device)).Minus(d.withheld)
	d.withheld = d.withheld.Or(lost)
	if lost.Total() > c.withheld[c.rule.id].Total() {
		c.withheld[c.rule.id] = lost
	}
}

// claimGPU claims the busy time within the spans that want returns for each device. The caller makes sure that no
// operation outside the finding overlaps the spans.
func (c *ruleContext) claimGPU(want func(*ruleDevice) model.Spans) claim {
	return c.grantClaim(func(d *ruleDevice) model.Spans {
		if c.rule.claimsExclusive && (c.quality.lost || d.faulty) {
			c.withholdTime(d, want(d).And(d.steady))
			return nil
		}
		return c.l.ClaimGPU(d.Device, want(d).And(d.steady))
	})
}

// claimOps claims the spans that want returns for each device, like claimGPU, and the delays from launch to start of
// the operations that pick accepts. It is for operations that the advised change removes.
func (c *ruleContext) claimOps(pick func(g int32) bool, want func(*ruleDevice) model.Spans) claim {
	return c.grantClaim(func(d *ruleDevice) model.Spans {
		return c.l.ClaimGPU(d.Device, want(d).And(d.steady)).Or(c.claimQueued(d, d.waitsBefore(c, pick, false)))
	})
}

func (c *ruleContext) isIdleUnsure(d *ruleDevice) bool {
	return c.quality.linksBroken || d.faulty || c.x.OneCutStep()
}

// claimQueued claims the part of want in which the next operation of the device was launched and had not begun. It
// claims nothing if the records of the device are unreliable.
func (c *ruleContext) claimQueued(d *ruleDevice, want model.Spans) model.Spans {
	if d.faulty || c.rule.claimsExclusive && c.quality.lost {
		c.withholdTime(d, want.And(d.Queued).And(d.steady))
		return nil
	}
	return c.l.ClaimQueued(d.Device, want)
}

// claim is the time that a finding claims, on the device where it claims the most.
type claim struct {
	ns     int64
	spans  model.Spans
	device int // index into T.Devices, -1 none
}

func (c *ruleContext) grantClaim(of func(*ruleDevice) model.Spans) claim {
	best := claim{device: -1}
	for _, d := range c.devices {
		got := of(d)
		if len(c.devices) > 1 {
			got = got.Minus(c.claimedAnywhere)
		}
		if n := got.Total(); n > best.ns {
			best = claim{n, got, d.Device}
		}
	}
	if len(c.devices) > 1 {
		c.claimedAnywhere = c.claimedAnywhere.Or(best.spans)
	}
	return best
}

// newFinding makes a finding of the running rule. Its title begins with what, a sentence about the problem;
// newFinding appends the claimed time.
func (c *ruleContext) newFinding(cl claim, what string) analyze.Found {
	f := analyze.Found{
		Finding: gpuprof.Finding{Rule: c.rule.id, ClaimNS: cl.ns, StepNS: cl.ns / c.steps, Title: what, Evidence: map[string]any{}},
		Spans:   cl.spans, Device: cl.device,
	}
	if c.span > 0 {
		f.Share = float64(cl.ns) / float64(c.span)
	}
	f.Severity = analyze.SeverityOf(f.ClaimNS, f.Share)
	if cl.ns > 0 {
		f.Title += ", which costs up to " + c.formatPerStep(cl.spans)
	}
	if cl.ns > 0 && len(c.devices) > 1 && cl.device >= 0 {
		f.Evidence["device"] = c.t.Devices[cl.device].ID
	}
	if c.rule.host {
		c.addHostCaveats(&f)
	}
	return f
}

// unsettled: the steps of a program vary widely if the longest takes more than this multiple of the shortest.
const unsettled = 2

// getStepRange returns the lengths of the shortest and the longest step that is not dropped, ns; 0 without steps.
func (c *ruleContext) getStepRange() (low, high int64) {
	if !c.hasSteps() {
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

func (c *ruleContext) addHostCaveats(f *analyze.Found) {
	if c.t.Inflated {
		text := "inflated by profiling: the recording has the profiler's own overhead in it, which lengthens the host's work"
		if c.t.Format == model.Kineto {
			text = "inflated by profiling: the trace has Python frames or the profiler's own overhead, which lengthen the host's work; record again without with_stack to measure it"
		}
		f.Caveats = append(f.Caveats, text)
	}
	if low, high := c.getStepRange(); f.ClaimNS > 0 && high > unsettled*low {
		f.Caveats = append(f.Caveats, fmt.Sprintf("the steps take %s to %s: the program or the profiler had not settled, so times of the host are not representative; record later, or longer", gpuprof.FormatNS(low), gpuprof.FormatNS(high)))
	}
	switch {
	case len(c.devices) > 0 && c.quality.linksBroken:
		f.Caveats = append(f.Caveats, "no time claimed: too many kernels are missing from the trace to say when the device was idle (see trace-quality)")
	case f.ClaimNS == 0 && slices.ContainsFunc(c.devices, func(d *ruleDevice) bool { return d.faulty }):
		f.Caveats = append(f.Caveats, "no time claimed: too many records of the device are wrong to say when it was idle (see trace-quality)")
	}
}
