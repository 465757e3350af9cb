package gridsim

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// Stages of a step, in order. With a launch graph all device work is one stage, graph, instead of law and view.
const (
	stAlloc = iota
	stLaw
	stView
	stGraph
	stKeep
	stD2H
	stReduce
	stStats
	stSync
	stBackpressure
	stageCount
)

func allStages() []gpuprof.Stage {
	return append([]gpuprof.Stage{
		{Name: "alloc", Kind: gpuprof.HostStage, Try: "gpuprof run gridsim --set allocator=arena,pool,driver",
			PyTorch: "allocate tensors before the loop and write with out="},
		{Name: "law"}, {Name: "view"}, {Name: "graph"}, {Name: "keep"}, loop.Result(),
		{Name: "reduce", Kind: gpuprof.HostStage, Try: "gpuprof run gridsim --set pool_where=device,host", PyTorch: "F.avg_pool2d(maps, scale) on the device, before the copy"},
		{Name: "stats", Kind: gpuprof.HostStage, Try: "gpuprof run gridsim --set stats=off,step,sync", PyTorch: "read torch.cuda.memory_stats() outside the loop"},
	}, loop.Waits()...)
}

// describeStages lists the stages of a step and their costs. Work that only some steps do counts with its mean per
// step.
func (s *session) describeStages() {
	all := allStages()
	sh, f := s.shape, s.k
	law, view := &all[stLaw], &all[stView]
	if s.k.Graph {
		law, view = &all[stGraph], &all[stGraph]
	}
	allocs := 1
	for i := range s.ops {
		o := &s.ops[i]
		law.MaxSpans++
		law.Parts = append(law.Parts, gpuprof.Part{Kernel: o.Kernel, Cost: o.Cost})
		allocs += len(o.take) + len(o.give)
	}
	law.Minimum = sh.lawCost(s.k.Precision)
	frames := s.k.framesPerStep()
	if frames > 0 {
		view.MaxSpans++
		cost := portionOf(frameCost(sh, f.Maps, f.deviceScale()), frames)
		view.Parts = append(view.Parts, gpuprof.Part{Kernel: s.view.Kernel, Cost: cost})
		view.Minimum = view.Minimum.Add(portionOf(frameCost(sh, f.Maps, f.Scale), frames))
	}
	if s.k.ROI {
		view.MaxSpans++
		side := int64(sh.N) * 9 / 16 // mean of a side between N/8 and N
		cost := gpuprof.Cost{BytesRead: 4 * int64(sh.C) * side * side, BytesWritten: 4 * int64(sh.C) * side * side, Launches: 1}
		view.Parts, view.Minimum = append(view.Parts, gpuprof.Part{Kernel: s.crop.Kernel, Cost: cost}), view.Minimum.Add(cost)
	}
	if s.k.Graph {
		all[stGraph].MaxSpans, all[stGraph].Minimum.Launches = 1, 1
	}
	if s.timed {
		all[stAlloc].MaxSpans = allocs + 8 // plus the states, a region, and the end of the tape
	}
	if s.spill {
		moved := 4 * sh.stateWords()
		all[stKeep].MaxSpans, all[stKeep].Minimum = 2, gpuprof.Cost{BytesRead: moved, BytesWritten: moved}
	}
	if frames > 0 {
		pieces := 1
		if f.ViewCopy == copyEach {
			pieces = f.Maps
		}
		moved := 4 * int64(f.Maps) * int64(sh.cells()) / int64(f.Scale*f.Scale)
		all[stD2H].MaxSpans, all[stD2H].Minimum = pieces, portionOf(gpuprof.Cost{BytesRead: moved, BytesWritten: moved}, frames)
	}
	if frames > 0 && f.PoolWhere == whereHost {
		all[stReduce].MaxSpans = 1
	}
	if s.k.Stats != "off" {
		all[stStats].MaxSpans = 1
	}
	all[stSync].MaxSpans = s.Items + 5 + f.Maps // spans of reads, reset, trim, counters, sync and a frame's pieces
	all[stBackpressure].MaxSpans = 1
	s.Describe(all)
}

// portionOf returns a cost multiplied by share, rounded.
func portionOf(c gpuprof.Cost, share float64) gpuprof.Cost {
	part := func(v int64) int64 { return int64(float64(v)*share + 0.5) }
	return gpuprof.Cost{Flops: part(c.Flops), BytesRead: part(c.BytesRead), BytesWritten: part(c.BytesWritten), Launches: part(c.Launches)}
}
