package history

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
)

func text(t testing.TB, r *Report) string {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// trendOf is a trend of one metric, with a sentinel where there is one.
func trendOf(values, sentinel []float64) Trend {
	t := Trend{Project: "demo", Benchmark: "b", Classes: []Span{{Class: "c", Last: len(values) - 1}}}
	number := func(vs []float64) []gpuprof.Number {
		out := make([]gpuprof.Number, len(vs))
		for i, v := range vs {
			out[i] = gpuprof.Number(v)
		}
		return out
	}
	for i := range values {
		t.Sessions = append(t.Sessions, At{Commit: commitAt(i), Class: "c"})
	}
	t.Metrics = []Metric{{Name: "step", Unit: "s", Values: number(values)}}
	t.Sentinel = Metric{Name: "step", Unit: "s", Values: number(sentinel)}
	return t
}

// noisy is made-up session medians: noise with correlated neighbours, one in 33 slow.
func noisy(rng *rand.Rand, n int, noise, rho float64) []float64 {
	out := make([]float64, n)
	e := noise * rng.NormFloat64()
	for i := range out {
		out[i] = e
		e = rho*e + math.Sqrt(1-rho*rho)*noise*rng.NormFloat64()
		if rng.Float64() < 0.03 {
			out[i] += math.Log(1.1 + 0.9*rng.Float64())
		}
		out[i] = math.Exp(out[i])
	}
	return out
}

func stepped(values []float64, at int, by float64) []float64 {
	out := slices.Clone(values)
	for i := at; i < len(out); i++ {
		out[i] *= by
	}
	return out
}

// sentinelRates counts, over simulated series of 80 sessions with a sentinel, the steps of
// the machine of 4 to 6 % named so (the benchmark answers by half to one and a half times as
// much), the steps of the code of 5 % wrongly named so, those of the code 20 sessions after
// one of the machine that are found, and that are named code.
func sentinelRates(series int, noise float64) (machine, wrongly, later, named int) {
	for i := range series {
		rng := rand.New(rand.NewPCG(uint64(i), 11))
		size := 0.04 + 0.02*rng.Float64()
		answer := 1 + size*(0.5+rng.Float64())
		bench, sentinel := noisy(rng, 80, noise, 0.3), noisy(rng, 80, noise, 0.3)

		cause := func(values, sentinel []float64, at int) Cause {
			tr := trendOf(values, sentinel)
			tr.analyse(Options{}.fillDefaults())
			for _, c := range tr.Metrics[0].Changes {
				if max(c.At-at, at-c.At) <= 5 {
					return c.Cause
				}
			}
			return ""
		}
		if cause(stepped(bench, 40, answer), stepped(sentinel, 40, 1+size), 40) != FromCode {
			machine++
		}
		if cause(stepped(bench, 40, 1.05), sentinel, 40) == FromMachine {
			wrongly++
		}
		switch cause(stepped(stepped(bench, 30, 1.05), 50, 1.05), stepped(sentinel, 30, 1.05), 50) {
		case FromCode:
			named++
			later++
		case FromMachine:
			later++
		}
	}
	return machine, wrongly, later, named
}

// alarmsIn looks after each session from one on, and is where the first alarm comes; 0
// where there is none. Changes below 2 % are no alarm.
func alarmsIn(values []float64, from int) int {
	o := Options{Watch: true, Threshold: 0.02}.fillDefaults()
	for n := from; n <= len(values); n++ {
		tr := trendOf(values[:n], nil)
		tr.analyse(o)
		if len(tr.Metrics[0].Alarms) > 0 {
			return n
		}
	}
	return 0
}

// BenchmarkSentinelTable gives the table of the sentinel, 300 series a row.
func BenchmarkSentinelTable(b *testing.B) {
	for range b.N {
		for _, noise := range []float64{0.01, 0.02} {
			machine, wrongly, later, named := sentinelRates(300, noise)
			b.Logf("noise %g: machine steps named machine %d, code steps named machine %d, of 300; later code steps found %d, named code %d", noise, machine, wrongly, later, named)
		}
	}
}

// BenchmarkAlarmTable gives the table of the alarms: 60 series, 81 looks each.
func BenchmarkAlarmTable(b *testing.B) {
	for range b.N {
		for _, c := range [][2]float64{{0.01, 0}, {0.02, 0.3}, {0.03, 0.3}, {0.02, 0.6}} {
			falsely := 0
			waits := map[float64][]int{}
			for i := range 60 {
				values := noisy(rand.New(rand.NewPCG(uint64(i), 13)), 100, c[0], c[1])
				if alarmsIn(values, 20) > 0 {
					falsely++
				}
				for _, by := range []float64{1.05, 1.10} {
					n := alarmsIn(stepped(values, 60, by), 61)
					if n == 0 {
						n = 1000 // not found
					}
					waits[by] = append(waits[by], n-60)
				}
			}
			for _, w := range waits {
				slices.Sort(w)
			}
			b.Logf("noise %g rho %g: false %d of 60; 10 %% after %d (median), %d (90th) sessions; 5 %% after %d, %d", c[0], c[1], falsely, waits[1.10][29], waits[1.10][53], waits[1.05][29], waits[1.05][53])
		}
	}
}

func TestCountersChangeExactly(t *testing.T) {
	values := []float64{40, 40, 40, 41, 41, 41, 41, 41, 41, 41}
	tr := trendOf(values, nil)
	tr.Metrics[0].Exact, tr.Metrics[0].Unit = true, "count"
	tr.analyse(Options{Watch: true, Threshold: 0.02}.fillDefaults())
	m := tr.Metrics[0]
	if len(m.Changes) != 1 || m.Changes[0].At != 3 || m.Changes[0].Cause != FromCounter || !m.Changes[0].Worse || len(m.Alarms) != 1 {
		t.Fatalf("%+v %+v", m.Changes, m.Alarms)
	}
	shown := trendOf(values, nil) // of a figure without a direction a change is noted and is no alarm
	shown.Metrics[0].Exact, shown.Metrics[0].undirected = true, true
	shown.analyse(Options{Watch: true, Threshold: 0.02}.fillDefaults())
	if m := shown.Metrics[0]; len(m.Changes) != 1 || m.Changes[0].Worse || len(m.Alarms) != 0 {
		t.Errorf("without a direction: %+v %+v", m.Changes, m.Alarms)
	}
}

// TestClassIsABoundary: another driver is no change, however different its times.
func TestClassIsABoundary(t *testing.T) {
	s, _ := filled(t, 0)
	for i := range 30 {
		r := made(i, 0.010)
		if i >= 15 {
			r = made(i, 0.013)
			r.Env["driver"] = "560.2"
		}
		one, err := NewSession(r, nil, Origin{Project: "demo", Commit: commitAt(i)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Add(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	rep := reported(t, s, Options{})
	if len(rep.Trends) != 1 || len(rep.Trends[0].Classes) != 2 {
		t.Fatalf("%d trends, classes %+v", len(rep.Trends), rep.Trends[0].Classes)
	}
	for _, m := range rep.Trends[0].Metrics {
		if len(m.Changes) > 0 {
			t.Errorf("%s changed: %+v", m.Name, m.Changes)
		}
	}
	// Two machines by turns are two trends.
	for i := 30; i < 40; i++ {
		r := made(i, 0.010)
		one, err := NewSession(r, nil, Origin{Project: "demo", Commit: commitAt(i)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Add(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	if rep = reported(t, s, Options{}); len(rep.Trends) != 2 {
		t.Errorf("%d trends of two machines by turns", len(rep.Trends))
	}
}

// TestOrderOfObjects: in whatever order sessions come in, and whichever writer adds
// them, the report has the same bytes.
func TestOrderOfObjects(t *testing.T) {
	var want string
	rapid.Check(t, func(rt *rapid.T) {
		order := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}).Draw(rt, "order")
		b := newMemory()
		writers := []*Store{NewStore(b, ""), NewStore(b, "")}
		for _, i := range order {
			seconds := 0.01
			if i > 6 {
				seconds = 0.012
			}
			if _, err := writers[i%2].Add(t.Context(), madeSession(t, i, seconds)); err != nil {
				rt.Fatal(err)
			}
		}
		r := reported(t, NewStore(b, ""), Options{})
		got := text(t, r)
		if want == "" {
			want = got
		}
		if got != want {
			rt.Fatalf("%s\nand\n%s", got, want)
		}
	})
}

// TestBranchOrder: commits on the branch come in its order however wrong clocks are, and
// others behind those that are not younger.
func TestBranchOrder(t *testing.T) {
	o := NewOrder([]string{strings.Repeat("c", 40), strings.Repeat("b", 40), strings.Repeat("a", 40)})
	at := func(commit string, hours int) sortEntry {
		return sortEntry{commit: commit, at: commitAt(hours).Time, started: commitAt(hours).Time, hash: commit}
	}
	all := []sortEntry{at("cccccccccccc", 3), at("aaaaaaaaaaaa", 9), at("bbbbbbbbbbbb", 2), at("rewritten", 1), at("gone", 4)}
	var got []string
	for _, i := range o.sortSessions(all) {
		got = append(got, all[i].commit)
	}
	if want := []string{"rewritten", "aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc", "gone"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestRefusedResults(t *testing.T) {
	for name, edit := range map[string]func(*compare.Result){
		"partial":   func(r *compare.Result) { r.Status = gpuprof.Partial },
		"simulated": func(r *compare.Result) { r.Env["simulated"] = "true" },
		"failed":    func(r *compare.Result) { r.Failed = []string{"b: crashed"} },
		"empty":     func(r *compare.Result) { r.Metrics = nil },
	} {
		r := made(0, 0.01)
		edit(r)
		if _, err := NewSession(r, nil, Origin{}); err == nil {
			t.Errorf("a result that is %s is taken", name)
		}
	}
}

// TestScatter: what commits differ by for no reason is told from what repeating one shows.
func TestScatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	var values []float64
	for range 60 {
		commit := 0.01 * rng.NormFloat64()
		for range 2 {
			values = append(values, math.Exp(commit+0.003*rng.NormFloat64()))
		}
	}
	tr := trendOf(values, nil)
	for i := range tr.Sessions {
		tr.Sessions[i].Commit = commitAt(i / 2)
	}
	tr.analyse(Options{}.fillDefaults())
	if got, ok := Scatter(&tr.Metrics[0]); !ok || got < 0.006 || got > 0.014 {
		t.Errorf("scatter %g, %v; planted 0.01", got, ok)
	}
	tr = trendOf(values, nil)
	tr.analyse(Options{}.fillDefaults())
	if _, ok := Scatter(&tr.Metrics[0]); ok {
		t.Error("a scatter without a repeated commit")
	}
}

// FuzzSession: whatever bytes an object holds, it is a session or an error.
func FuzzSession(f *testing.F) {
	s, err := NewSession(made(0, 0.01), nil, Origin{Project: "demo", Commit: commitAt(0)})
	if err != nil {
		f.Fatal(err)
	}
	_, text, err := s.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"kind":"session","schema_version":"1.0.0","tool":{"name":"gpuprof"},"session":{"metrics":[{"runs":[[],null]}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := decodeSession(text, "object"); err == nil {
			newPoint(s)
		}
	})
}

// What callers saw at another rate of requests than in the latest session is no value of a trend.
func TestRatesInATrend(t *testing.T) {
	var points []point
	for i, rate := range []float64{100, 100, 200, 100} {
		points = append(points, point{Values: []value{{Name: "latency/p99", Unit: "s", V: float64(i), Rate: rate}, {Name: "step", Unit: "s", V: 1}}})
	}
	var trend Trend
	trend.addMetrics(points, Options{})
	if got := trend.Metrics[0].Values; got[0] != 0 || got[1] != 1 || !math.IsNaN(float64(got[2])) || got[3] != 3 {
		t.Errorf("latencies of the sessions at the latest rate: %v", got)
	}
	if got := trend.Metrics[1].Values; len(trend.Metrics) != 2 || got[2] != 1 {
		t.Errorf("steps: %v", got)
	}
}
