package gridsim

// tape is the record of a step that autograd would keep; see the knob tape.
type tape struct {
	level    string
	made     [blockCount]*node // operation that wrote the block's current content
	versions [blockCount]int   // number of writes to a block
}

// node is one operation of the record. Every run of an operation makes a new node, like an autograd graph.
type node struct {
	operation string
	inputs    []*node
	versions  []int // versions of the inputs when they were read
}

func (t *tape) recordOperation(o *operation) {
	n := &node{operation: o.name, inputs: make([]*node, 0, len(o.in)), versions: make([]int, 0, len(o.in))}
	for _, id := range o.in {
		n.inputs, n.versions = append(n.inputs, t.made[id]), append(n.versions, t.versions[id])
	}
	t.versions[o.out]++
	t.made[o.out] = n
}

// forget drops the record of the step, like detaching the new state.
func (t *tape) forget() { t.made = [blockCount]*node{} }
