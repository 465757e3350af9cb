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

// parsed is the result of one document while its reader fills it. Before finish, Guessed marks a metric as a count;
// finish makes the count exact if it is equal in every run.
type parsed struct {
	compare.Result
	index map[string]int // of a metric in Metrics
	err   error          // of the first figure whose unit differs from an earlier one of the same name
	noted map[gpuprof.Warning]bool
}

// newParsed returns a result without figures. Its format must agree between two sides: two formats measure different
// times, even under the same name.
func newParsed(format string) *parsed {
	return &parsed{
		Result: compare.Result{
			Tool: format, Status: gpuprof.Complete, Env: map[string]string{"format": format}, Facts: map[string]string{}, Code: map[string]string{},
			Knobs: map[string]compare.Knob{},
		},
		index: map[string]int{}, noted: map[gpuprof.Warning]bool{},
	}
}

// metric returns the metric of a name, with the unit and direction of its first call. The pointer is valid until
// another metric is added.
func (p *parsed) metric(name, unit string, is direction) *compare.MetricData {
	i, ok := p.index[name]
	if !ok {
		i, p.index[name] = len(p.Metrics), len(p.Metrics)
		p.Metrics = append(p.Metrics, compare.MetricData{
			Metric: compare.Metric{Name: name, Unit: unit, HigherIsBetter: is == higherBetter, Undirected: is == undirected},
		})
	}
	if had := p.Metrics[i].Unit; had != unit && p.err == nil {
		p.err = fmt.Errorf("%s is in %q and in %q", name, had, unit)
	}
	return &p.Metrics[i]
}

// addRun adds a run with its samples to a metric.
func (p *parsed) addRun(name, unit string, is direction, samples ...float64) *compare.MetricData {
	m := p.metric(name, unit, is)
	m.Runs = append(m.Runs, samples)
	return m
}

// addSample adds a sample to a metric of one run.
func (p *parsed) addSample(name, unit string, is direction, sample float64) *compare.MetricData {
	m := p.metric(name, unit, is)
	if len(m.Runs) == 0 {
		m.Runs = [][]float64{nil}
	}
	m.Runs[0] = append(m.Runs[0], sample)
	return m
}

// setEnv notes a field that must agree between two sides.
func (p *parsed) setEnv(key, value string) { join(p.Env, key, value) }

// setFact notes a field that may differ.
func (p *parsed) setFact(key, value string) { join(p.Facts, key, value) }

// join adds a field that has a value.
func join(m map[string]string, key, value string) {
	if words := strings.Fields(value); len(words) > 0 {
		compare.JoinFields(m, map[string]string{key: strings.Join(words, " ")})
	}
}

func (p *parsed) addNote(code, text, fix string) {
	if w := (gpuprof.Warning{Code: code, Text: text, Fix: fix}); !p.noted[w] {
		p.noted[w] = true
		p.Warnings = append(p.Warnings, w)
	}
}

func (p *parsed) addFailure(name, why string) {
	p.Failed = append(p.Failed, name+": "+cmp.Or(why, "it gave no reason"))
}

// addSkip notes a benchmark that was skipped on purpose.
func (p *parsed) addSkip(name, why string) {
	p.addNote("skipped", strings.TrimSuffix(name+" was skipped: "+why, ": "), "a verdict on it needs a figure on both sides")
}

// merge adds the runs of another document.
func (p *parsed) merge(o *parsed) {
	for _, m := range o.Metrics {
		into := p.metric(m.Name, m.Unit, undirected)
		m.Runs = append(into.Runs, m.Runs...)
		*into = m
	}
	p.err = cmp.Or(p.err, o.err)
	compare.JoinFields(p.Env, o.Env)
	compare.JoinFields(p.Facts, o.Facts)
	for _, n := range o.Warnings {
		p.addNote(n.Code, n.Text, n.Fix)
	}
	p.Failed = append(p.Failed, o.Failed...)
}

// finish returns the result of a whole file: its counts that are equal in every run are exact, and many notes on
// skipped benchmarks become one. A file without figures is an error; name is its name.
func (p *parsed) finish(name string) ([]*compare.Result, string, error) {
	for i := range p.Metrics {
		m := &p.Metrics[i]
		m.Guessed = !m.Exact && m.Guessed && isSteady(m.Runs)
		m.Exact = m.Exact || m.Guessed
	}
	p.Warnings = joinSkips(p.Warnings)
	p.Source = name
	if p.err != nil {
		return nil, "", gpuprof.Errorf(gpuprof.ErrInput, "reading results %s (%s): %w", name, p.Tool, p.err).WithFix("give each figure a name of its own")
	}
	why, fix := "it holds no benchmark", "run it again without a filter"
	switch {
	case len(p.Metrics) > 0:
		return []*compare.Result{&p.Result}, p.Tool, nil
	case len(p.Failed) > 0:
		why, fix = "every benchmark failed, the first "+p.Failed[0], "correct it and run again"
	case len(p.Warnings) > 0:
		why += " (" + p.Warnings[0].Text + ")"
	}
	return nil, "", gpuprof.Errorf(gpuprof.ErrInput, "reading results %s (%s): %s", name, p.Tool, why).WithFix("%s", fix)
}

// isSteady reports whether every sample is the same whole number. A rounded average, such as allocs/op, may vary.
func isSteady(runs [][]float64) bool {
	all := slices.Concat(runs...)
	return len(all) > 0 && !slices.ContainsFunc(all, func(v float64) bool { return v != all[0] || v != math.Trunc(v) || math.Abs(v) > 1<<53 })
}

const fewSkips = 3

// joinSkips moves the notes on skipped benchmarks to the end; more than fewSkips become one.
func joinSkips(notes []gpuprof.Warning) []gpuprof.Warning {
	var out, skips []gpuprof.Warning
	for _, n := range notes {
		if n.Code == "skipped" {
			skips = append(skips, n)
		} else {
			out = append(out, n)
		}
	}
	if n := len(skips); n > fewSkips {
		skips[0].Text = fmt.Sprintf("%d benchmarks were skipped, such as %s", n, skips[0].Text)
		skips = skips[:1]
	}
	return append(out, skips...)
}
