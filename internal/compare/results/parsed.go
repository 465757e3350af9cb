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

type parsed struct {
	format string
	tool   string // name and version of the program that measured
	series []*series
	index  map[string]*series
	env    map[string]string // fields that must agree between two sides
	facts  map[string]string // fields that may differ and may explain a change
	failed []string          // "name: why" of benchmarks without a figure
	notes  []gpuprof.Warning // warnings for the reader of a verdict
	noted  map[gpuprof.Warning]bool
}

type series struct {
	name, unit string
	higher     bool // more is better
	undirected bool // the format gives no direction
	exact      bool // compared without statistics
	counts     bool // a count: exact if equal in every run
	guessed    bool // exact because the count was the same in every run
	runs       [][]float64
}

func newParsed(format string) *parsed {
	return &parsed{format: format, index: map[string]*series{}, env: map[string]string{}, facts: map[string]string{}, noted: map[gpuprof.Warning]bool{}}
}

func (p *parsed) seriesFor(name, unit string) *series {
	if s := p.index[name]; s != nil {
		return s
	}
	s := &series{name: name, unit: unit}
	p.index[name] = s
	p.series = append(p.series, s)
	return s
}

func (s *series) addRun(samples ...float64) { s.runs = append(s.runs, samples) }

// setEnv notes a field that must agree between two sides.
func (p *parsed) setEnv(key, value string) { join(p.env, key, value) }

// setFact notes a field that may differ.
func (p *parsed) setFact(key, value string) { join(p.facts, key, value) }

// join sets a field. Different values within one side are joined, so that both are visible.
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

func joinAll(m, others map[string]string) {
	for k, v := range others {
		join(m, k, v)
	}
}

func (p *parsed) addNote(code, text, fix string) {
	if w := (gpuprof.Warning{Code: code, Text: text, Fix: fix}); !p.noted[w] {
		p.noted[w] = true
		p.notes = append(p.notes, w)
	}
}

func (p *parsed) addFailure(name, why string) {
	why = cmp.Or(why, "it gave no reason")
	p.failed = append(p.failed, name+": "+why)
}

// addSkip notes a benchmark that was skipped on purpose.
func (p *parsed) addSkip(name, why string) {
	p.addNote("skipped", strings.TrimSuffix(name+" was skipped: "+why, ": "), "a verdict on it needs a figure on both sides")
}

func (p *parsed) merge(o *parsed) {
	for _, s := range o.series {
		into := p.seriesFor(s.name, s.unit)
		into.higher, into.undirected, into.exact, into.counts = s.higher, s.undirected, s.exact, s.counts
		into.runs = append(into.runs, s.runs...)
	}
	joinAll(p.env, o.env)
	joinAll(p.facts, o.facts)
	for _, n := range o.notes {
		p.addNote(n.Code, n.Text, n.Fix)
	}
	p.failed = append(p.failed, o.failed...)
	p.tool = cmp.Or(p.tool, o.tool)
}

// settleCounts decides which counts are compared exactly. It needs all runs, so it is called after the last was added.
func (p *parsed) settleCounts() {
	for _, s := range p.series {
		s.guessed = !s.exact && s.counts && s.isSteady()
		s.exact = s.exact || s.guessed
	}
}

// isSteady reports whether every sample is the same whole number. A rounded average, such as allocs/op, may vary.
func (s *series) isSteady() bool {
	all := slices.Concat(s.runs...)
	return len(all) > 0 && !slices.ContainsFunc(all, func(v float64) bool { return v != all[0] || v != math.Trunc(v) || math.Abs(v) > 1<<53 })
}

// higherUnit guesses from the name of a quantity without a direction whether more is better, as for a rate.
func higherUnit(name string) bool {
	name = strings.ToLower(name)
	for _, suffix := range []string{"/s", "/sec", "_per_second", "_per_sec", "_per_s", "persec", "per-second"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	for _, bad := range []string{"miss", "error", "fail", "drop", "stall", "conflict"} {
		if strings.Contains(name, bad) {
			return false // a rate of failures: less is better
		}
	}
	for _, word := range []string{"throughput", "bandwidth", "flops", "rate", "speedup", "efficiency", "occupancy", "utilization"} {
		if strings.HasSuffix(name, word) {
			return true
		}
	}
	return false
}

const fewSkips = 3

// listWarnings returns the notes. More than fewSkips notes on skipped benchmarks become one.
func (p *parsed) listWarnings() []gpuprof.Warning {
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

func (p *parsed) buildResult(source string) *compare.Result {
	r := &compare.Result{
		Source: source, Tool: p.format, Status: gpuprof.Complete, Env: p.env, Facts: p.facts, Failed: p.failed, Warnings: p.listWarnings(),
		Knobs: map[string]compare.Knob{}, Code: map[string]string{},
	}
	// Two formats measure different times, even under the same name.
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
