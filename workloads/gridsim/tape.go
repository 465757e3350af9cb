package gridsim

// tape is the record of a step that a gradient graph keeps: knob tape.
type tape struct {
	level    string
	made     [blockCount]*node // the operation that made a block's content
	versions [blockCount]int   // number of writes to a block
}

// node is one operation of the record. Every operation makes a new one, like an autograd graph.
type node struct {
	operation string
	inputs    []*node
	versions  []int // of the inputs when they were read
}

// recordOperation adds an operation.
func (t *tape) recordOperation(o *operation) {
	n := &node{operation: o.name, inputs: make([]*node, 0, len(o.in)), versions: make([]int, 0, len(o.in))}
	for _, id := range o.in {
		n.inputs, n.versions = append(n.inputs, t.made[id]), append(n.versions, t.versions[id])
	}
	t.versions[o.out]++
	t.made[o.out] = n
}

// forget drops the record of the step: the new state is detached.
func (t *tape) forget() { t.made = [blockCount]*node{} }
