package analyze

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Parts divides a device's time in the mean step. BusyNS is the sum of the classes of kernels. BusyNS and the idle
// times add up to the step.
type Parts struct {
	BusyNS    int64 `json:"busy_ns"`
	StarvedNS int64 `json:"starved_ns"`
	QueuedNS  int64 `json:"queued_ns"`
	UnknownNS int64 `json:"unknown_ns"`
	// OutsideNS is the time before the first and after the last operation; the whole step without a device.
	OutsideNS int64                 `json:"outside_ns"`
	Classes   map[model.Class]int64 `json:"classes"`
	// CommHiddenNS is the time of communication during computation; Classes counts it for the class of the computation.
	CommHiddenNS int64 `json:"communication_hidden_ns"`
}

// Part is a part of the mean step: a class of kernels or an idle state.
type Part struct {
	Name  string
	NS    int64
	Means string // explains an idle state to the user; "" for a class
}

// Idle lists the idle parts in the order of printing.
func (p *Parts) Idle() []Part {
	return []Part{
		{"starved", p.StarvedNS, "idle: the host had not launched the next operation"},
		{"queued", p.QueuedNS, "idle: the next operation was launched and had not begun"},
		{"unknown", p.UnknownNS, "idle: the trace has no launch of the next operation"},
		{"outside", p.OutsideNS, "before the first and after the last operation"},
	}
}

// Total returns the sum of the parts, which is the step.
func (p *Parts) Total() int64 {
	return p.BusyNS + p.StarvedNS + p.QueuedNS + p.UnknownNS + p.OutsideNS
}

// Shown lists the parts that take time: the classes, the longest first, then the idle states. Communication is listed
// even if all of it is hidden. If most is not 0, only the first most classes are listed, and the others are added up as
// "other classes". The parts add up to Total.
func (p *Parts) Shown(most int) []Part {
	order := model.Classes()
	slices.SortStableFunc(order, func(a, b model.Class) int { return cmp.Compare(p.Classes[b], p.Classes[a]) })
	var out []Part
	var rest Part
	for i, class := range order {
		switch ns := p.Classes[class]; {
		case ns == 0 && (class != model.Communication || p.CommHiddenNS == 0):
		case most == 0 || i < most:
			out = append(out, Part{Name: string(class), NS: ns})
		default:
			rest.NS += ns
		}
	}
	if rest.NS > 0 {
		rest.Name = "other classes"
		out = append(out, rest)
	}
	for _, idle := range p.Idle() {
		if idle.NS > 0 {
			out = append(out, idle)
		}
	}
	return out
}

// Most returns the kernel with the most time in a class, or the meaning of an idle state. For communication it adds
// the hidden time.
func (a *Analysis) Most(p Part) string {
	most := a.mostKernel(p)
	if p.Name != string(model.Communication) {
		return most
	}
	return fmt.Sprintf("exposed; %s hidden by computation: %s", gpuprof.FormatNS(a.Step.CommHiddenNS), most)
}

func (a *Analysis) mostKernel(p Part) string {
	for i := range a.Kernels { // sorted by time
		if string(a.Kernels[i].Class) == p.Name {
			return a.Kernels[i].Name
		}
	}
	return p.Means
}

// StepMean is the mean over the steps that are not dropped. It is a mean, not a median, so that the parts add up to the
// step.
type StepMean struct {
	// Count is the number of steps in the mean, over all inputs. If it is 0, no steps were found and NS is the recording
	// window (the mean window of several inputs).
	Count int   `json:"count"`
	NS    int64 `json:"ns"`
	MinNS int64 `json:"min_ns"` // the shortest step
	MaxNS int64 `json:"max_ns"` // the longest step
	Parts       // the mean over the devices
}

// Stepped reports whether the trace has steps. Without steps, times refer to the recording window.
func (x *Index) Stepped() bool { return len(x.Steps) > 0 && x.StepSource != model.WholeTrace }

// PerStep returns the unit of the times of an analysis: "per step", or "in the recording window" without steps.
func (a *Analysis) PerStep() string { return PerStepWord(a.Step.Count > 0) }

// PerStepWord returns the unit of times with or without steps.
func PerStepWord(stepped bool) string {
	if stepped {
		return "per step"
	}
	return "in the recording window"
}

// partSums holds the totals of the fields of Parts over the steps that are not dropped, ns. They are fractional because
// several devices are averaged.
type partSums struct {
	starved, queued, unknown, outside, hidden float64
	classes                                   [maxClasses]float64 // by index into classList
}

func (p *partSums) addWeighted(o *partSums, weight float64) {
	p.starved, p.queued = p.starved+o.starved*weight, p.queued+o.queued*weight
	p.unknown, p.outside = p.unknown+o.unknown*weight, p.outside+o.outside*weight
	p.hidden += o.hidden * weight
	for i := range p.classes {
		p.classes[i] += o.classes[i] * weight
	}
}

// divideBy returns the sums divided by n. It rounds the running sums instead of each part, so that the rounded parts
// add up to the rounded step.
func (p *partSums) divideBy(n float64) Parts {
	out := Parts{Classes: map[model.Class]int64{}}
	sum, assigned := 0.0, int64(0)
	next := func(v float64) int64 {
		sum += v
		ns := int64(math.Round(sum/n)) - assigned
		assigned += ns
		return ns
	}
	for i, c := range classList {
		if ns := next(p.classes[i]); ns > 0 {
			out.Classes[c] = ns
		}
	}
	out.BusyNS = assigned
	out.StarvedNS, out.QueuedNS, out.UnknownNS = next(p.starved), next(p.queued), next(p.unknown)
	out.OutsideNS = next(p.outside)
	out.CommHiddenNS = int64(math.Round(p.hidden / n))
	return out
}

func (x *Index) steadyParts(d *DeviceTime) *partSums {
	p := &partSums{outside: float64(x.Steady.Total())}
	var sum [maxClasses]int64
	for _, w := range x.Steady {
		d.addClasses(&sum, w)
	}
	for i := range sum {
		p.classes[i] = float64(sum[i])
		p.outside -= p.classes[i]
	}
	p.hidden = float64(d.Comm.And(x.Steady).TotalAnd(d.Compute))
	p.starved = float64(d.Starved.TotalAnd(x.Steady))
	p.queued = float64(d.Queued.TotalAnd(x.Steady))
	p.unknown = float64(d.Unknown.TotalAnd(x.Steady))
	p.outside -= p.starved + p.queued + p.unknown
	return p
}

// meanStep returns the mean step over all inputs with steps; the mean recording window if no input has steps.
func meanStep(indexes []*Index) StepMean {
	var m StepMean
	var sums partSums
	windows := 0
	for _, stepped := range []bool{true, false} {
		for _, x := range indexes {
			if x.Stepped() != stepped {
				continue
			}
			windows++
			if stepped {
				m.countSteps(x)
			}
			if len(x.Devices) == 0 {
				sums.outside += float64(x.Steady.Total())
			}
			for _, d := range x.Devices {
				sums.addWeighted(x.steadyParts(d), 1/float64(len(x.Devices)))
			}
		}
		if windows > 0 {
			break
		}
	}
	n := float64(max(m.Count, 1))
	if m.Count == 0 {
		n = float64(max(windows, 1))
	}
	m.Parts = sums.divideBy(n)
	m.NS = m.Parts.Total() // the sum of the rounded parts; a rounded mean could differ by 1 ns
	if m.Count == 0 {
		m.MinNS, m.MaxNS = m.NS, m.NS
	}
	return m
}

func (m *StepMean) countSteps(x *Index) {
	for i := range x.Steps {
		s := &x.Steps[i]
		if s.Dropped {
			continue
		}
		n := s.Window.Len()
		if m.Count == 0 || n < m.MinNS {
			m.MinNS = n
		}
		m.Count, m.MaxNS = m.Count+1, max(m.MaxNS, n)
	}
}
