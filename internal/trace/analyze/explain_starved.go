package analyze

import (
	"cmp"
	"slices"
	"sort"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

type topLevelEvent struct {
	model.Span
	host int32
}

// topLevelEvents lists for each lane (thread), in order, the outermost operators, API calls and ranges of the data
// loader and the optimizer. Between these events the thread runs code of the program outside operators.
func (x *Index) topLevelEvents(lanes map[uint32]bool) map[uint32][]topLevelEvent {
	out := map[uint32][]topLevelEvent{}
	for i := range x.T.Host {
		h := &x.T.Host[i]
		loads := h.Kind == model.Annotation && x.Info[h.Name].Flags&(nameLoader|NameOptimizer) != 0
		if !lanes[h.Lane] || h.Kind != model.Op && h.Kind != model.API && !loads {
			continue
		}
		v := out[h.Lane]
		s := model.Span{Start: h.Start, End: h.End}
		if n := len(v); n > 0 {
			s.Start = max(s.Start, v[n-1].End)
		}
		if s.Len() > 0 {
			out[h.Lane] = append(v, topLevelEvent{s, int32(i)})
		}
	}
	return out
}

// starvedWaits returns the reasons for which device d had no launched operation to run. The reason for a wait is the
// activity, during the wait, of the thread whose launch ended the wait.
func (x *Index) starvedWaits(d *DeviceTime) WaitSums {
	starved := d.Starved.And(x.Steady)
	enders := map[int64]uint32{} // lane (thread) of the launch that ends a wait, by launch time
	lanes := map[uint32]bool{}
	for _, g := range d.Ops {
		if l := x.T.GPU[g].Launch; l >= 0 {
			h := &x.T.Host[l]
			lanes[h.Lane] = true
			if _, ends := slices.BinarySearchFunc(starved, h.Start, func(s model.Span, at int64) int { return cmp.Compare(s.End, at) }); ends {
				enders[h.Start] = h.Lane
			}
		}
	}
	events := x.topLevelEvents(lanes)
	out := WaitSums{}
	for _, s := range starved {
		lane, ok := enders[s.End]
		if !ok {
			lane = x.Main
		}
		x.addHostWaits(events[lane], s, out)
	}
	return out
}

func (x *Index) addHostWaits(v []topLevelEvent, s model.Span, out WaitSums) {
	i := sort.Search(len(v), func(i int) bool { return v[i].End > s.Start })
	free := s.Len()
	for ; i < len(v) && v[i].Start < s.End; i++ {
		n := min(v[i].End, s.End) - max(v[i].Start, s.Start)
		out.addWait("while the host is in "+x.T.Name(x.T.Host[v[i].host].Name), "", n)
		free -= max(n, 0)
	}
	out.addWait("while the host runs code outside recorded operators and calls", "", free)
}
