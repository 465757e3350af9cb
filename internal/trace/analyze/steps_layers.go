package analyze

import (
	"slices"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// layerName matches ranges named for a part of a model: a layer, a block, attention. They repeat within each pass.
var layerName = lazyregexp.New(`(?i)(^|[^a-z])(layers?|blocks?|attn|attention|mlp|ffn|encoderlayer|decoderlayer)([^a-z]|$)|(encoder|decoder|transformer|self|res)_?(layer|block|attn|attention)`)

// moduleName matches ranges named for a class of torch.nn or of a model's blocks, also as PyTorch's profiler and hooks
// print them: "nn.Module: Linear_0", "encoder.0.Conv2d".
var moduleName = lazyregexp.New(`(^|[^A-Za-z])((Lazy)?(Linear|Bilinear|Conv(Transpose)?#d|(Layer|RMS|Group)Norm|(Batch|Instance)Norm#d|Embedding|ReLU|GELU|SiLU|Sigmoid|Tanh|Softmax|Dropout|(Adaptive)?(Max|Avg)Pool#d|MultiheadAttention|Sequential|ModuleList|LSTMCell|GRUCell|Bottleneck|BasicBlock))([^A-Za-z]|$)`)

// passName matches ranges named for one pass through the model, epochName ranges named for many passes. iterationName
// matches ranges named for one or several iterations of a loop; a layer contains no such ranges.
var (
	passName      = lazyregexp.New(`(?i)(^|[^a-z])(step|iter|iteration|forward|generate|decode|prefill|token|inference|pass|request|frame)([^a-z]|$)`)
	epochName     = lazyregexp.New(`(?i)epoch|(^|[^a-z])(main|train|training|eval|loop|run|profile|benchmark)([^a-z]|$)`)
	iterationName = lazyregexp.New(`(?i)(^|[^a-z])(steps?|iters?|iterations?|batch|batches|epochs?)([^a-z]|$)`)
)

// findRangesOfLayers returns the group of ranges from all that enclose the ranges of g, if the ranges of g are layers
// of one pass; nil if they are not. The group must have two or more ranges, each with the same number of ranges of g,
// two or more. Epochs, which contain batches and not layers, are excluded by their names.
func (x *Index) findRangesOfLayers(g *rangeGroup, all []*rangeGroup) *rangeGroup {
	var best *rangeGroup
	for _, o := range all {
		if o.lane != g.lane || o.name == g.name || len(o.events) < 2 || epochName.MatchString(o.name) {
			continue
		}
		if !layerName.MatchString(g.name) && !passName.MatchString(o.name) || layerName.MatchString(o.name) {
			continue
		}
		if n := x.countInEach(o.events, g.events); n >= 2 && n*len(o.events) == len(g.events) && (best == nil || o.total > best.total) {
			best = o
		}
	}
	return best
}

// areInLayers reports whether every event of g is inside a range named for a layer or a module, so that the events are parts of
// layers and not steps. It returns false if g is named for iterations of a loop. A range named for many passes, such as
// a benchmark of attention, does not count as a layer.
func (x *Index) areInLayers(g *rangeGroup) bool {
	if iterationName.MatchString(g.name) {
		return false
	}
	layer := map[model.NameID]bool{}
	return !slices.ContainsFunc(g.events, func(i int32) bool {
		for p := x.parent[i]; p >= 0; p = x.parent[p] {
			name := x.T.Host[p].Name
			if _, seen := layer[name]; !seen {
				text := x.T.Name(name)
				layer[name] = (layerName.MatchString(text) || moduleName.MatchString(model.MaskNumbers(text))) && !epochName.MatchString(text) && !iterationName.MatchString(text)
			}
			if layer[name] {
				return false
			}
		}
		return true
	})
}

// onePassName matches ranges named for one forward or backward pass, or for one step.
var onePassName = lazyregexp.New(`(?i)(^|[^a-z])(forward|fwd|backward|bwd|step|iteration|iter)([^a-z]|$)`)

// areLayersOfPass reports whether repeated launches are the layers of one pass: a range named for one pass or step
// encloses all repeats, or the repeats are only the backward pass, or only a forward pass before the backward pass.
// steps is the time of all repeats on the host.
func (x *Index) areLayersOfPass(steps model.Span) bool {
	for i := range x.T.Host {
		h := &x.T.Host[i]
		if h.Kind == model.Annotation && h.Start <= steps.Start && h.End >= steps.End && onePassName.MatchString(x.T.Name(h.Name)) {
			return true
		}
	}
	var forward, backward model.Span // from the first launch to the last
	inside := [2]bool{}
	for _, g := range x.launched {
		op := x.gpuOp[g]
		if op < 0 {
			continue
		}
		at, pass, k := x.T.Host[x.T.GPU[g].Launch].Start, &forward, 0
		if x.Info[x.T.Host[op].Name].Flags&NameBackward != 0 || x.InBackward(op) {
			pass, k = &backward, 1
		}
		if *pass == (model.Span{}) {
			*pass = model.Span{Start: at, End: at}
		}
		pass.Start, pass.End = min(pass.Start, at), max(pass.End, at)
		inside[k] = inside[k] || at >= steps.Start && at < steps.End
	}
	if backward == (model.Span{}) || inside[0] == inside[1] {
		return false
	}
	return inside[1] || backward.Start >= steps.End
}

// arePartsOfModel reports whether the ranges of g are modules of a larger program: their name is a module's class, and
// another range of the program on their thread has another name. A benchmark of one module has ranges of one name.
func arePartsOfModel(g *rangeGroup, all []*rangeGroup) bool {
	return moduleName.MatchString(g.name) && slices.ContainsFunc(all, func(o *rangeGroup) bool {
		return o.lane == g.lane && o.name != g.name
	})
}

const (
	// markNS is the length below which a range may only mark a moment, as libraries do at each call.
	markNS = 5000 // ns
	// markPart: a mark takes less than 1/markPart of the time from one to the next.
	markPart = 20
)

// areMarks reports whether the ranges of g only mark moments, and no iterations by their name.
func (x *Index) areMarks(g *rangeGroup) bool {
	var lengths, periods []int64
	for k, i := range g.events {
		lengths = append(lengths, x.T.Host[i].Dur())
		if k > 0 {
			periods = append(periods, x.T.Host[i].Start-x.T.Host[g.events[k-1]].Start)
		}
	}
	length := Median(lengths)
	return length < markNS && length*markPart < Median(periods) && !passName.MatchString(g.name) && !iterationName.MatchString(g.name)
}

// countInEach returns the number of events of inner that each event of outer encloses; 0 if the number differs between
// events of outer. Both lists are sorted by start.
func (x *Index) countInEach(outer, inner []int32) int {
	same, k := -1, 0
	for _, o := range outer {
		n := 0
		for ; k < len(inner) && x.T.Host[inner[k]].Start < x.T.Host[o].End; k++ {
			if x.T.Host[inner[k]].Start >= x.T.Host[o].Start && x.T.Host[inner[k]].End <= x.T.Host[o].End {
				n++
			}
		}
		if same >= 0 && n != same {
			return 0
		}
		same = n
	}
	return max(same, 0)
}
