package analyze

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// overhangNS is the longest time by which an event may outlast the event in which it starts and still count as nested:
// old profilers round starts and lengths to microseconds.
const overhangNS = 2000 // ns

// Deepest limits the depth of nesting. The parent of a deeper event is the event at depth Deepest. A walk up from an
// event then takes at most Deepest moves, so that the time for no trace is quadratic in its length.
const Deepest = 1024

func (x *Index) nestEvents() {
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
		x.addWarning("deep-nesting", fmt.Sprintf("%d host events are nested in more than %d others; the events between are ignored", n, Deepest), "")
	}
}

type openEvent struct {
	host int32
	end  int64 // at most the end of the parent
}

// nestLane finds the parents of the events of a thread in one scan, with a stack of open events. If an event outlasts
// the
// open event by more than overhangNS, it is not nested there, and the open event is closed. API calls are leaves whose
// times come from another clock, so they are always nested in the event in which they start. nestLane returns the
// number of events deeper than Deepest.
func (x *Index) nestLane(l LaneRange) (deep int64) {
	host := x.T.Host
	var stack []openEvent
	for i := l.Lo; i < l.Hi; i++ {
		h := &host[i]
		for len(stack) > 0 {
			top := stack[len(stack)-1]
			if top.end > h.Start && (h.Kind == model.API || h.End <= top.end+overhangNS) {
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
		stack = append(stack, openEvent{i, end})
	}
	for _, o := range stack {
		x.end[o.host] = l.Hi
	}
	return deep
}

// isModule reports whether an event names a part of the model: an nn.Module frame, or a range named by the program.
func (x *Index) isModule(h *model.Host) bool {
	return h.Kind == model.Python && x.Info[h.Name].Flags&nameModule != 0 || x.isProgramRange(h)
}
