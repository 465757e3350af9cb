package analyze

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// explainedShare is the least share of the step of an idle state that is explained besides the largest part.
	explainedShare = 0.20
	// leastNamedShare is the least share of a class or idle state that a finding must claim for the text to name it.
	leastNamedShare = 0.01
	// namedWaits is the largest number of reasons for waits that a sentence names.
	namedWaits = 4
)

// WaitSum adds up the waits for one reason: their time in ns and their number. byExample divides the time, ns, by the
// operation, call or stream that the text can name as an example.
type WaitSum struct {
	NS, Count float64
	byExample map[string]float64
}

// WaitSums maps the reason of a wait to its sums.
type WaitSums map[string]*WaitSum

// addWait counts one wait of ns nanoseconds; example is "" if the reason needs none.
func (w WaitSums) addWait(kind, example string, ns int64) {
	if ns > 0 {
		w.addSum(kind, float64(ns), 1)
		w[kind].byExample[example] += float64(ns)
	}
}

func (w WaitSums) addSum(kind string, ns, count float64) *WaitSum {
	if w[kind] == nil {
		w[kind] = &WaitSum{byExample: map[string]float64{}}
	}
	w[kind].NS += ns
	w[kind].Count += count
	return w[kind]
}

func (w WaitSums) addScaled(o WaitSums, weight float64) {
	for kind, s := range o {
		t := w.addSum(kind, s.NS*weight, s.Count*weight)
		for example, ns := range s.byExample {
			t.byExample[example] += ns * weight
		}
	}
}

// Words returns the reason, followed by the example with most of the time.
func (s *WaitSum) Words(kind string) string {
	most := ""
	for example, ns := range s.byExample {
		if ns > s.byExample[most] || ns == s.byExample[most] && example < most {
			most = example
		}
	}
	switch {
	case most == "":
		return kind
	case len(s.byExample) == 1:
		return kind + " " + most
	}
	return kind + ", most of it " + most
}

// explainParts explains the largest part of the step and large idle states: why the device waited, and which findings
// claim the time.
func (a *Analysis) explainParts(indexes []*Index, found []Found) {
	parts := a.Step.Shown(0)
	if len(a.Devices) == 0 || len(parts) == 0 || !idleKnown(indexes) {
		return
	}
	slices.SortStableFunc(parts, func(p, q Part) int { return cmp.Compare(q.NS, p.NS) })
	for i, part := range parts {
		large := part.Means != "" && float64(part.NS) >= explainedShare*float64(a.Step.NS)
		if i == 0 || large {
			a.Explained = append(a.Explained, a.explainPart(indexes, found, part, i == 0))
		}
	}
}

func (a *Analysis) explainPart(indexes []*Index, found []Found, part Part, largest bool) Explanation {
	e := Explanation{Part: part.Name, NS: part.NS, Share: float64(part.NS) / float64(a.Step.NS)}
	sums, n := WaitSums{}, 0.0
	by := map[string]int64{}
	for i, x := range indexes {
		if x.Stepped() != (a.Step.Count > 0) {
			continue
		}
		if n++; x.Stepped() {
			n += float64(x.SteadySteps()) - 1
		}
		for _, d := range x.Devices {
			sums.addScaled(x.listWaits(d, part.Name), 1/float64(len(x.Devices)))
			addClaimed(found, i, d, d.partSpans(part.Name).And(x.Steady), by)
		}
	}
	for kind, s := range sums {
		if ns := int64(math.Round(s.NS / n)); ns > 0 {
			e.Waits = append(e.Waits, Wait{s.Words(kind), ns, s.Count / n})
		}
	}
	slices.SortFunc(e.Waits, func(p, q Wait) int { return cmp.Or(cmp.Compare(q.NS, p.NS), cmp.Compare(p.For, q.For)) })
	var rules []string
	var claimed int64
	for _, rule := range slices.Sorted(maps.Keys(by)) {
		if ns := int64(float64(by[rule]) / n); float64(ns) >= leastNamedShare*float64(part.NS) && ns > 0 {
			rules, claimed = append(rules, rule), claimed+ns
		}
	}
	e.ClaimedNS = min(claimed, part.NS)
	e.Text = a.explanationText(&e, part, largest, rules)
	return e
}

// addClaimed adds to by[rule] how much of the time within, ns, the findings of the rule claim on device d of an input.
func addClaimed(found []Found, input int, d *DeviceTime, within model.Spans, by map[string]int64) {
	for i := range found {
		if f := &found[i]; f.Input == input && f.ClaimNS > 0 && f.Device == d.Device {
			by[f.Rule] += within.TotalAnd(f.Spans)
		}
	}
}

func (d *DeviceTime) partSpans(part string) model.Spans {
	switch part {
	case "starved":
		return d.Starved
	case "queued":
		return d.Queued
	case "unknown":
		return d.Unknown
	}
	return model.Gather(func(f func(model.Span)) {
		for _, s := range d.segments {
			if string(classList[s.class]) == part {
				f(s.Span)
			}
		}
	})
}

// listWaits returns the reasons for which a device waits in the idle state part, over the steps that are not dropped;
// nil if part is a class of kernels.
func (x *Index) listWaits(d *DeviceTime, part string) WaitSums {
	switch part {
	case "starved":
		return x.starvedWaits(d)
	case "queued":
		return x.QueuedWaits(d)
	case "unknown":
		return x.unknownWaits(d)
	}
	return nil
}

func (a *Analysis) explanationText(e *Explanation, part Part, largest bool, rules []string) string {
	var b strings.Builder
	whole := "the step"
	if a.Step.Count == 0 {
		whole = "the recording window"
	}
	what := part.Name
	if part.Means != "" {
		what += " (" + part.Means + ")"
	}
	if largest {
		fmt.Fprintf(&b, "Largest part of %s: %s", whole, what)
	} else {
		fmt.Fprintf(&b, "Also large: %s", what)
	}
	fmt.Fprintf(&b, ", %s %s, %.0f %% of %s", gpuprof.FormatNS(part.NS), a.PerStep(), 100*e.Share, whole)
	if most := a.mostKernel(part); part.Means == "" && most != "" {
		b.WriteString(", most of it in " + ShortName(most))
		if op := a.operatorOf(most); op != "" {
			b.WriteString(" from " + op)
		}
	}
	b.WriteString(".")
	writeWaits(&b, e.Waits, a.Step.Count > 0)
	switch last := len(rules) - 1; {
	case last < 0:
		b.WriteString(" No finding claims any of it.")
	case last == 0:
		fmt.Fprintf(&b, " Of it %s claims up to %s.", rules[0], gpuprof.FormatNS(e.ClaimedNS))
	default:
		fmt.Fprintf(&b, " Of it %s and %s together claim up to %s.", strings.Join(rules[:last], ", "), rules[last], gpuprof.FormatNS(e.ClaimedNS))
	}
	return b.String()
}

func writeWaits(b *strings.Builder, waits []Wait, stepped bool) {
	if len(waits) == 0 {
		return
	}
	b.WriteString(" The device waits ")
	for i, w := range waits[:min(len(waits), namedWaits)] {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(b, "%s %s (%s)", gpuprof.FormatNS(w.NS), w.For, timesText(w.Count, stepped))
	}
	var rest int64
	for _, w := range waits[min(len(waits), namedWaits):] {
		rest += w.NS
	}
	if rest > 0 {
		fmt.Fprintf(b, "; %s in other ways", gpuprof.FormatNS(rest))
	}
	b.WriteString(".")
}

func timesText(count float64, stepped bool) string {
	text := fmt.Sprintf("%.0f times", count)
	switch {
	case count < 0.95:
		text = fmt.Sprintf("%.1g times", count)
	case math.Round(count) == 1:
		text = "once"
	}
	if stepped {
		return text + " per step"
	}
	return text
}

// operatorOf returns the operator that launched most of the time of a kernel.
func (a *Analysis) operatorOf(kernel string) string {
	for i := range a.Kernels {
		if a.Kernels[i].Name == kernel {
			return a.Kernels[i].Operator
		}
	}
	return ""
}
