package analyze

import (
	"math"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// findWorkBefore returns the time until which devices may run work launched before the recording. There are two kinds
// of evidence. (1) A call waits although its process has launched nothing in the recording. (2) The first operation of
// a stream starts unusually long after its launch at the beginning of the recording, and no recorded work delays it.
func (x *Index) findWorkBefore() int64 {
	type place struct {
		process int32
		device  uint16
		stream  int64
	}
	var delays []int64
	seen := map[place]bool{}
	var here place // stream of the previous operation
	free := []int64{}
	late := map[int32]int64{} // delays of the first operations of streams, ns, by index into T.GPU
	every := model.Sample(len(x.T.GPU))
	for i := range x.T.GPU {
		g := &x.T.GPU[i]
		for len(free) <= int(g.Device) {
			free = append(free, math.MinInt64)
		}
		end := free[g.Device]
		free[g.Device] = max(end, g.End)
		k := place{g.Process, g.Device, g.Stream}
		first := (len(seen) == 0 || k != here) && !seen[k]
		if here = k; g.Launch < 0 || !first && i%every != 0 {
			continue
		}
		h := &x.T.Host[g.Launch]
		d := max(0, g.Start-max(min(h.End, g.Start), h.Start, end))
		delays = append(delays, d)
		if first {
			seen[k], late[int32(i)] = true, d
		}
	}
	if len(delays) == 0 {
		return x.Span.Start
	}
	limit := max(leastBeforeNS, unexplainedFactor*Median(delays))
	until := x.Span.Start
	for i, d := range late {
		g := &x.T.GPU[i]
		if d > limit && d >= x.T.Host[g.Launch].Start-x.Span.Start {
			until = max(until, g.Start)
		}
	}
	return max(until, x.findWaitFromBefore(limit))
}

// findWaitFromBefore returns the end of the last wait for a stream or an event that takes at least limit ns and ends
// before its process launches anything; without one, the start of the recording.
func (x *Index) findWaitFromBefore(limit int64) int64 {
	var waits []int32
	launched := map[int32]int64{} // first launch of each process
	for _, l := range x.lanes {
		p := x.T.ProcessOf(l.lane)
	lane:
		for i := l.Lo; i < l.Hi; i++ {
			h := &x.T.Host[i]
			if h.Kind != model.API {
				continue
			}
			switch x.Info[h.Name].call {
			case model.CallLaunch, model.CallGraph, model.CallCopy, model.CallFill:
				if at, ok := launched[p]; !ok || h.Start < at {
					launched[p] = h.Start
				}
				break lane
			case model.CallSync:
				if h.Dur() >= limit && !isDeviceSync(x.T.Name(h.Name)) {
					waits = append(waits, i)
				}
			}
		}
	}
	until := x.Span.Start
	for _, i := range waits {
		h := &x.T.Host[i]
		if at, ok := launched[x.T.ProcessOf(h.Lane)]; ok && at > h.End {
			until = max(until, h.End)
		}
	}
	return until
}
