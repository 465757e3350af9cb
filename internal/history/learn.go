package history

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/baseline"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// Learn is what the sessions of a result's class show of the spread between sessions:
// for each metric their robust standard deviation about its levels, the changes taken
// out. It is widened as an estimate from n of them must be, by the 95 % point of
// Student's t with n-1 degrees of freedom over that of the normal distribution. Metrics
// with fewer than ten sessions are not in it. Beside it is what commits differ by
// (Scatter), where commits were measured again. The sessions are those of the benchmark
// that is called as the result would be; for a metric of which that has too few, those of
// every benchmark of the class.
func (s *Store) Learn(ctx context.Context, r *compare.Result, order Order) (compare.Learned, error) {
	sample, err := NewSession(r, nil, Origin{})
	if err != nil {
		return compare.Learned{}, nil // it gets no verdict either, and the comparison says why
	}
	report, err := s.Report(ctx, Options{Filter: Filter{Class: sample.Class}, Order: order})
	if err != nil {
		return compare.Learned{}, err
	}
	own := slices.DeleteFunc(slices.Clone(report.Trends), func(t Trend) bool { return t.Benchmark != baseline.Slug(sample.Benchmark.Name) })
	out, sessions := learned(own)
	others, more := learned(report.Trends)
	fill := func(out, from map[string]float64) {
		for name, v := range from {
			if _, ok := out[name]; !ok {
				out[name], sessions = v, max(sessions, more)
			}
		}
	}
	fill(out.Spread, others.Spread)
	fill(out.Scatter, others.Scatter)
	out.From = fmt.Sprintf("%d sessions of %s", sessions, s)
	return out, nil
}

// learned is what trends show. The largest figure counts where several benchmarks have a
// metric of one name: which of them the result is, its name does not tell.
func learned(trends []Trend) (out compare.Learned, sessions int) {
	out = compare.Learned{Spread: map[string]float64{}, Scatter: map[string]float64{}}
	const z = 1.959964
	for _, t := range trends {
		for i := range t.Metrics {
			m := &t.Metrics[i]
			if v := float64(m.Spread); v > 0 && !math.IsInf(v, 0) && m.Judged >= compare.MinSessions {
				out.Spread[m.Name] = max(out.Spread[m.Name], v*stats.TQuantile(float64(m.Judged-1), 0.975)/z)
				sessions = max(sessions, len(t.Sessions))
			}
			if v, ok := Scatter(m); ok {
				out.Scatter[m.Name] = max(out.Scatter[m.Name], v)
				sessions = max(sessions, len(t.Sessions))
			}
		}
	}
	return out, sessions
}
