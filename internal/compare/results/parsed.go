package results

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// parsed is what a reader found, before it becomes a compare.Result.
type parsed struct {
	format string
	tool   string // name and version of the program that measured
	series []*series
	index  map[string]*series
	env    map[string]string // what must agree between two sides
	facts  map[string]string // what may differ, and may explain a change
	failed []string          // "name: why", of benchmarks that gave no figure
	notes  []gpuprof.Warning // what the reader of a verdict should know
	noted  map[gpuprof.Warning]bool
}

// series is one quantity of one benchmark.
type series struct {
	name, unit string
	higher     bool // more is better
	undirected bool // nothing tells which direction is better
	exact      bool // compared without statistics
	counts     bool // a count: exact as long as it is the same in every run
	guessed    bool // that it is exact is concluded from that
	runs       [][]float64
}

func newParsed(format string) *parsed {
	return &parsed{format: format, index: map[string]*series{}, env: map[string]string{}, facts: map[string]string{}, noted: map[gpuprof.Warning]bool{}}
}

// at is the series of a name, made when it is new.
func (p *parsed) at(name, unit string) *series {
	if s := p.index[name]; s != nil {
		return s
	}
	s := &series{name: name, unit: unit}
	p.index[name] = s
	p.series = append(p.series, s)
	return s
}

// run appends the samples of one process.
func (s *series) run(samples ...float64) { s.runs = append(s.runs, samples) }

// hard notes a field that must agree between two sides.
func (p *parsed) hard(key, value string) { join(p.env, key, value) }

// soft notes a field that may differ.
func (p *parsed) soft(key, value string) { join(p.facts, key, value) }

// join sets a field. Values that differ within one side are kept side by side,
// so that they show.
func join(m map[string]string, key, value string) {
	value = strings.Join(strings.Fields(value), " ")
	old, ok := m[key]
	switch {
	case value == "" || ok && slices.Contains(strings.Split(old, "; "), value):
	case ok:
		m[key] = old + "; " + value
	default:
		m[key] = value
	}
}

// joinAll sets the fields of another map.
func joinAll(m, others map[string]string) {
	for k, v := range others {
		join(m, k, v)
	}
}

func (p *parsed) note(code, text, fix string) {
	if w := (gpuprof.Warning{Code: code, Text: text, Fix: fix}); !p.noted[w] {
		p.noted[w] = true
		p.notes = append(p.notes, w)
	}
}

func (p *parsed) fail(name, why string) {
	why = cmp.Or(why, "it gave no reason")
	p.failed = append(p.failed, name+": "+why)
}

// skip notes a benchmark that left itself out on purpose.
func (p *parsed) skip(name, why string) {
	p.note("skipped", strings.TrimSuffix(name+" was skipped: "+why, ": "), "a verdict on it needs a figure on both sides")
}

// merge adds the runs of another document of the same format.
func (p *parsed) merge(o *parsed) {
	for _, s := range o.series {
		into := p.at(s.name, s.unit)
		into.higher, into.undirected, into.exact, into.counts = s.higher, s.undirected, s.exact, s.counts
		into.runs = append(into.runs, s.runs...)
	}
	joinAll(p.env, o.env)
	joinAll(p.facts, o.facts)
	for _, n := range o.notes {
		p.note(n.Code, n.Text, n.Fix)
	}
	p.failed = append(p.failed, o.failed...)
	p.tool = cmp.Or(p.tool, o.tool)
}

// settle decides, once every run is read, which counts compare exactly.
func (p *parsed) settle() {
	for _, s := range p.series {
		s.guessed = !s.exact && s.counts && s.steady()
		s.exact = s.exact || s.guessed
	}
}

// steady is one whole value wherever it was read. What is an average that
// happens to be rounded, as allocs/op is, need not be.
func (s *series) steady() bool {
	all := slices.Concat(s.runs...)
	return len(all) > 0 && !slices.ContainsFunc(all, func(v float64) bool { return v != all[0] || v != math.Trunc(v) || math.Abs(v) > 1<<53 })
}

// higherUnit says of a quantity whose direction nobody declared whether its
// name means a rate, or another figure of which more is better.
func higherUnit(name string) bool {
	name = strings.ToLower(name)
	for _, suffix := range []string{"/s", "/sec", "_per_second", "_per_sec", "_per_s", "persec", "per-second"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	for _, bad := range []string{"miss", "error", "fail", "drop", "stall", "conflict"} {
		if strings.Contains(name, bad) {
			return false // a rate of what nobody wants
		}
	}
	for _, word := range []string{"throughput", "bandwidth", "flops", "rate", "speedup", "efficiency", "occupancy", "utilization"} {
		if strings.HasSuffix(name, word) {
			return true
		}
	}
	return false
}

// fewSkips is how many skipped benchmarks are named one by one.
const fewSkips = 3

// warnings are the notes; many skipped benchmarks, as a file of many types and
// sizes has, become one.
func (p *parsed) warnings() []gpuprof.Warning {
	var out, skips []gpuprof.Warning
	for _, n := range p.notes {
		if n.Code == "skipped" {
			skips = append(skips, n)
			continue
		}
		out = append(out, n)
	}
	if n := len(skips); n > fewSkips {
		skips = []gpuprof.Warning{{Code: skips[0].Code, Text: fmt.Sprintf("%d benchmarks were skipped, such as %s", n, skips[0].Text), Fix: skips[0].Fix}}
	}
	return append(out, skips...)
}

// result is what package compare judges.
func (p *parsed) result(source string) *compare.Result {
	r := &compare.Result{
		Source: source, Tool: p.format, Status: gpuprof.Complete, Env: p.env, Facts: p.facts, Failed: p.failed, Warnings: p.warnings(),
		Knobs: map[string]compare.Knob{}, Code: map[string]string{},
	}
	// Two formats time different things, even under one name.
	r.Env["format"] = p.format
	if p.tool != "" {
		r.Facts["tool"] = p.tool
	}
	for _, s := range p.series {
		r.Metrics = append(r.Metrics, compare.MetricData{
			Metric: compare.Metric{Name: s.name, Unit: s.unit, HigherIsBetter: s.higher, Exact: s.exact, Undirected: s.undirected, Guessed: s.guessed},
			Runs:   s.runs,
		})
	}
	return r
}
