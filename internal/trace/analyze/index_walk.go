package analyze

import (
	"cmp"
	"slices"
	"sort"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// LaneAt returns the range of indices into T.Host that holds the events of a lane (thread); an empty range without
// events.
func (x *Index) LaneAt(lane uint32) LaneRange {
	i, found := slices.BinarySearchFunc(x.lanes, lane, func(r LaneRange, lane uint32) int { return cmp.Compare(r.lane, lane) })
	if !found {
		return LaneRange{}
	}
	return x.lanes[i]
}

// Walk divides a time span of a thread into parts with one innermost event each, and calls visit for each part until
// visit returns false. The arguments of visit are the innermost event (in), the event that begins next on the thread
// (next), and the length of the part in ns. Both events are indices into T.Host, -1 none.
func (x *Index) Walk(lane uint32, s model.Span, visit func(in, next int32, ns int64) bool) {
	host, r := x.T.Host, x.LaneAt(lane)
	found := sort.Search(int(r.Hi-r.Lo), func(i int) bool { return host[r.Lo+int32(i)].Start > s.Start })
	next, in, at := r.Lo+int32(found), int32(-1), s.Start
	if next > r.Lo {
		in = next - 1
	}
	for at < s.End {
		for in >= 0 && host[in].End <= at {
			in = x.parent[in]
		}
		until := s.End
		if next < r.Hi {
			until = min(until, host[next].Start)
		}
		if in >= 0 {
			until = min(until, host[in].End)
		}
		if until > at {
			ahead := int32(-1)
			if next < r.Hi {
				ahead = next
			}
			if !visit(in, ahead, until-at) {
				return
			}
			at = until
		}
		if next < r.Hi && host[next].Start <= at {
			in = next
			next++
		}
	}
}
