package roofline

import (
	"cmp"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

type collective struct {
	kind  analyze.CollectiveKind
	ranks int32
	bytes int64
}

// busFactor returns the bytes on each link as a share of the collective's bytes, for n ranks (nccl-tests,
// PERFORMANCE.md). The bus bandwidth is then comparable to the link speed for any number of ranks. Broadcasts and
// transfers have the factor 1.
func busFactor(kind analyze.CollectiveKind, n float64) float64 {
	switch kind {
	case analyze.AllReduceCalls:
		return 2 * (n - 1) / n
	case analyze.AllGatherCalls, analyze.ReduceScatterCalls, analyze.AllToAllCalls:
		return (n - 1) / n
	case analyze.BroadcastCalls, analyze.SendReceiveCalls:
		return 1
	}
	return 0
}

// countCollectives lists the collectives with recorded sizes. Rates use the shortest call, because longer calls wait
// for other ranks.
func (c *counter) countCollectives(d *analyze.DeviceTime, steps float64) []analyze.CollectiveRate {
	t := c.x.T
	told := t.CollectivesByCorr()
	sums := map[collective]*analyze.CollectiveRate{}
	for _, g := range d.Ops {
		op := &t.GPU[g]
		m := told[op.Corr]
		if m == nil || op.Kind != model.Kernel || !c.x.Steady.Contains(op.Start) {
			continue
		}
		kind := c.x.CollectiveOf(g)
		elements := m.In
		if kind == analyze.AllGatherCalls {
			elements = m.Out
		}
		k := collective{kind, m.Size, elements * opcost.ElementBytes(t.Name(m.Element))}
		if k.bytes <= 0 || k.ranks < 2 || op.Dur() <= 0 {
			continue
		}
		s := sums[k]
		if s == nil {
			s = &analyze.CollectiveRate{Kind: string(kind), Ranks: int(k.ranks), Bytes: k.bytes, ShortestNS: op.Dur()}
			sums[k] = s
		}
		s.Calls += 1 / steps
		s.NS += op.Dur()
		s.ShortestNS = min(s.ShortestNS, op.Dur())
	}
	var out []analyze.CollectiveRate
	for k, s := range sums {
		s.NS = int64(float64(s.NS) / steps)
		s.AlgorithmBytesPerS = float64(s.Bytes) / float64(s.ShortestNS) * 1e9
		s.BusBytesPerS = s.AlgorithmBytesPerS * busFactor(k.kind, float64(k.ranks))
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b analyze.CollectiveRate) int {
		return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Ranks, b.Ranks))
	})
	return out
}
