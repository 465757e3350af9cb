package analyze

import (
	"slices"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// layerName matches ranges named for a part of a model: a layer, a block, attention. They repeat within each pass.
var layerName = lazyregexp.New(`(?i)(^|[^a-z])(layers?|blocks?|attn|attention|mlp|ffn|encoderlayer|decoderlayer)([^a-z]|$)|(encoder|decoder|transformer|self|res)_?(layer|block|attn|attention)`)

// passName matches ranges named for one pass of a program, epochName ranges named for many passes. iterationName
// matches ranges named for one or several iterations of a loop; a layer contains none.
var (
	passName      = lazyregexp.New(`(?i)(^|[^a-z])(step|iter|iteration|forward|generate|decode|prefill|token|inference|pass|request|frame)([^a-z]|$)`)
	epochName     = lazyregexp.New(`(?i)epoch|(^|[^a-z])(main|train|training|eval|loop|run|profile|benchmark)([^a-z]|$)`)
	iterationName = lazyregexp.New(`(?i)(^|[^a-z])(steps?|iters?|iterations?|batch|batches|epochs?)([^a-z]|$)`)
)

// findRangesOfLayers returns the larger ranges whose layers are the ranges of g; nil if these are not layers. They are
// taken from the list all. There must be two or more of them, each with the same number of ranges of g, two or more.
// Epochs, which contain batches, are excluded by their names.
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

// areInLayers reports whether every event of g lies in a range named for a layer, so that it is a part of that layer.
// Iterations of a loop are not parts of a layer. A range named for many passes, such as a benchmark of attention, is
// not a layer.
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
				layer[name] = layerName.MatchString(text) && !epochName.MatchString(text) && !iterationName.MatchString(text)
			}
			if layer[name] {
				return false
			}
		}
		return true
	})
}

// countInEach returns how many events of inner each event of outer encloses, if the number is the same for all, else
// 0. Both lists are sorted by start.
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
