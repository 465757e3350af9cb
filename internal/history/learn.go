package history

import (
	"context"
	"fmt"
	"math"

	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// Learn is what the sessions of a result's class show of the spread between sessions:
// for each metric their robust standard deviation about its levels, the changes taken
// out. It is widened as an estimate from n of them must be, by the 95 % point of
// Student's t with n-1 degrees of freedom over that of the normal distribution. Metrics
// with fewer than ten sessions are not in it. Beside it is what commits differ by
// (Scatter), where commits were measured again.
func (s *Store) Learn(ctx context.Context, r *compare.Result, order Order) (compare.Learned, error) {
	sample, err := NewSession(r, nil, Origin{})
	if err != nil {
		return compare.Learned{}, nil // it gets no verdict either, and the comparison says why
	}
	report, err := s.Report(ctx, Options{Filter: Filter{Class: sample.Class}, Order: order})
	if err != nil || len(report.Trends) == 0 {
		return compare.Learned{}, err
	}
	t := &report.Trends[0]
	for i := range report.Trends {
		if len(report.Trends[i].Sessions) > len(t.Sessions) {
			t = &report.Trends[i]
		}
	}
	out := compare.Learned{From: fmt.Sprintf("%d sessions of %s", len(t.Sessions), s), Spread: map[string]float64{}, Scatter: map[string]float64{}}
	const z = 1.959964
	for i := range t.Metrics {
		m := &t.Metrics[i]
		if v := float64(m.Spread); v > 0 && !math.IsInf(v, 0) && m.Judged >= compare.MinSessions {
			out.Spread[m.Name] = v * stats.TQuantile(float64(m.Judged-1), 0.975) / z
		}
		if v, ok := Scatter(m); ok {
			out.Scatter[m.Name] = v
		}
	}
	return out, nil
}
