package analyze

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// buildTrees returns the sampled stacks with their times in a step of step ns, the longest time first. It rounds the
// running sum of the times, so that they add up to the step.
func (o *sampleClasses) buildTrees(step int64) []HostTree {
	if o.total <= 0 {
		return nil
	}
	at := map[string]int{}
	var trees []HostTree
	sum, before := 0.0, int64(0)
	for i := range o.s.Stacks {
		st := &o.s.Stacks[i]
		key := fmt.Sprint(st.Doing, st.Frames)
		k, ok := at[key]
		if !ok {
			k = len(trees)
			at[key] = k
			trees = append(trees, o.newTree(st))
		}
		sum += st.S
		until := int64(math.Round(min(sum/o.total, 1) * float64(step)))
		if i == len(o.s.Stacks)-1 {
			until = step
		}
		trees[k].NS += until - before
		before = until
	}
	slices.SortStableFunc(trees, func(p, q HostTree) int { return cmp.Compare(q.NS, p.NS) })
	return trees
}

func (o *sampleClasses) newTree(st *model.HostStack) HostTree {
	t := HostTree{Doing: st.Doing}
	for _, k := range st.Frames {
		f := o.s.Frames[k]
		t.Frames, t.Lines = append(t.Frames, FrameName(f)), append(t.Lines, f)
	}
	return t
}

// HostCall is a frame of an icicle graph of the sampled stacks over the mean step.
type HostCall struct {
	Where    string // "train.py:41 in step"
	Depth    int    // 0 is the outermost frame
	From, To int64  // horizontal extent, ns from the start of the step
}

// Calls lays out the sampled stacks as an icicle graph whose width is the step. Stacks that begin with the same outer
// frames share them. Siblings are sorted by time, the longest first.
func (a *HostAccount) Calls() []HostCall {
	root := &callSum{}
	for i := range a.Stacks {
		n := root
		for _, f := range a.Stacks[i].Frames {
			n = n.childFrame(f)
			n.ns += a.Stacks[i].NS
		}
	}
	var out []HostCall
	root.layOut(&out, 0, 0)
	return out
}

type callSum struct {
	where string
	ns    int64
	kids  []*callSum
}

func (n *callSum) childFrame(where string) *callSum {
	for _, k := range n.kids {
		if k.where == where {
			return k
		}
	}
	k := &callSum{where: where}
	n.kids = append(n.kids, k)
	return k
}

func (n *callSum) layOut(out *[]HostCall, depth int, from int64) {
	slices.SortStableFunc(n.kids, func(p, q *callSum) int { return cmp.Compare(q.ns, p.ns) })
	for _, k := range n.kids {
		*out = append(*out, HostCall{Where: k.where, Depth: depth, From: from, To: from + k.ns})
		k.layOut(out, depth+1, from)
		from += k.ns
	}
}
