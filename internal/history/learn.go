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

// Learn estimates the spread between sessions that are comparable with a result (its class). For each metric it is the
// robust standard deviation about the metric's levels, so that changes do not count. A factor allows for the
// uncertainty of n sessions: the 95 % point of Student's t with n-1 degrees of freedom over the one of the normal
// distribution. Metrics with fewer than ten sessions are left out. If commits were repeated, Learned also has the
// variation between commits (Scatter). Learn prefers sessions of the same benchmark. For a metric with too few of them,
// it takes all benchmarks of the class.
func (s *Store) Learn(ctx context.Context, r *compare.Result, order Order) (compare.Learned, error) {
	sample, err := NewSession(r, nil, Origin{})
	if err != nil {
		return compare.Learned{}, nil // the comparison reports the error
	}
	report, err := s.Report(ctx, Options{Filter: Filter{Class: sample.Class}, Order: order})
	if err != nil {
		return compare.Learned{}, err
	}
	own := slices.DeleteFunc(slices.Clone(report.Trends), func(t Trend) bool { return t.Benchmark != baseline.Slug(sample.Benchmark.Name) })
	out, sessions := combineSpreads(own)
	others, more := combineSpreads(report.Trends)
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

// combineSpreads combines the spreads of trends: the largest for a metric that several benchmarks have.
func combineSpreads(trends []Trend) (out compare.Learned, sessions int) {
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
