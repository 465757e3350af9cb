package analyze

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// leastNumbered is the least number of recorded operators whose ids can show that a recording is a sample.
	leastNumbered = 200
	// sampledShare: a recording is a sample only if it has fewer operators than this share of the range of their ids.
	sampledShare = 0.1
)

// SampledOperators reports whether events were removed from the recording, so that it is a sample (ok). PyTorch gives
// the operators of a program consecutive ids. The recording is a sample if it has less than sampledShare of the ids
// between its least and largest id, and most ids do not directly follow another. A recording of one part of a run, by
// contrast, has consecutive ids. recorded is the number of operators, numbered the number of ids in the range.
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
