package analyze

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// leastNumbered is the least number of recorded operators whose ids can show that a recording is a sample.
	leastNumbered = 200
	// sampledShare: a recording is a sample only if it has less than this share of the ids in the range of its
	// operators' ids.
	sampledShare = 0.1
)

// SampledOperators returns the number of recorded operators and the length of the range of their ids (numbered).
// PyTorch gives the operators of a program consecutive ids. ok is true if the recording is a sample, from which events
// were removed: it has less than sampledShare of the ids in the range, and most of its ids do not follow the previous
// id directly. A recording of one part of a run, by contrast, has consecutive ids.
func (x *Index) SampledOperators() (recorded int, numbered int64, ok bool) {
	if x.T.Format != model.Kineto {
		return 0, 0, false
	}
	least, most := int64(math.MaxInt64), int64(0)
	for i := range x.T.Host {
		if h := &x.T.Host[i]; h.Kind == model.Op && h.Corr > 0 {
			recorded, least, most = recorded+1, min(least, h.Corr), max(most, h.Corr)
		}
	}
	if recorded < leastNumbered {
		return recorded, 0, false
	}
	if numbered = most - least + 1; float64(recorded) >= sampledShare*float64(numbered) {
		return recorded, numbered, false
	}
	ids := make([]int64, 0, recorded)
	for i := range x.T.Host {
		if h := &x.T.Host[i]; h.Kind == model.Op && h.Corr > 0 {
			ids = append(ids, h.Corr)
		}
	}
	slices.Sort(ids)
	apart := make([]int64, 0, len(ids)-1)
	for i := range ids[1:] {
		apart = append(apart, ids[i+1]-ids[i])
	}
	return recorded, numbered, Median(apart) > 1
}
