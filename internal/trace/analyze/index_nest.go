package analyze

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// overhang is how far an event may end after the one it starts in and still
// count as nested: old profilers round starts and lengths to microseconds.
const overhang = 2000 // ns

// Deepest is how many events one may lie in. What lies deeper is taken to lie in the
// innermost of so many: whoever looks up from an event takes so many steps at most,
// and no trace makes the work grow with the square of its length.
const Deepest = 1024

// nest works out which host event lies in which. Lanes are independent.
func (x *Index) nest() {
	n := len(x.T.Host)
	x.parent, x.end = make([]int32, n), make([]int32, n)
	x.op, x.mod = make([]int32, n), make([]int32, n)
	work := make(chan LaneRange, len(x.lanes))
	for _, l := range x.lanes {
		work <- l
	}
	close(work)
	var wg sync.WaitGroup
	var deep atomic.Int64
	for range min(2, len(x.lanes)) {
		wg.Go(func() {
			for l := range work {
				deep.Add(x.nestLane(l))
			}
		})
	}
	wg.Wait()
	if n := deep.Load(); n > 0 {
		x.warn("deep-nesting", fmt.Sprintf("%d host events are nested in more than %d others; the events between are ignored", n, Deepest), "")
	}
}

type open struct {
	host int32
	end  int64 // never after the end of what it lies in
}

// nestLane runs once over the events of a lane, keeping those that are open.
// An event that starts in another and outlasts it by more than the overhang
// was not called by it: it closes the other. API calls are leaves recorded by
// another clock; they belong to the operator they start in, whatever their end. It
// counts the events that lie deeper than Deepest.
func (x *Index) nestLane(l LaneRange) (deep int64) {
	host := x.T.Host
	var stack []open
	for i := l.Lo; i < l.Hi; i++ {
		h := &host[i]
		for len(stack) > 0 {
			top := stack[len(stack)-1]
			if top.end > h.Start && (h.Kind == model.API || h.End <= top.end+overhang) {
				break
			}
			x.end[top.host] = i
			stack = stack[:len(stack)-1]
		}
		end, parent := h.End, int32(-1)
		x.op[i], x.mod[i] = -1, -1
		if len(stack) > 0 {
			top := stack[len(stack)-1]
			parent, end = top.host, min(end, top.end)
			x.op[i], x.mod[i] = x.op[parent], x.mod[parent]
		}
		if len(stack) > Deepest {
			parent = stack[Deepest-1].host
			deep++
		}
		x.parent[i] = parent
		if h.Kind == model.Op {
			x.op[i] = i
		}
		if x.isModule(h) {
			x.mod[i] = i
		}
		stack = append(stack, open{i, end})
	}
	for _, o := range stack {
		x.end[o.host] = l.Hi
	}
	return deep
}

// isModule says whether an event names a part of the model: an nn.Module
// frame, or a range the program named itself.
func (x *Index) isModule(h *model.Host) bool {
	switch h.Kind {
	case model.Python:
		return x.Info[h.Name].Flags&nameModule != 0
	case model.Annotation:
		return x.Info[h.Name].Flags&nameHousekeeping == 0
	}
	return false
}
