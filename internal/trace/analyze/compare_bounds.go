package analyze

import (
	"cmp"
	"slices"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

// backends matches the library in an operator's name: cuDNN, MIOpen, and the implementations of attention.
var backends = lazyregexp.New(`(cudnn|miopen|native|flash|efficient)_(attention|batch_norm)`)

// boundChanges pairs the operators of two rooflines by shapes and name without library; nil if a side has no roofline.
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

// addBound adds the time and the bound of an operator to a sum of operators. Calls with other strides or values are
// separate operators. The share is 0 if any of them has no bound.
func addBound(ns *int64, share *float64, o *RooflineOperator) {
	bound := *share*float64(*ns) + float64(o.BoundNS)
	known := o.BoundNS > 0 && (*ns == 0 || *share > 0)
	*ns += o.NS
	*share = 0
	if known && *ns > 0 {
		*share = bound / float64(*ns)
	}
}

// BoundShares returns, for the operators with a bound on both sides, the sum of the bounds divided by the sum of the
// times on each side; 0 without such operators.
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
