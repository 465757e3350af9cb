package analyze

import (
	"cmp"
	"slices"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

// backends are the parts of operators' names by which PyTorch tells apart the libraries behind one operator: those of
// NVIDIA and of AMD, and the kernels of attention.
var backends = lazyregexp.New(`(cudnn|miopen|native|flash|efficient)_(attention|batch_norm)`)

// boundChanges pairs the operators of two rooflines by their name without the library, and their shapes; nil if a side
// has no roofline.
func boundChanges(before, after *Roofline) []BoundChange {
	if before == nil || after == nil {
		return nil
	}
	type key struct{ name, shapes string }
	by := map[key]*BoundChange{}
	at := func(o *RooflineOperator) *BoundChange {
		k := key{backends.ReplaceAllString(o.Name, "$2"), o.Shapes}
		if by[k] == nil {
			by[k] = &BoundChange{Name: o.Name, Shapes: o.Shapes}
		}
		return by[k]
	}
	for i := range before.Operators {
		c := at(&before.Operators[i])
		addBound(&c.OldNS, &c.OldShare, &before.Operators[i])
	}
	for i := range after.Operators {
		c := at(&after.Operators[i])
		addBound(&c.NewNS, &c.NewShare, &after.Operators[i])
	}
	out := make([]BoundChange, 0, len(by))
	for _, c := range by {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b BoundChange) int {
		return cmp.Or(cmp.Compare(abs(b.NewNS-b.OldNS), abs(a.NewNS-a.OldNS)), cmp.Compare(b.OldNS, a.OldNS), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Shapes, b.Shapes))
	})
	return out
}

// addBound adds an operator to a time and its bound's share. Calls with other strides or values are separate
// operators: their times add up, and so do their bounds, unless one has none.
func addBound(ns *int64, share *float64, o *RooflineOperator) {
	bound := *share*float64(*ns) + float64(o.BoundNS)
	known := o.BoundNS > 0 && (*ns == 0 || *share > 0)
	*ns += o.NS
	*share = 0
	if known && *ns > 0 {
		*share = bound / float64(*ns)
	}
}

// BoundShares returns the share of the bounds in the time on either side, of the operators that have a bound on both;
// 0 without any.
func (c *Comparison) BoundShares() (old, now float64) {
	var oldNS, newNS float64
	for _, b := range c.Bounds {
		if b.OldShare > 0 && b.NewShare > 0 {
			old, oldNS = old+b.OldShare*float64(b.OldNS), oldNS+float64(b.OldNS)
			now, newNS = now+b.NewShare*float64(b.NewNS), newNS+float64(b.NewNS)
		}
	}
	if oldNS == 0 || newNS == 0 {
		return 0, 0
	}
	return old / oldNS, now / newNS
}
