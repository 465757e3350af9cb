package analyze

import (
	"cmp"
	"slices"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

// backends matches operator names that contain a library or implementation, such as cudnn_batch_norm.
var backends = lazyregexp.New(`(cudnn|miopen|native|flash|efficient)_(attention|batch_norm)`)

// boundKey identifies an operator in both analyses. within holds the shapes of the enclosing attention operator, ""
// outside of an attention.
type boundKey struct{ name, shapes, within string }

// boundSides adds up the times of an operator before and after the change. longest is the longest single time, ns, that
// was added to each side; it selects the kernel that names the side.
type boundSides struct {
	BoundChange
	longest [2]int64
}

// boundChanges pairs the operators of two rooflines by shapes and by name, ignoring the library in the name. Operators
// inside an attention that only one side has are added up to one attention (joinAttention). Operators without a cost
// model are paired by name, and kernels that a graph replays by the order of the other side (addReplayed). The result is nil if a side has no roofline.
func boundChanges(before, after *Roofline) []BoundChange {
	if before == nil || after == nil {
		return nil
	}
	by := map[boundKey]*boundSides{}
	at := func(name, shapes, within string) *boundSides {
		k := boundKey{backends.ReplaceAllString(name, "$2"), shapes, within}
		if by[k] == nil {
			by[k] = &boundSides{BoundChange: BoundChange{Name: name, Shapes: shapes}}
		}
		return by[k]
	}
	for side, r := range []*Roofline{before.addReplayed(after), after.addReplayed(before)} {
		for i := range r.Operators {
			o := &r.Operators[i]
			at(o.Name, o.Shapes, o.Within).addOperator(side, o.NS, float64(o.BoundNS), o.Kernel)
		}
		for _, u := range r.Unmodelled {
			at(u.Name, "", "").addOperator(side, u.NS, 0, "")
		}
	}
	joinAttention(by)
	out := make([]BoundChange, 0, len(by))
	for _, c := range by {
		out = append(out, c.BoundChange)
	}
	slices.SortFunc(out, func(a, b BoundChange) int {
		return cmp.Or(cmp.Compare(abs(b.NewNS-b.OldNS), abs(a.NewNS-a.OldNS)), cmp.Compare(b.OldNS, a.OldNS), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Shapes, b.Shapes))
	})
	return out
}

// joinAttention adds up the operators inside attentions of equal shapes if each side has operators that the other side
// lacks: for example a fused kernel before, and matrix products with a softmax after.
func joinAttention(by map[boundKey]*boundSides) {
	single := map[string][2][]boundKey{}
	for k, c := range by {
		if k.within == "" || (c.OldNS > 0) == (c.NewNS > 0) {
			continue
		}
		sides := single[k.within]
		if c.OldNS > 0 {
			sides[0] = append(sides[0], k)
		} else {
			sides[1] = append(sides[1], k)
		}
		single[k.within] = sides
	}
	for shapes, sides := range single {
		if len(sides[0]) == 0 || len(sides[1]) == 0 {
			continue
		}
		whole := &boundSides{BoundChange: BoundChange{Name: AttentionName, Shapes: shapes}}
		for side, keys := range sides {
			slices.SortFunc(keys, func(a, b boundKey) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.shapes, b.shapes)) })
			for _, k := range keys {
				ns, share, kernel := by[k].fieldsOf(side)
				whole.addOperator(side, *ns, *share*float64(*ns), *kernel)
				delete(by, k)
			}
		}
		by[boundKey{AttentionName, shapes, shapes}] = whole
	}
}

// fieldsOf returns the time, the share and the kernel of a side: 0 before the change, 1 after it.
func (c *boundSides) fieldsOf(side int) (ns *int64, share *float64, kernel *string) {
	if side == 0 {
		return &c.OldNS, &c.OldShare, &c.OldKernel
	}
	return &c.NewNS, &c.NewShare, &c.NewKernel
}

// addOperator adds the time and the lower bound of the time, ns, of an operator to a side. It can be called several
// times for a key, because a roofline separates calls with different strides or values. The share becomes 0 if any of
// them has no bound.
func (c *boundSides) addOperator(side int, ns int64, boundNS float64, kernel string) {
	sum, share, most := c.fieldsOf(side)
	bound := *share*float64(*sum) + boundNS
	known := boundNS > 0 && (*sum == 0 || *share > 0)
	if *sum += ns; ns > c.longest[side] {
		c.longest[side], *most = ns, kernel
	}
	*share = 0
	if known && *sum > 0 {
		*share = bound / float64(*sum)
	}
}

// BoundShares returns, for each side, the sum of the bounds divided by the sum of the times, over the operators with a
// bound on both sides. It returns 0 without such operators.
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
