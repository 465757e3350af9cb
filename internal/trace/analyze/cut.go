package analyze

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// cutter fills a model.Cut, which lists the events to keep when a user cuts steps or a time window from a recording.
type cutter struct {
	*model.Cut
	x *Index
}

// Range is the argument of --steps or --window. A missing bound is open.
type Range struct {
	text     string
	from, to int64
}

// ParseSteps parses "5..9", "5..", "..9" or "5"; errors wrap ErrUsage.
func ParseSteps(text string) (Range, error) {
	return parseRange("steps", text, "5..9", func(s string) (int64, error) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			return 0, gpuprof.Errorf(gpuprof.ErrUsage, "%q is no number of a step", s).WithFix("give the first and the last, such as --steps 5..9")
		}
		return n, nil
	})
}

// ParseWindow parses "10s..12s" into a Range in ns; errors wrap ErrUsage.
func ParseWindow(text string) (Range, error) {
	r, err := parseRange("window", text, "10s..12s", func(s string) (int64, error) {
		if d, err := time.ParseDuration(s); err == nil && d == 0 {
			return 0, nil // the beginning of the recording
		}
		d, err := gpuprof.ParseTime(s)
		return d.Nanoseconds(), err
	})
	if err == nil && (r.from == r.to || !strings.Contains(text, "..")) {
		err = gpuprof.Errorf(gpuprof.ErrUsage, "reading --window %s: it is no stretch of time", text).WithFix("give two times, such as --window 10s..12s")
	}
	return r, err
}

func parseRange(flag, text, example string, number func(string) (int64, error)) (r Range, err error) {
	r = Range{text, 0, math.MaxInt64}
	first, last, two := strings.Cut(text, "..")
	if !two {
		last = first
	}
	if first != "" || !two {
		r.from, err = number(strings.TrimSpace(first))
	}
	if last != "" && err == nil {
		r.to, err = number(strings.TrimSpace(last))
	}
	switch {
	case err != nil:
		return r, gpuprof.Errorf(gpuprof.ErrUsage, "reading --%s %s: %w", flag, text, err)
	case first+last == "":
		return r, gpuprof.Errorf(gpuprof.ErrUsage, "reading --%s %s: it is no range", flag, text).WithFix("give the first and the last, such as --%s %s", flag, example)
	case r.from > r.to:
		return r, gpuprof.Errorf(gpuprof.ErrUsage, "reading --%s %s: it ends before it begins", flag, text).WithFix("give the first before the last, such as --%s %s", flag, example)
	}
	return r, nil
}

// StepNumbers returns the numbers by which users select steps. These are the numbers at the ends of step names
// (ProfilerStep#12) if they increase from step to step, else 1, 2, 3 ….
func (x *Index) StepNumbers() []int64 {
	named, counted := make([]int64, 0, len(x.Steps)), make([]int64, 0, len(x.Steps))
	for i := range x.Steps {
		counted = append(counted, int64(i)+1)
		name := x.Steps[i].Name
		digits := name[len(strings.TrimRight(name, "0123456789")):]
		n, err := strconv.ParseInt(digits, 10, 64)
		if err == nil && (len(named) == 0 || named[len(named)-1] < n) {
			named = append(named, n)
		}
	}
	if len(named) == len(x.Steps) {
		return named
	}
	return counted
}

// StepsPart returns a cut with the selected steps and their device work. The error wraps ErrUsage if the trace lacks
// them.
func (x *Index) StepsPart(selected Range) (*model.Cut, error) {
	if len(x.Steps) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "cutting steps %s from %s: the trace has no steps", selected.text, x.T.Path).WithFix("give a stretch of time with --window")
	}
	numbers := x.StepNumbers()
	first, last := numbers[0], numbers[len(numbers)-1]
	if selected.to == math.MaxInt64 {
		selected.to = last
	}
	if !strings.HasPrefix(selected.text, "..") && selected.from < first || selected.from > last || selected.to > last || selected.to < first {
		err := gpuprof.Errorf(gpuprof.ErrUsage, "cutting steps %s from %s: its steps are %d to %d", selected.text, x.T.Path, first, last).WithFix("give --steps %d..%d or less", first, last)
		return nil, x.truncatedError(err)
	}
	p := &cutter{x: x, Cut: &model.Cut{Source: x.StepSource, After: x.cutAfter(), Shift: x.T.Shift}}
	for i := range x.Steps {
		s := &x.Steps[i]
		switch {
		case numbers[i] < selected.from:
			p.After = max(p.After, s.Full.End)
		case numbers[i] <= selected.to:
			p.addStep(s)
		}
	}
	if len(p.Steps) == 0 { // possible if the step numbers have gaps
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "cutting steps %s from %s: it has no step with such a number among %d to %d", selected.text, x.T.Path, first, last).WithFix("give other steps")
	}
	p.Host.Start, p.Device.Start = p.Steps[0].Host.Start, p.Steps[0].Host.Start
	p.collectOutside()
	return p.Cut, nil
}

// WindowPart returns a cut of the recording to a time window. Times count from the first event of the file, as in
// Perfetto. The error wraps ErrUsage if the window is empty.
func (x *Index) WindowPart(selected Range) (*model.Cut, error) {
	begin, end := min(x.T.First, x.Span.Start), x.Span.End
	w := model.Span{Start: begin + min(selected.from, end-begin), End: end + 1}
	if selected.to < end-begin {
		w.End = begin + selected.to
	}
	if w.Start >= end {
		err := gpuprof.Errorf(gpuprof.ErrUsage, "cutting %s from %s: the recording ends after %s", selected.text, x.T.Path, gpuprof.FormatSeconds(gpuprof.Seconds(end-begin))).WithFix("give --window with an earlier time")
		return nil, x.truncatedError(err)
	}
	if selected.to > end-begin && selected.to < math.MaxInt64 && x.T.Truncated {
		if err := x.truncatedError(nil); err != nil {
			return nil, err
		}
	}
	p := &cutter{x: x, Cut: &model.Cut{Host: w, Device: w, Source: x.StepSource, After: x.cutAfter(), Steps: []model.CutStep{}, Shift: x.T.Shift}}
	for i := range x.Steps {
		s := &x.Steps[i]
		switch {
		case s.Host.Start >= w.Start && s.Full.End <= w.End:
			p.addStep(s)
		case s.Host.Start < w.Start:
			p.After = max(p.After, min(s.Full.End, w.End))
		}
	}
	p.Host, p.Device = w, w
	if len(p.Steps) == 0 {
		p.Source = model.WholeTrace
	}
	p.collectOutside()
	return p.Cut, nil
}

// truncatedError returns an error that names lack of memory if the trace was read only in part for lack of memory, else
// err.
func (x *Index) truncatedError(err error) error {
	for _, w := range x.T.Warnings {
		if w.Code == "truncated" && strings.Contains(w.Fix, "=") {
			return gpuprof.Errorf(gpuprof.ErrInput, "cutting %s: %s", x.T.Path, w.Text).WithFix("%s", w.Fix)
		}
	}
	return err
}

// cutAfter returns the time at which the devices had finished all steps before the cut, if the trace itself is a cut;
// math.MinInt64 otherwise.
func (x *Index) cutAfter() int64 {
	if x.T.Cut != nil {
		return x.T.Cut.After
	}
	return math.MinInt64
}

func (p *cutter) addStep(s *StepSpan) {
	l := p.x.T.Lanes[s.Lane]
	p.Steps = append(p.Steps, model.CutStep{Name: s.Name, Host: s.Host, Process: l.Process, Thread: l.Thread, Dropped: s.Dropped, Empty: s.Empty})
	p.Host.End, p.Device.End = max(p.Host.End, s.Host.End), max(p.Device.End, s.Full.End+1)
}

// collectOutside keeps the events outside the cut that the analysis of the cut needs. These are the launches of its
// device operations with all events around them, and the operations that its calls launched. On each device, it keeps
// the operations directly before and after the cut, because they limit the first and the last wait.
func (p *cutter) collectOutside() {
	t := p.x.T
	p.HostStarts, p.DeviceStarts = map[int64]struct{}{}, map[int64]struct{}{}
	before, behind := map[uint16]int{}, map[uint16]int{}
	for i := range t.GPU {
		g := &t.GPU[i]
		if j, ok := before[g.Device]; g.End <= p.Device.Start && (!ok || g.End >= t.GPU[j].End) {
			before[g.Device] = i
		}
		if _, ok := behind[g.Device]; !ok && g.Start >= p.Device.End { // operations are sorted by start
			behind[g.Device] = i
		}
		inside := p.Device.Overlaps(g.Start, g.End)
		if g.Launch >= 0 {
			h := &t.Host[g.Launch]
			inside = inside || p.Host.Overlaps(h.Start, h.End)
		}
		if inside {
			p.keepOp(i)
		}
	}
	for _, edge := range []map[uint16]int{before, behind} {
		for _, i := range edge {
			p.keepOp(i)
		}
	}
}

// keepOp keeps a device operation and all host events around its launch.
func (p *cutter) keepOp(gpu int) {
	g := &p.x.T.GPU[gpu]
	if !p.Device.Overlaps(g.Start, g.End) || g.Start < p.Device.Start {
		p.DeviceStarts[g.Start] = struct{}{}
	}
	for h := g.Launch; h >= 0; h = p.x.parent[h] {
		if e := &p.x.T.Host[h]; e.Start < p.Host.Start || e.Start >= p.Host.End {
			p.HostStarts[e.Start] = struct{}{}
		}
	}
}

// restoreCutSteps makes the steps of a cut recording from the steps that were stored with the cut.
func (x *Index) restoreCutSteps() {
	p := x.T.Cut
	x.StepSource = p.Source
	if len(p.Steps) == 0 {
		x.StepSource = model.WholeTrace
		if w := (model.Span{Start: max(p.Device.Start, x.Span.Start), End: min(p.Device.End, x.Span.End)}); w.Len() > 0 {
			x.Called = model.Spans{w}
		}
		x.Steady = x.Called.Minus(x.notSteady)
		return
	}
	all := !slices.ContainsFunc(p.Steps, func(s model.CutStep) bool { return !s.Dropped })
	for _, s := range p.Steps {
		lane := x.Main
		if i := slices.IndexFunc(x.T.Lanes, func(l model.Lane) bool { return l.Process == s.Process && l.Thread == s.Thread }); i >= 0 {
			lane = uint32(i)
		}
		x.Steps = append(x.Steps, StepSpan{Name: s.Name, Host: s.Host, Lane: lane, Dropped: s.Dropped && (!all || s.Empty), Empty: s.Empty})
	}
}
