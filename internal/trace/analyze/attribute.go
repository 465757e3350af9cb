package analyze

import (
	"math"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// seqKey identifies an autograd node by process and sequence number, which counts per process.
type seqKey struct {
	process int32
	seq     int64
}

// forwardTable maps autograd nodes to the forward operators that created them, as indices into Trace.Host. Sequence
// numbers count up, so the nodes of one process fit in a slice (dense, from number base). Other cases use a map.
type forwardTable struct {
	process int32
	base    int64
	dense   []int32
	sparse  map[seqKey]int32
}

// get returns the operator that created a node, -1 if not recorded. ok is false if no recorded backward operator has
// the node's sequence number.
func (f *forwardTable) get(k seqKey) (int32, bool) {
	if f.dense != nil {
		if i := k.seq - f.base; k.process == f.process && i >= 0 && i < int64(len(f.dense)) {
			at := f.dense[i]
			return at, at != noNode
		}
		return 0, false
	}
	at, ok := f.sparse[k]
	return at, ok
}

func (f *forwardTable) set(k seqKey, host int32) {
	if f.dense != nil {
		f.dense[k.seq-f.base] = host
	} else {
		f.sparse[k] = host
	}
}

// noNode marks the entries of forwardTable.dense whose sequence number no recorded backward operator has.
const noNode = -2

func (x *Index) newForwardTable() *forwardTable {
	t := x.T
	n, processes, low, high := 0, map[int32]bool{}, int64(math.MaxInt64), int64(math.MinInt64)
	each := func(do func(seqKey)) {
		for i := range t.Host {
			if h := &t.Host[i]; h.Kind == model.Op && h.Seq != 0 && x.Info[h.Name].Flags&NameBackward != 0 {
				do(seqKey{t.ProcessOf(h.Lane), h.Seq})
			}
		}
	}
	each(func(k seqKey) {
		n++
		processes[k.process] = true
		low, high = min(low, k.seq), max(high, k.seq)
	})
	if n == 0 {
		return nil
	}
	f := &forwardTable{base: low}
	for p := range processes {
		f.process = p
	}
	if width := uint64(high) - uint64(low); len(processes) == 1 && width < uint64(4*n+1024) {
		f.dense = make([]int32, width+1)
		for i := range f.dense {
			f.dense[i] = noNode
		}
	} else {
		f.sparse = make(map[seqKey]int32, n)
	}
	each(func(k seqKey) { f.set(k, -1) })
	return f
}

// linkForward finds, for each autograd node that a backward operator ran, the forward operator that created the node.
// This is the last forward operator with the sequence number of the node. An operator that creates no node carries the
// number of the next node, so earlier operators with the same number created none.
func (x *Index) linkForward() {
	t := x.T
	nodes := x.newForwardTable()
	if nodes == nil {
		return
	}
	for i := range t.Host {
		h := &t.Host[i]
		if h.Kind != model.Op || h.Seq == 0 || x.Info[h.Name].Flags&NameBackward != 0 {
			continue
		}
		k := seqKey{t.ProcessOf(h.Lane), h.Seq}
		at, ok := nodes.get(k)
		if !ok || x.InBackward(int32(i)) {
			continue
		}
		if at < 0 || t.Host[at].Start <= h.Start {
			nodes.set(k, int32(i))
		}
	}
	x.forward = nodes
}

// InBackward reports whether an event runs inside an operator of the backward pass.
func (x *Index) InBackward(host int32) bool {
	for h := x.OpAbove(host); h >= 0; h = x.OpAbove(h) {
		if x.Info[x.T.Host[h].Name].Flags&NameBackward != 0 {
			return true
		}
	}
	return false
}

// OpAbove returns the innermost operator around an event, without the event itself; -1 none.
func (x *Index) OpAbove(host int32) int32 {
	if p := x.parent[host]; p >= 0 {
		return x.op[p]
	}
	return -1
}

// ForwardOf returns the forward operator whose gradient the event helps to compute; -1 outside the backward pass.
func (x *Index) ForwardOf(host int32) int32 {
	if x.forward == nil {
		return -1
	}
	for h := x.op[host]; h >= 0; h = x.OpAbove(h) {
		op := &x.T.Host[h]
		if op.Seq == 0 || x.Info[op.Name].Flags&NameBackward == 0 {
			continue
		}
		if f, ok := x.forward.get(seqKey{x.T.ProcessOf(op.Lane), op.Seq}); ok {
			return f
		}
	}
	return -1
}

// attributeOps assigns to each GPU event the innermost operator around its launch. An event without a recorded launch
// gets the operator with the external id of the event.
func (x *Index) attributeOps() {
	t := x.T
	x.gpuOp = make([]int32, len(t.GPU))
	var byExt map[int64]int32
	for i := range t.GPU {
		g := &t.GPU[i]
		x.gpuOp[i] = -1
		if g.Launch >= 0 {
			x.gpuOp[i] = x.op[g.Launch]
			continue
		}
		if hasExternal(g) {
			if byExt == nil {
				byExt = map[int64]int32{}
			}
			byExt[g.Ext] = -1
		}
	}
	if byExt == nil {
		return
	}
	for i := range t.Host {
		h := &t.Host[i]
		if h.Kind != model.Op || h.Corr == 0 {
			continue
		}
		if _, ok := byExt[h.Corr]; ok {
			byExt[h.Corr] = int32(i)
		}
	}
	for i := range t.GPU {
		if g := &t.GPU[i]; g.Launch < 0 && hasExternal(g) {
			x.gpuOp[i] = byExt[g.Ext]
		}
	}
}

// hasExternal reports whether the external id of an event identifies an operator. Some profilers write the correlation
// id in this field instead.
func hasExternal(g *model.GPU) bool { return g.Ext != 0 && g.Ext != g.Corr }
