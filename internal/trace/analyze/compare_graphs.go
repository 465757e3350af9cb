package analyze

import (
	"maps"
	"slices"
)

// mostAligned limits the operations of a step that are aligned: the table takes two bytes for each pair.
const mostAligned = 4096

// addReplayed returns the roofline with operators for the kernels that a graph replays. They are the operators of the
// other side that launched the same kernels, with the same grids, in the same order. If both sides are of the same
// device and all kernels of an operator are found, its bound holds for both. Kernels without a partner stay as they are.
func (r *Roofline) addReplayed(other *Roofline) *Roofline {
	replayed := func(o OrderedOp) bool { return o.Graph }
	if !slices.ContainsFunc(r.Order, replayed) || len(other.Order) == 0 || max(len(r.Order), len(other.Order)) > mostAligned {
		return r
	}
	means := r.graphMeans()
	kernels := map[int32]int{} // by row of the other side
	for _, o := range other.Order {
		kernels[o.Row]++
	}
	rows := map[int32]*RooflineOperator{}
	ops, moved := map[string]int64{}, map[string]int64{}
	for _, pair := range alignOps(r.Order, other.Order) {
		mine, theirs := r.Order[pair[0]], other.Order[pair[1]]
		if !mine.Graph || theirs.Graph || theirs.Row < 0 && theirs.Op == "" {
			continue
		}
		ns := int64(float64(mine.NS) * means[mine.Kernel])
		moved[mine.Kernel] += ns
		if theirs.Row < 0 {
			ops[theirs.Op] += ns
			continue
		}
		if rows[theirs.Row] == nil {
			o := other.Operators[theirs.Row]
			rows[theirs.Row] = &RooflineOperator{Name: o.Name, Shapes: o.Shapes, Within: o.Within, Kernel: o.Kernel}
		}
		rows[theirs.Row].NS += ns
		kernels[theirs.Row]--
	}
	out := &Roofline{Operators: slices.Clone(r.Operators)}
	for row, o := range rows {
		if kernels[row] == 0 && r.Device == other.Device {
			o.BoundNS = min(o.NS, other.Operators[row].BoundNS)
		}
		out.Operators = append(out.Operators, *o)
	}
	for _, u := range r.Unmodelled {
		if u.Reason == ReasonReplayed {
			taken := min(u.NS, moved[u.Name])
			u.NS, moved[u.Name] = u.NS-taken, moved[u.Name]-taken
		}
		if u.NS > 0 {
			out.Unmodelled = append(out.Unmodelled, u)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ops)) {
		out.Unmodelled = append(out.Unmodelled, UnmodelledRuntime{Name: name, NS: ops[name]})
	}
	return out
}

// graphMeans returns, by kernel, the time of a graph's kernels in the mean step divided by their time in the step of
// Order.
func (r *Roofline) graphMeans() map[string]float64 {
	inOrder := map[string]int64{}
	for _, o := range r.Order {
		if o.Graph {
			inOrder[o.Kernel] += o.NS
		}
	}
	means := map[string]float64{}
	for _, u := range r.Unmodelled {
		if ns := inOrder[u.Name]; u.Reason == ReasonReplayed && ns > 0 {
			means[u.Name] = float64(u.NS) / float64(ns)
		}
	}
	return means
}

// alignOps returns the pairs of positions of a longest common subsequence of two steps, by kernel and grid.
func alignOps(a, b []OrderedOp) (pairs [][2]int) {
	width := len(b) + 1
	longest := make([]uint16, (len(a)+1)*width) // of the operations from i and from j on
	same := func(i, j int) bool { return a[i].Kernel == b[j].Kernel && a[i].Blocks == b[j].Blocks }
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if same(i, j) {
				longest[i*width+j] = longest[(i+1)*width+j+1] + 1
			} else {
				longest[i*width+j] = max(longest[(i+1)*width+j], longest[i*width+j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case same(i, j):
			pairs = append(pairs, [2]int{i, j})
			i, j = i+1, j+1
		case longest[(i+1)*width+j] >= longest[i*width+j+1]:
			i++
		default:
			j++
		}
	}
	return pairs
}
