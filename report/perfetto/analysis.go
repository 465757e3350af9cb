package perfetto

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// maxSlices limits a row to its longest slices, so that a browser can open the file.
const maxSlices = 100_000

// First thread IDs of the kinds of rows. In the file each input is a process, and each row a thread.
const (
	tidAnalysisSteps = 1
	tidDevices       = 10
	tidFindings      = 100
)

// WriteAnalysis writes the breakdown of the analyzed traces' time. Each input has a row of steps, a row per device, and
// a row per finding with the time that it claims. A device is busy, starved, queued or unknown at every instant; each
// gap has the event that ended it. xs are the indexes of a.Inputs, in order; an input whose index is nil has only steps
// and findings. If all recordings overlap, as for the ranks of a job, times count from the first event of all inputs,
// and otherwise from each input's first event. base_ns in otherData is the subtracted time.
func WriteAnalysis(w io.Writer, a *analyze.Analysis, xs []*analyze.Index) error {
	if a == nil || len(a.Inputs) == 0 {
		return fmt.Errorf("writing a Perfetto trace: the analysis has no input")
	}
	xs = append(slices.Clone(xs), make([]*analyze.Index, len(a.Inputs))...)[:len(a.Inputs)]
	base := baseTimes(a, xs)
	e := newEncoder(w, []arg{
		{"kind", document.Timeline},
		{"schema_version", document.Version(document.Timeline)},
		{"tool", map[string]string{"name": "gpuprof"}},
		{"displayTimeUnit", "ms"},
		{"otherData", map[string]any{"about": "account of the device time, by gpuprof analyze", "base_ns": base}},
	})
	for i := range a.Inputs {
		d := &drawing{e: e, a: a, x: xs[i], input: i, base: base[i]}
		d.write()
	}
	return e.close()
}

// baseTimes returns, for each input, the time that is subtracted from all its times, ns (see WriteAnalysis).
func baseTimes(a *analyze.Analysis, xs []*analyze.Index) []int64 {
	out := make([]int64, len(a.Inputs))
	latest, earliestEnd, first := int64(math.MinInt64), int64(math.MaxInt64), int64(math.MaxInt64)
	for i := range a.Inputs {
		s := inputSpan(a, xs[i], i)
		out[i] = s.Start
		latest, earliestEnd, first = max(latest, s.Start), min(earliestEnd, s.End), min(first, s.Start)
	}
	if latest <= earliestEnd {
		for i := range out {
			out[i] = first
		}
	}
	return out
}

func inputSpan(a *analyze.Analysis, x *analyze.Index, input int) model.Span {
	if x != nil {
		return x.Span
	}
	s := model.Span{Start: math.MaxInt64, End: math.MinInt64}
	add := func(start, end int64) { s.Start, s.End = min(s.Start, start), max(s.End, end) }
	for _, st := range a.Steps {
		if st.Input == input {
			add(st.StartNS, st.StartNS+st.DurNS)
		}
	}
	for i, spans := range a.Claimed {
		for _, c := range spans {
			if a.Findings[i].Input == input {
				add(c.Start, c.End)
			}
		}
	}
	if s.End < s.Start {
		return model.Span{}
	}
	return s
}

// drawing writes one input.
type drawing struct {
	e     *encoder
	a     *analyze.Analysis
	x     *analyze.Index
	input int
	base  int64
}

// mark is a slice of a row.
type mark struct {
	model.Span
	name string
	args []arg
}

func (m *mark) span() (int64, int64) { return m.Start, m.End }

func (d *drawing) pid() int { return d.input + 1 }

func (d *drawing) write() {
	in := d.a.Inputs[d.input]
	name := view.Cut(in.Path, textLimit)
	if in.Rank >= 0 {
		name = fmt.Sprintf("rank %d: %s", in.Rank, name)
	}
	d.e.nameProcess(d.pid(), d.input, name, string(in.Kind))
	d.writeSteps()
	tid := tidDevices
	if d.x != nil {
		for _, t := range d.x.Devices {
			tid = d.writeRows(tid, deviceName(d.x, t.Device), d.deviceMarks(t))
		}
	}
	tid = max(tid, tidFindings)
	for i := range d.a.Findings {
		if f := &d.a.Findings[i]; f.Input == d.input {
			tid = d.writeFinding(tid, f, d.a.ClaimedBy(i))
		}
	}
}

func deviceName(x *analyze.Index, device int) string {
	if device < 0 || device >= len(x.T.Devices) {
		return fmt.Sprintf("GPU %d", device)
	}
	v := x.T.Devices[device]
	if v.Name == "" {
		return fmt.Sprintf("GPU %d", v.ID)
	}
	return fmt.Sprintf("GPU %d: %s", v.ID, view.Cut(v.Name, 60))
}

// writeRows writes marks as one row, or as several of one name if they overlap. Their threads have numbers from tid on.
// It returns the next free number.
func (d *drawing) writeRows(tid int, name string, marks []*mark) int {
	if dropped := len(marks) - maxSlices; dropped > 0 {
		slices.SortStableFunc(marks, func(a, b *mark) int { return cmp.Compare(b.Len(), a.Len()) })
		marks = marks[:maxSlices]
		name += fmt.Sprintf(" (%d shorter ones left out)", dropped)
	}
	split, left := nestRows(marks)
	if left > 0 {
		name += fmt.Sprintf(" (%d that cross others left out)", left)
	}
	if len(split) == 0 {
		d.e.nameThread(d.pid(), tid, name+" (none)")
		return tid + 1
	}
	for i, row := range split {
		title := name
		if i > 0 {
			title = fmt.Sprintf("%s, overlapping %d", name, i+1)
		}
		d.e.nameThread(d.pid(), tid, title)
		for _, m := range row {
			d.e.writeEvent(&event{ph: 'X', name: m.name, cat: "gpuprof", pid: d.pid(), tid: tid, start: m.Start - d.base, dur: m.Len(), args: m.args})
		}
		tid++
	}
	return tid
}

func (d *drawing) writeSteps() {
	var marks []*mark
	for i := range d.a.Steps {
		s := &d.a.Steps[i]
		if s.Input != d.input {
			continue
		}
		m := &mark{Span: model.Span{Start: s.StartNS, End: s.StartNS + max(s.DurNS, 0)}, name: view.Cut(s.Name, textLimit), args: []arg{
			{"on the host", gpuprof.FormatNS(s.HostDurNS)}, {"busy", gpuprof.FormatNS(s.BusyNS)}, {"kernels", gpuprof.FormatNS(s.KernelNS)},
			{"starved", gpuprof.FormatNS(s.StarvedNS)}, {"queued", gpuprof.FormatNS(s.QueuedNS)}, {"unknown", gpuprof.FormatNS(s.UnknownNS)}}}
		if s.LoaderNS > 0 {
			m.args = append(m.args, arg{"waiting for data", gpuprof.FormatNS(s.LoaderNS)})
		}
		if s.Dropped {
			m.args = append(m.args, arg{"left out of findings", true})
		}
		marks = append(marks, m)
	}
	d.writeRows(tidAnalysisSteps, "steps ("+view.Cut(d.a.StepSource, 80)+")", marks)
}

// deviceMarks returns the marks of a device: its state at every instant of its window.
func (d *drawing) deviceMarks(t *analyze.DeviceTime) []*mark {
	var out []*mark
	for _, s := range t.Busy {
		out = append(out, &mark{Span: s, name: "busy"})
	}
	for _, gap := range []struct {
		spans model.Spans
		name  string
		says  string
	}{
		{t.Starved, "starved", "the host had not launched anything yet"},
		{t.Queued, "queued", "launched, and the device had not begun"},
		{t.Unknown, "unknown", "the operation that ended the gap has no recorded launch"},
	} {
		for _, s := range gap.spans {
			m := &mark{Span: s, name: gap.name, args: []arg{{"because", gap.says}}}
			out = append(out, m)
		}
	}
	if len(out) <= maxSlices { // otherwise the shortest are dropped, and names take time to build
		for _, m := range out {
			if m.name != "busy" {
				m.args = append(m.args, d.gapArgs(t, m.Span)...)
			}
		}
	}
	return out
}

// gapArgs describes the operations before and after a gap, and the operator and call that launched the one after it.
func (d *drawing) gapArgs(t *analyze.DeviceTime, gap model.Span) []arg {
	var out []arg
	ops := d.x.T.GPU
	next, _ := slices.BinarySearchFunc(t.Ops, gap.End, func(i int32, at int64) int { return cmp.Compare(ops[i].Start, at) })
	if gap.End > gap.Start {
		before, _ := slices.BinarySearchFunc(t.Ops, gap.Start, func(i int32, at int64) int { return cmp.Compare(ops[i].Start, at) })
		if before > 0 {
			out = append(out, arg{"after", view.Cut(d.x.T.Name(ops[t.Ops[before-1]].Name), textLimit)})
		}
	}
	// A gap may have a starved part (nothing is launched) and then a queued part (launched, but not begun). The
	// operation comes after both.
	if next == len(t.Ops) {
		return out
	}
	i := t.Ops[next]
	out = append(out, arg{"until", view.Cut(d.x.T.Name(ops[i].Name), textLimit)})
	if op := d.x.EnclosingOp(i); op >= 0 {
		out = append(out, arg{"in", view.Cut(d.x.T.Name(d.x.T.Host[op].Name), textLimit)})
	}
	if l := ops[i].Launch; l >= 0 {
		out = append(out, arg{"launched by", view.Cut(d.x.T.Name(d.x.T.Host[l].Name), textLimit)})
	}
	return out
}

// writeFinding writes a row with the time that a finding claims.
func (d *drawing) writeFinding(tid int, f *gpuprof.Finding, spans []model.Span) int {
	args := []arg{{"title", f.Title}, {"severity", f.Severity}, {"change", f.PyTorch}, {"command", f.Command}}
	first := slices.Clone(args)
	for _, k := range slices.Sorted(maps.Keys(f.Evidence)) {
		first = append(first, arg{"evidence: " + view.Cut(k, 60), view.Value(f.Evidence[k])})
	}
	for i, c := range f.Caveats {
		first = append(first, arg{fmt.Sprintf("caveat %d", i+1), c})
	}
	for i, s := range f.Sites {
		first = append(first, arg{fmt.Sprintf("site %d", i+1), fmt.Sprintf("%s: %.0f times, %s", view.Cut(s.Where, textLimit), s.Count, gpuprof.FormatNS(s.NS))})
	}
	name := view.Cut(f.Rule, 60)
	if f.ClaimNS > 0 {
		name += ": up to " + gpuprof.FormatNS(f.ClaimNS)
	}
	var marks []*mark
	for i, s := range model.UnionOf(slices.Clone(spans)) {
		m := &mark{Span: s, name: view.Cut(f.Rule, 60), args: args}
		if i == 0 {
			m.args = first // evidence, caveats and sites are only in the first mark
		}
		marks = append(marks, m)
	}
	return d.writeRows(tid, name, marks)
}
