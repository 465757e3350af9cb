package rules

import (
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

// leastInRow is the least number of collectives in a row for a finding.
const leastInRow = 4

type sizedCollective struct {
	g     int32 // index into Trace.GPU
	kind  analyze.CollectiveKind
	ranks int32   // size of the process group, 0 unknown
	bytes float64 // the larger of input and output, 0 unknown
}

// findSmallCollective reports collectives of one kind in a row, without computation launched in between, as from a loop
// over parameters. One collective could carry their bytes. The finding claims the time of all but the first in a row,
// beyond the time that their bytes need at the best rate in the recording.
func (c *ruleContext) findSmallCollective() []analyze.Found {
	told := c.t.CollectivesByCorr()
	if len(told) == 0 {
		return nil
	}
	launches := c.listComputeLaunches()
	spare := map[int32]float64{}
	rows, calls, bytes := 0, 0, 0.0
	var kind analyze.CollectiveKind
	for _, d := range c.devices {
		for _, stream := range c.splitStreams(d) {
			list := c.listSizedCollectives(stream, told)
			rate := c.findBestRates(list)
			for lo := 0; lo < len(list); {
				hi := lo + 1
				for hi < len(list) && c.canMerge(&list[hi-1], &list[hi], launches) {
					hi++
				}
				if hi-lo >= leastInRow {
					gain := 0.0
					for _, s := range list[lo+1 : hi] {
						op := &c.t.GPU[s.g]
						spare[s.g] = 1 - s.bytes/rate[s.kind]/float64(op.Dur())
						gain += spare[s.g]
					}
					if gain > 0 {
						rows, calls, kind = rows+1, calls+hi-lo, list[lo].kind
						for _, s := range list[lo:hi] {
							bytes += s.bytes
						}
					}
				}
				lo = hi
			}
		}
	}
	if calls == 0 {
		return nil
	}
	cl := c.claimByDevice(c.takeShares(func(g int32) float64 { return spare[g] }))
	f := c.newFinding(cl, fmt.Sprintf("%s of %s on average (%s) run one after another in %s", analyze.Plural(calls, "collective", "collectives"),
		gpuprof.FormatBytes(bytes/float64(calls)), kind, analyze.Plural(rows, "row", "rows")))
	f.Evidence["collectives"] = calls
	f.Evidence["rows"] = rows
	f.Evidence["collective_bytes"] = int64(bytes)
	f.Sites = c.listProductSites(func(g int32) bool { return spare[g] != 0 })
	f.PyTorch = "one collective over a flat buffer in place of one per tensor: torch._utils._flatten_dense_tensors, or with torch.distributed._coalescing_manager around the loop; DistributedDataParallel does it for gradients"
	f.Caveats = append(f.Caveats, "no computation is launched between them: none is taken to need the result of the one before")
	return []analyze.Found{f}
}

// listSizedCollectives returns the collectives of a stream with their sizes, bytes; 0 unknown.
func (c *ruleContext) listSizedCollectives(stream []int32, told map[int64]*model.Collective) []sizedCollective {
	var out []sizedCollective
	for _, g := range stream {
		if !c.isComm(g) {
			continue
		}
		s := sizedCollective{g: g, kind: c.x.CollectiveOf(g)}
		if m := told[c.t.GPU[g].Corr]; m != nil {
			s.ranks = m.Size
			s.bytes = float64(max(m.In, m.Out) * opcost.ElementBytes(c.t.Name(m.Element)))
		}
		out = append(out, s)
	}
	return out
}

// findBestRates returns the rate of the fastest collective of each kind, bytes per ns. Waits for other ranks lower the
// rates of the others more.
func (c *ruleContext) findBestRates(list []sizedCollective) map[analyze.CollectiveKind]float64 {
	best := map[analyze.CollectiveKind]float64{}
	for _, s := range list {
		if ns := c.t.GPU[s.g].Dur(); ns > 0 {
			best[s.kind] = max(best[s.kind], s.bytes/float64(ns))
		}
	}
	return best
}

// canMerge reports whether collective b can be merged with a, the previous one on the stream: they have equal kinds and
// ranks, and no computation is launched between them. launches are the times of listComputeLaunches.
func (c *ruleContext) canMerge(a, b *sizedCollective, launches []int64) bool {
	p, q := &c.t.GPU[a.g], &c.t.GPU[b.g]
	if a.kind != b.kind || a.ranks != b.ranks || a.bytes <= 0 || b.bytes <= 0 || p.Launch < 0 || q.Launch < 0 || p.Dur() <= 0 || q.Dur() <= 0 || a.kind == analyze.SendReceiveCalls {
		return false
	}
	from, to := c.t.Host[p.Launch].Start, c.t.Host[q.Launch].Start
	if from > to || c.t.Host[p.Launch].Lane != c.t.Host[q.Launch].Lane {
		return false
	}
	i, _ := slices.BinarySearch(launches, from)
	return i == len(launches) || launches[i] > to
}

// listComputeLaunches returns the sorted launch times of kernels that compute; elementwise kernels and copies do not
// count.
func (c *ruleContext) listComputeLaunches() []int64 {
	var out []int64
	for g := range c.t.GPU {
		op := &c.t.GPU[g]
		class := c.x.Class(int32(g))
		if op.Kind != model.Kernel || op.Launch < 0 || class.Communicates() || class == model.Elementwise || class == model.Copy {
			continue
		}
		out = append(out, c.t.Host[op.Launch].Start)
	}
	slices.Sort(out)
	return out
}
