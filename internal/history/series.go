package history

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/baseline"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Options configures a report; the zero value selects the defaults.
type Options struct {
	Filter
	Metrics   []string // names or patterns with *; empty for all
	Last      int      // number of latest sessions of a trend; 0 is 250
	Margin    float64  // least change, a share; 0 is 2 %, or the threshold if smaller
	Threshold float64  // least worsening of an alarm, a share; 0 is 5 %
	Order     Order    // of the checked-out branch; nil without a checkout
	Watch     bool     // apply the alarm rule
	Since     string   // a commit: changes up to it do not raise alarms
	Tool      gpuprof.Tool
}

// Defaults of Options.
const (
	DefaultLast      = 250
	defaultMargin    = 0.02
	defaultThreshold = 0.05
)

func (o Options) fillDefaults() Options {
	o.Last, o.Threshold = cmp.Or(o.Last, DefaultLast), cmp.Or(o.Threshold, defaultThreshold)
	o.Margin = cmp.Or(o.Margin, min(defaultMargin, o.Threshold))
	return o
}

// Report reads the latest sessions of every benchmark and finds changes. The error is ErrInput if the store cannot
// be read or has no usable object, and ErrUsage for an unknown benchmark or project.
func (s *Store) Report(ctx context.Context, o Options) (*Report, error) {
	o = o.fillDefaults()
	out := &Report{Head: document.NewHead(document.History, o.Tool), Store: s.String(), Threshold: o.Threshold, Margin: o.Margin, Watched: o.Watch, Trends: []Trend{}, Warnings: []gpuprof.Warning{}}
	caches := s.newCaches()
	in, err := s.list(ctx, o.Filter)
	if err != nil {
		return nil, err
	}
	if err := in.checkFilter(o.Filter); err != nil {
		return nil, err
	}
	rows := in.latestRows(o)
	points, skipped := s.loadPoints(ctx, slices.Concat(rows...), caches)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out.Skipped = append(append([]Skipped{}, in.skipped...), skipped...)
	for _, row := range rows {
		if t := s.buildTrend(ctx, row, points, o, caches); len(t.Sessions) > 0 {
			out.Trends = append(out.Trends, t)
		}
	}
	s.saveCaches(caches)
	if len(out.Trends) == 0 && len(out.Skipped) > 0 {
		first := out.Skipped[0]
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading the store %s: none of its %d objects can be used, the first of them %s because of this: %s", s, len(out.Skipped), first.Name, first.Why).WithFix("add the results again")
	}
	if err := out.checkMetrics(o.Metrics); err != nil {
		return nil, err
	}
	for i := range out.Trends {
		out.Trends[i].analyse(o)
	}
	out.addWarnings()
	return out, nil
}

func (r *Report) addWarnings() {
	if n := len(r.Skipped); n > 0 {
		first := r.Skipped[0]
		r.Warnings = append(r.Warnings, gpuprof.Warning{
			Code: "objects-skipped",
			Text: fmt.Sprintf("%d of the store's objects cannot be used; the first is %s: %s", n, first.Name, first.Why),
			Fix:  "add the results again, or remove the objects; --format json lists all of them",
		})
	}
}

func (x *index) checkFilter(f Filter) error {
	names := slices.Sorted(maps.Keys(x.benchmarks))
	switch {
	case len(x.refs) > 0 || len(names) == 0 || f.Project+f.Benchmark == "":
		return nil
	case f.Benchmark != "" && !x.benchmarks[baseline.Slug(f.Benchmark)]:
		return gpuprof.Errorf(gpuprof.ErrUsage, "looking for the history of %s: the store has no such benchmark%s", f.Benchmark, gpuprof.DidYouMean(f.Benchmark, names)).WithFix("gpuprof history lists them")
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "looking for the history: the store has no session of that project and class").WithFix("gpuprof history lists what it has, and --format json the classes")
}

// latestRows returns the latest sessions of each trend, in the order of the commits and times in the objects' names.
func (x *index) latestRows(o Options) [][]sessionRef {
	groups := map[[2]string][]sessionRef{}
	for _, r := range x.refs {
		key := [2]string{r.project, r.benchmark}
		groups[key] = append(groups[key], r)
	}
	var out [][]sessionRef
	for _, key := range slices.SortedFunc(maps.Keys(groups), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }) {
		all := groups[key]
		places := make([]sortEntry, len(all))
		for i, r := range all {
			places[i] = sortEntry{r.commit, r.at, r.at, r.hash}
		}
		ordered := make([]sessionRef, 0, len(all))
		for _, i := range o.Order.sortSessions(places) {
			ordered = append(ordered, all[i])
		}
		for _, row := range chainClasses(ordered) {
			out = append(out, row[max(0, len(row)-o.Last):])
		}
	}
	return out
}

// chainClasses divides sessions into rows by class (device and options). Classes that follow each other share a row, as
// after a driver update. Classes that alternate, as on two machines, get a row each.
func chainClasses(ordered []sessionRef) [][]sessionRef {
	last := map[string]int{}
	for i, r := range ordered {
		last[r.class] = i
	}
	var rows [][]sessionRef
	rowOf := map[string]int{}
	for i, r := range ordered {
		at, known := rowOf[r.class]
		if !known {
			at = slices.IndexFunc(rows, func(row []sessionRef) bool { return last[row[len(row)-1].class] < i })
			if at < 0 {
				at = len(rows)
				rows = append(rows, nil)
			}
			rowOf[r.class] = at
		}
		rows[at] = append(rows[at], r)
	}
	return rows
}

func (s *Store) buildTrend(ctx context.Context, row []sessionRef, points map[string]point, o Options, caches *caches) Trend {
	row = slices.DeleteFunc(slices.Clone(row), func(r sessionRef) bool { _, ok := points[r.hash]; return !ok })
	places := make([]sortEntry, len(row))
	for i, r := range row {
		p := points[r.hash]
		places[i] = sortEntry{p.Commit.Short(), p.Started, p.Started, r.hash}
		if !p.Commit.Time.IsZero() {
			places[i].at = p.Commit.Time
		}
	}
	t := Trend{Classes: []Span{}, Sessions: []At{}, Metrics: []Metric{}}
	var found []point
	for _, i := range o.Order.sortSessions(places) {
		r, p := row[i], points[row[i].hash]
		at := At{Commit: p.Commit, Started: p.Started, Class: r.class, Object: r.name, LeftOut: p.Commit.leftOutReason()}
		if _, on := o.Order[p.Commit.Short()]; len(o.Order) > 0 && !on {
			at.OffBranch = true
		}
		t.Project, t.Benchmark, t.Tool = r.project, r.benchmark, p.Tool
		if n := len(t.Classes); n == 0 || t.Classes[n-1].Class != r.class {
			t.Classes = append(t.Classes, s.newSpan(ctx, r, len(t.Sessions), caches))
		}
		t.Classes[len(t.Classes)-1].Last = len(t.Sessions)
		t.Sessions = append(t.Sessions, at)
		found = append(found, p)
	}
	t.addMetrics(found, o)
	return t
}

// leftOutReason returns why a session of the commit is shown but not analysed; "" if it is analysed.
func (c Commit) leftOutReason() string {
	switch {
	case c.ID == "":
		return "its commit is unknown"
	case c.Dirty:
		return "the checkout had changes that are in no commit"
	}
	return ""
}

func (s *Store) newSpan(ctx context.Context, r sessionRef, first int, caches *caches) Span {
	out := Span{Class: r.class, First: first, Env: map[string]string{}}
	if c := s.loadClass(ctx, r.series(), caches); c != nil {
		out.Env = c.Env
		out.Device = cmp.Or(c.Env["device"], c.Env["cpu"])
	}
	return out
}

// addMetrics adds the points' metrics to a trend, in the order of the latest session.
func (t *Trend) addMetrics(points []point, o Options) {
	none := func() []gpuprof.Number {
		out := make([]gpuprof.Number, len(points))
		for i := range out {
			out[i] = gpuprof.Number(math.NaN())
		}
		return out
	}
	at, rates := map[string]int{}, []float64{}
	for i := len(points) - 1; i >= 0; i-- {
		for _, v := range points[i].Values {
			if !matchesAny(o.Metrics, v.Name) {
				continue
			}
			k, ok := at[v.Name]
			if !ok {
				k = len(t.Metrics)
				at[v.Name] = k
				t.Metrics, rates = append(t.Metrics, v.newMetric(none())), append(rates, v.Rate)
				t.Metrics[k].Total, t.Metrics[k].stage = v.Name == points[i].Total, v.Stage
			}
			if m := &t.Metrics[k]; m.Unit == v.Unit && m.Exact == v.Exact && rates[k] == v.Rate { // else another quantity or request rate
				m.Values[i] = gpuprof.Number(v.V)
			}
		}
		if p := points[i]; p.Total != "" {
			for _, v := range p.Values {
				if v.Name == p.Total {
					t.totals = append(t.totals, v.V)
				}
			}
		}
		if v := points[i].Sentinel; v != nil {
			if t.Sentinel.Values == nil {
				t.Sentinel = v.newMetric(none())
			}
			if t.Sentinel.Unit == v.Unit && t.Sentinel.Name == v.Name {
				t.Sentinel.Values[i] = gpuprof.Number(v.V)
			}
		}
	}
	if t.Sentinel.Values == nil {
		t.Sentinel = value{}.newMetric([]gpuprof.Number{})
	}
}

func (v value) newMetric(values []gpuprof.Number) Metric {
	unknown := gpuprof.Number(math.NaN())
	return Metric{Name: v.Name, Unit: v.Unit, HigherIsBetter: v.Higher, Exact: v.Exact, undirected: v.Shown, Values: values, Levels: []Level{}, Changes: []Change{}, Alarms: []Alarm{}, Spread: unknown, Scatter: unknown}
}

func matchesAny(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return compare.Matches(p, name) })
}

func (r *Report) checkMetrics(patterns []string) error {
	if len(patterns) == 0 || len(r.Trends) == 0 || slices.ContainsFunc(r.Trends, func(t Trend) bool { return len(t.Metrics) > 0 }) {
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "choosing metrics with --metric %s: no benchmark has one", patterns[0]).WithFix("gpuprof history -v names them")
}
