package analyze

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Options are the inputs of an analysis besides the traces.
type Options struct {
	Rules func(*Index, *Ledger) []Found // makes the findings of one trace; nil for none
	Tool  gpuprof.Tool                  // the tool that writes the analysis
	// Waits finds the waits between ranks. JobWaits.Ranks has one entry for each element of ranks, in order. nil for
	// none.
	Waits func(ranks []Collectives) *JobWaits
	// Job makes findings from the waits; nil for none.
	Job func(a *Analysis, indexes []*Index, waits *JobWaits) []Found
	// Caveat returns a reason outside the trace that limits a finding, "" none; nil for no caveats.
	Caveat func(a *Analysis, f gpuprof.Finding) string
}

func (o Options) findCaveat(a *Analysis, f gpuprof.Finding) string {
	if o.Caveat == nil {
		return ""
	}
	return o.Caveat(a, f)
}

// SummariseIndexes runs the rules on one trace, or on the traces of all ranks of a job, and makes one analysis. Totals
// of devices, kernels, copies and calls cover whole traces. Operators, findings, ranks and times per step cover only
// the steps that are not dropped as warm-up (without steps, the steady part of the recording).
func SummariseIndexes(ctx context.Context, indexes []*Index, o Options) (*Analysis, error) {
	a := &Analysis{
		Head:   document.NewHead(document.Analysis, o.Tool),
		Inputs: []Input{}, Steps: []StepTime{}, Devices: []DeviceAccount{}, Kernels: []KernelTime{}, Operators: []OperatorTime{},
		Explained: []Explanation{}, Findings: []gpuprof.Finding{}, Warnings: []gpuprof.Warning{},
		Syncs: map[string]CallTime{}, Copies: map[string]CopyTime{},
	}
	a.Step = meanStep(indexes)
	job := o.findWaits(indexes)
	var found []Found
	kernels, operators, modules := newKernelSums(), newRangeSums(), newRangeSums()
	steps := 0
	for i, x := range indexes {
		steps += x.SteadySteps()
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("summarising %s: %w", x.T.Path, err)
		}
		t := x.T
		if i == 0 && (len(t.Program.Command) > 0 || t.Program.CPUs > 0) {
			a.Program = &t.Program
		}
		a.Inputs = append(a.Inputs, Input{Path: t.Path, Kind: t.Format, Events: t.Events, Rank: t.Rank, Truncated: t.Truncated})
		if i == 0 {
			a.StepSource, a.Recording, a.Host = x.StepSource, &x.Recording, x.HostAccount()
		}
		var wg sync.WaitGroup
		wg.Go(func() { kernels.addTrace(x) })
		wg.Go(func() { operators.addOperators(x); modules.addModules(x) })
		a.addSteps(i, x)
		a.addDevices(i, x)
		a.addCalls(x)
		wg.Wait()
		if o.Rules != nil {
			found = append(found, x.finishFindings(i, o.Rules(x, x.NewLedger()))...)
			if i == 0 {
				a.Roofline = x.Roofline
			}
		}
		a.addWarnings(x, len(indexes) > 1)
	}
	a.Kernels = append(a.Kernels, kernels.sortedKernels()...)
	a.Operators = append(a.Operators, operators.sortedRanges(steps)...)
	a.Modules = modules.sortedRanges(steps)
	a.Ranks = compareRanks(indexes, job)
	if o.Job != nil && len(a.Ranks) > 1 {
		for _, f := range o.Job(a, indexes, job) {
			found = append(found, indexes[f.Input].finishFindings(f.Input, []Found{f})...)
		}
	}
	if len(a.Ranks) > 1 {
		found = capClaims(indexes, found)
	}
	a.findBound(indexes, found)
	a.explainParts(indexes, found)
	slices.SortStableFunc(found, func(p, q Found) int {
		return cmp.Or(cmp.Compare(p.sortRank(), q.sortRank()), cmp.Compare(max(q.ClaimNS, q.rare), max(p.ClaimNS, p.rare)))
	})
	for _, f := range found {
		f.Parts = indexes[f.Input].claimParts(&f)
		f.Command = cmp.Or(f.Command, a.measureCommand(indexes))
		if caveat := o.findCaveat(a, f.Finding); caveat != "" {
			f.Caveats = append(f.Caveats, caveat)
		}
		a.Findings, a.Claimed = append(a.Findings, f.Finding), append(a.Claimed, f.Spans)
	}
	document.CleanStrings(a)
	return a, nil
}

// sortRank returns the first sort key of a finding: 0 for the finding that the recording is not steady, 1 for findings
// marked First, such as causes of other findings, and 2 for all others.
func (f *Found) sortRank() int {
	switch {
	case f.Rule == gpuprof.RuleNotSteady && f.First:
		return 0
	case f.First:
		return 1
	}
	return 2
}

// addSteps adds the steps of one input, with the device times of its main device.
func (a *Analysis) addSteps(input int, x *Index) {
	d := x.mainDevice()
	loader := x.loaderSpans()
	for i := range x.Steps {
		s := &x.Steps[i]
		if s.Empty {
			continue
		}
		st := StepTime{
			Name: s.Name, Input: input, Device: -1, StartNS: s.Window.Start, DurNS: s.Window.Len(), HostNS: s.Host.Start, HostDurNS: s.Host.Len(),
			LoaderNS: loader.TotalIn(s.Host), Dropped: s.Dropped,
		}
		if d != nil {
			st.Device = x.DeviceID(d.Device)
			st.BusyNS = d.Busy.TotalIn(s.Window)
			st.KernelNS = d.Kernel.TotalIn(s.Window)
			st.StarvedNS = d.Starved.TotalIn(s.Window)
			st.QueuedNS = d.Queued.TotalIn(s.Window)
			st.UnknownNS = d.Unknown.TotalIn(s.Window)
			st.Classes = d.ClassesIn(s.Window)
		}
		a.Steps = append(a.Steps, st)
	}
}

// mainDevice returns the device on which the process that runs the steps launches the most operations; nil without
// devices.
func (x *Index) mainDevice() *DeviceTime {
	process := x.T.ProcessOf(x.Main)
	var best *DeviceTime
	most := -1
	for _, d := range x.Devices {
		n := 0
		for _, i := range d.Ops {
			if l := x.T.GPU[i].Launch; l >= 0 && x.T.ProcessOf(x.T.Host[l].Lane) == process {
				n++
			}
		}
		if n > most {
			best, most = d, n
		}
	}
	return best
}

func (x *Index) loaderSpans() model.Spans {
	var v []model.Span
	for i := range x.T.Host {
		h := &x.T.Host[i]
		if (h.Kind == model.Op || h.Kind == model.Annotation) && x.Info[h.Name].Flags&nameLoader != 0 {
			v = append(v, model.Span{Start: h.Start, End: h.End})
		}
	}
	return model.UnionOf(v)
}

// DeviceID returns the number of a device in the recording. The argument device is an index into T.Devices.
func (x *Index) DeviceID(device int) int {
	if device < len(x.T.Devices) {
		return x.T.Devices[device].ID
	}
	return device
}

func (a *Analysis) addDevices(input int, x *Index) {
	for _, d := range x.Devices {
		worked := d.ActiveSpan
		acc := DeviceAccount{
			ID: x.DeviceID(d.Device), Input: input, StartNS: worked.Start, SpanNS: worked.Len(),
			BusyNS: d.Busy.Total(), KernelNS: d.Kernel.Total(), MemcpyNS: d.Memcpy.Total(), MemsetNS: d.Memset.Total(),
			StarvedNS: d.Starved.TotalIn(worked), QueuedNS: d.Queued.TotalIn(worked), UnknownNS: d.Unknown.TotalIn(worked),
			Kernels: d.Kernels, Linked: d.Linked, Classes: d.Classes, Lead: d.InitialIdle,
		}
		acc.Step = x.steadyParts(d).divideBy(float64(x.SteadySteps()))
		acc.IdleNS = acc.SpanNS - acc.BusyNS
		if d.Device < len(x.T.Devices) {
			dev := &x.T.Devices[d.Device]
			acc.Name = dev.Name
			if dev.Major > 0 {
				acc.Capability = fmt.Sprintf("%d.%d", dev.Major, dev.Minor)
			}
		}
		over := worked
		if len(x.Steps) > 0 {
			over.Start = x.Steps[0].Host.Start
		}
		if over.Len() > 0 {
			acc.Utilisation = float64(d.Kernel.TotalIn(over)) / float64(over.Len())
		}
		a.Devices = append(a.Devices, acc)
	}
}

// addCalls adds up the synchronization calls and the copies of a trace, without the synchronization with which the
// profiler ends the recording.
func (a *Analysis) addCalls(x *Index) {
	type sum struct{ count, ns int64 }
	syncs := map[model.NameID]sum{}
	for i := range x.T.Host {
		h := &x.T.Host[i]
		if h.Kind != model.API || x.Info[h.Name].call != model.CallSync || int32(i) == x.Trailing {
			continue
		}
		s := syncs[h.Name]
		syncs[h.Name] = sum{s.count + 1, s.ns + h.Dur()}
	}
	for id, s := range syncs {
		name := x.T.Name(id)
		c := a.Syncs[name]
		a.Syncs[name] = CallTime{c.Count + int(s.count), c.HostNS + s.ns}
	}
	for _, d := range x.Devices {
		for _, i := range d.Ops {
			g := &x.T.GPU[i]
			if g.Kind != model.Memcpy {
				continue
			}
			key := CopyName(g)
			c := a.Copies[key]
			c.Count++
			c.Bytes += g.Bytes
			c.GPUNS += g.Dur()
			// The call of a graph launches all its operations, so its time is not the time of this copy.
			if g.Launch >= 0 && x.Call(g.Launch) != model.CallGraph {
				c.HostNS += x.T.Host[g.Launch].Dur()
			}
			a.Copies[key] = c
		}
	}
}

// CopyName returns the key of a copy in Analysis.Copies: direction and kind of host memory.
func CopyName(g *model.GPU) string {
	switch g.Dir {
	case model.H2D, model.D2H:
		dir := "h2d"
		if g.Dir == model.D2H {
			dir = "d2h"
		}
		switch g.Memory {
		case model.Pageable:
			return dir + "_pageable"
		case model.Pinned:
			return dir + "_pinned"
		case model.Migrated:
			return dir + "_unified"
		}
		return dir + "_unknown"
	case model.D2D:
		return "d2d"
	case model.P2P:
		return "p2p"
	case model.H2H:
		return "h2h"
	}
	return "unknown"
}

// finishFindings sets the share, the severity and the time per step of the findings of one input, from the time that
// they claim. It removes findings that claim less than LeastShare of x.Steady, except findings that claim no time.
func (x *Index) finishFindings(input int, found []Found) []Found {
	steady := x.Steady.Total()
	var out []Found
	for _, f := range found {
		f.Input = input
		f.StepNS = f.ClaimNS / int64(x.SteadySteps())
		f.Share = 0
		if steady > 0 {
			f.Share = float64(f.ClaimNS) / float64(steady)
		}
		if f.ClaimNS > 0 && f.Share < LeastShare {
			continue
		}
		f.Severity = SeverityOf(f.ClaimNS, f.Share)
		if f.RareNS > 0 {
			f.Severity, f.rare = SeverityOf(f.RareNS, f.RareShare), int64(f.RareShare*float64(steady))
		}
		if f.Evidence == nil {
			f.Evidence = map[string]any{}
		}
		out = append(out, f)
	}
	return out
}

// SeverityOf returns the severity of a finding that claims the time claim, ns; share is its share of the judged time.
func SeverityOf(claim int64, share float64) gpuprof.Severity {
	switch {
	case claim <= 0:
		return gpuprof.Note
	case share >= 0.10:
		return gpuprof.High
	case share >= 0.03:
		return gpuprof.Medium
	}
	return gpuprof.Low
}

func (a *Analysis) addWarnings(x *Index, several bool) {
	list := slices.Concat(x.T.Warnings, x.Warnings)
	if x.T.Inflated {
		fix := "record without with_stack for the times of the host"
		text := "the profiler recorded Python frames or its own overhead, which lengthens the host's work: times of the host are inflated by profiling"
		switch {
		case x.T.Format == model.XLA:
			fix = "record with ProfileOptions.python_tracer_level = 0 for the times of the host"
		case x.T.Format != model.Kineto:
			fix, text = "", "the profiler recorded its own overhead, which lengthens the host's work: times of the host are inflated by profiling"
		}
		list = append(list, gpuprof.Warning{Code: "inflated", Fix: fix, Text: text})
	}
	for _, w := range list {
		if several {
			w.Text = x.T.Path + ": " + w.Text
		}
		a.Warnings = append(a.Warnings, w)
	}
}
