package analyze

import (
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// listBuilds returns the pauses in which the program builds a kernel before its first use, as CuPy and Numba do, or
// reads a library. Such a pause ends where a module is loaded, not before the time after, and is extended to the end of
// the load. The builds of a kernel name count only if there are at most mostInitCalls, one for each data type. More
// builds are part of the program's loop.
func (x *Index) listBuilds(after int64) model.Spans {
	isLoad, last := make([]bool, len(x.T.Names)), int64(-1)
	for id, name := range x.T.Names {
		isLoad[id] = strings.Contains(name, "ModuleLoad") || strings.Contains(name, "LibraryLoad")
	}
	loads := func(h *model.Host) bool { return h.Kind == model.API && h.Start >= after && isLoad[h.Name] }
	for i := range x.T.Host {
		if h := &x.T.Host[i]; loads(h) {
			last = max(last, h.Start)
		}
	}
	if last < 0 {
		return nil
	}
	starts := map[int64]int64{} // start of each pause, by its end
	for _, p := range x.pausesBefore(last) {
		starts[p.End] = p.Start
	}
	kernels := map[int32]model.NameID{} // by launch
	for i := range x.T.GPU {
		if g := &x.T.GPU[i]; g.Kind == model.Kernel && g.Launch >= 0 {
			kernels[g.Launch] = g.Name
		}
	}
	builds := map[model.NameID]model.Spans{}
	for _, l := range x.lanes {
		var next model.Spans // builds of the kernel that the thread launches next
		for i := l.Lo; i < l.Hi; i++ {
			h := &x.T.Host[i]
			if start, paused := starts[h.Start]; paused && loads(h) {
				next = append(next, model.Span{Start: start, End: h.End})
			} else if name, launched := kernels[i]; launched {
				builds[name], next = append(builds[name], next...), nil
			}
		}
	}
	var out model.Spans
	for _, b := range builds {
		if len(b) <= mostInitCalls {
			out = append(out, b...)
		}
	}
	return out
}

// pausesBefore returns the pauses up to until, each of compileGapNS or more, in which no call, operator or device
// operation was recorded.
func (x *Index) pausesBefore(until int64) (pauses model.Spans) {
	done := x.Span.Start
	for _, s := range x.recordedBefore(until) {
		if s.Start-done >= compileGapNS {
			pauses = append(pauses, model.Span{Start: done, End: s.Start})
		}
		done = max(done, s.End)
	}
	return pauses
}
