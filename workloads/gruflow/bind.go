package gruflow

import (
	"context"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// Stages of a step, in order. With a launch graph all device work is one stage, graph, instead of gru, flow and
// metrics: the host cannot time the parts of a graph.
const (
	stH2D = iota
	stWeights
	stGRU
	stFlow
	stMetrics
	stLoss
	stRecompute
	stFlowBack
	stGRUBack
	stGrads
	stClip
	stOptimizer
	stGraph
	stD2H
	stSync
	stBackpressure
	stageCount
)

func allStages() []gpuprof.Stage {
	var all []gpuprof.Stage
	for _, name := range []string{"weights", "gru", "flow", "metrics", "loss", "recompute", "flow_bwd", "gru_bwd", "grads", "clip", "optimizer", "graph"} {
		all = append(all, gpuprof.Stage{Name: name})
	}
	return append(append([]gpuprof.Stage{loop.Transfer()}, append(all, loop.Result())...), loop.Waits()...)
}

func (s *session) bindSlots(ctx context.Context) error {
	for k := range s.slots {
		sl := &s.slots[k]
		if s.train != nil {
			if err := s.bindTraining(sl); err != nil {
				return err
			}
			continue
		}
		if s.rec != nil {
			sl.groups = s.levelDown(sl, 0, 0)
			continue
		}
		sl.groups = sl.net.bindLayers(sl.x)
		inject := s.Bind(&injectKernel, s.shape.T*s.shape.B, injectCost(s.shape.T*s.shape.B), gruInjectArgs{
			x: sl.x, energy: s.flow.energy, n: s.shape.T * s.shape.B, I: s.shape.I, B: s.shape.B,
		})
		sl.groups[0].once = append([]op.Call{inject}, sl.groups[0].once...)
		sl.groups = append(sl.groups, s.flowGroup(sl.net), s.metricsGroup(sl.net))
	}
	if s.Err != nil {
		return s.Err
	}
	for k := range s.slots {
		deriveLives(s.slots[k].groups)
	}
	if err := s.warmPool(s.slots[0].groups); err != nil {
		return err
	}
	s.memory.ResetPeak()
	if s.k.Graph {
		if err := s.captureGraphs(ctx); err != nil {
			return err
		}
	}
	s.describeStages()
	return nil
}

// flowGroup returns the launch that moves the carriers (rows of the batch) down by one level. With impl=plain a matrix
// product computes the projection of their states first.
func (s *session) flowGroup(net *gru) group {
	sh, d := s.shape, s.flow
	g := group{stage: stFlow, minimum: flowCost(sh)}
	if net.impl != implPlain {
		g.once = []op.Call{s.Bind(&flowKernel, sh.B, flowCost(sh), gruFlowArgs{
			proj: d.proj, bias: d.bias, h: net.h, energy: d.energy, level: d.level, place: d.place, source: d.source,
			out: d.record, path: d.record, n: sh.B, B: sh.B, H: sh.H, L: sh.L, D: sh.D, keeps: false,
		})}
		return g
	}
	p := s.reserve("projection", outputs*int64(sh.B))
	g.once = []op.Call{
		net.bindOwnGemm(source{arg: op.From(net.h, 0), at: (sh.L - 1) * sh.B * sh.H}, d.proj, d.bias, p, sh.B, sh.H, outputs, fp32),
		s.Bind(&moveKernel, sh.B, moveCost(sh), gruMoveArgs{
			p: p, h: net.h, energy: d.energy, level: d.level, place: d.place, source: d.source, out: d.record,
			path: d.record, n: sh.B, B: sh.B, H: sh.H, L: sh.L, D: sh.D, keeps: false,
		}),
	}
	return g
}

func (s *session) metricsGroup(net *gru) group {
	return s.metricsOf(net.h, (s.shape.L-1)*s.shape.B*s.shape.H, s.flow.metrics)
}

// metricsOf binds the launches that sum a step's results to its metrics. The top layer's state begins at element top of
// h.
func (s *session) metricsOf(h any, top int, metrics any) group {
	sh, d, m := s.shape, s.flow, s.shape.metrics()
	sum := sumCost(sh)
	least := sum
	least.BytesWritten = 4 * int64(m)
	g := group{stage: stMetrics, minimum: least}
	if s.k.Deterministic {
		blocks := ceilDiv(sh.B, metricBlock)
		partial := s.reserve("partial sums", int64(blocks)*int64(m))
		sum.BytesWritten = 4 * int64(blocks) * int64(m)
		g.once = []op.Call{
			s.Bind(&sumKernel, blocks, sum, gruSumArgs{
				records: d.record, level: d.level, h: h, partial: partial, n: blocks, B: sh.B, H: sh.H, D: sh.D,
				hAt: top,
			}),
			s.Bind(&finalKernel, m, finalCost(sh), gruSumFinalArgs{
				partial: partial, metrics: metrics, n: m, blocks: blocks,
			}),
		}
		return g
	}
	sum.BytesWritten = 4 * int64(sh.B) // at least one addition to the dose for each carrier
	g.once = []op.Call{
		s.Bind(&fillKernel, m, fillCost(m), gruFillArgs{out: metrics, n: m, value: float32(0)}),
		s.Bind(&raceKernel, sh.B, sum, gruSumRacyArgs{
			records: d.record, level: d.level, h: h, metrics: metrics, n: sh.B, H: sh.H, D: sh.D, hAt: top,
		}),
	}
	return g
}

func (s *session) captureGraphs(ctx context.Context) error {
	for k := range s.slots {
		s.graphs.Capture(ctx, s.mem.Dev, s.stream, loop.GraphKey{Slot: k}, func() error { return s.compute(k, loop.Silent{}) })
	}
	return s.graphs.Err
}

func (s *session) describeStages() {
	all := allStages()
	graph := s.k.Graph
	for i := range s.slots[0].groups {
		g := &s.slots[0].groups[i]
		st := &all[g.stage]
		if graph {
			st = &all[stGraph]
		}
		st.MaxSpans++
		st.Parts = append(st.Parts, s.partsOf(g)...)
		least := g.minimum
		least.Launches = 1
		st.Minimum = st.Minimum.Add(least)
	}
	if graph {
		all[stGraph].MaxSpans, all[stGraph].Minimum.Launches = 1, 1
	}
	in, out := 4*s.inputWords(), 4*outputs*int64(s.shape.B)
	all[stH2D].MaxSpans, all[stH2D].Minimum = 1, gpuprof.Cost{BytesRead: in, BytesWritten: in}
	all[stD2H].MaxSpans, all[stD2H].Minimum = 1, gpuprof.Cost{BytesRead: out, BytesWritten: out}
	all[stSync].MaxSpans = s.Items + 3 // spans of reads, reset, trim and sync
	if s.train != nil {
		all[stSync].MaxSpans += s.train.step.Reads() + s.train.step.Micro() - 1
	}
	all[stBackpressure].MaxSpans = 1
	s.Describe(all)
}
