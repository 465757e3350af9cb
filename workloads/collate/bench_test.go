package collate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/workloads/loop"
)

// taken in turn, so that a busy moment of the machine meets every candidate.
func inTurn(rounds int, work ...func()) [][]float64 {
	out := make([][]float64, len(work))
	for range rounds {
		for i, f := range work {
			began := time.Now()
			f()
			out[i] = append(out[i], time.Since(began).Seconds())
		}
	}
	return out
}

// medianRatio is the median over rounds of a's time over b's.
func medianRatio(a, b []float64) float64 {
	r := make([]float64, len(a))
	for i := range a {
		r[i] = a[i] / b[i]
	}
	slices.Sort(r)
	return r[len(r)/2]
}

// collator returns what assembles one batch of preset small, samples drawn.
func collator(tb testing.TB, impl string) func() {
	s := openSession(tb, "small", "workers=0", "impl="+impl)
	sl := s.own[0]
	sl.index = 3
	if err := s.maker.drawSamples(sl); err != nil {
		tb.Fatal(err)
	}
	f := func() {
		if err := s.maker.collate(sl); err != nil {
			tb.Fatal(err)
		}
	}
	f()
	return f
}

// The assembly of a batch alone, implementations in turn.
func BenchmarkCollate(b *testing.B) {
	impls := []string{implNaive, implBulk, implCached}
	work := make([]func(), len(impls))
	for i, impl := range impls {
		work[i] = collator(b, impl)
	}
	times := inTurn(b.N, work...)
	for i, impl := range impls {
		slices.Sort(times[i])
		b.ReportMetric(times[i][b.N/2]*1e9, impl+"-ns")
	}
	b.ReportMetric(medianRatio(times[0], times[1]), "naive/bulk")
	b.ReportMetric(0, "ns/op")
}

// Steps of the whole pipeline with more and more workers, in turn: 30 steps a
// round each.
func BenchmarkWorkers(b *testing.B) {
	for _, consume := range []int{16, 64} {
		b.Run(fmt.Sprintf("consume=%d", consume), func(b *testing.B) {
			sets := []string{"workers=0", "workers=1", "workers=2", "workers=1,worker_kind=process", "workers=2,worker_kind=process"}
			work := make([]func(), len(sets))
			for k, set := range sets {
				s := openSession(b, "small", append(strings.Split(set, ","), fmt.Sprintf("consume=%d", consume))...)
				i := 0
				work[k] = func() {
					for range 30 {
						if err := s.Step(i, loop.Silent{}); err != nil {
							b.Fatal(err)
						}
						i++
					}
				}
				work[k]()
			}
			times := inTurn(b.N, work...)
			for k, set := range sets {
				name := strings.NewReplacer("workers=", "", ",worker_kind=process", "p").Replace(set)
				b.ReportMetric(medianRatio(times[k], times[0]), name+"/0")
			}
			slices.Sort(times[0])
			b.ReportMetric(times[0][b.N/2]/30*1e3, "0-ms/step")
			b.ReportMetric(0, "ns/op")
		})
	}
}
