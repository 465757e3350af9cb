package analyze

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// leastNumbered is the number of operators from which on their ids tell whether a recording is a sample.
	leastNumbered = 200
	// sampledShare is the share of the operators that a sample has at most: a part of a recording has neighbours.
	sampledShare = 0.1
)

// SampledOperators returns the number of operators in a recording, and how many their ids count. PyTorch numbers
// operators one after the other. If less than a tenth is there, and most neighbours in the file are none in the
// program, events were taken out: the recording is a sample, and ok is true.
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
