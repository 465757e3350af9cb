//go:build !race

// Thousands of sessions in one goroutine: the detector has nothing to find here, and
// TestChecks has each kind of launch under it.

package gridsim

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
)

// nothing is the number of an operation that is launched over no items.
const nothing = -1

// plan is the law of a step as a list of operations, each with its number in the unchanged one.
type plan struct {
	name    string
	ops     []operation
	numbers []int
}

func planOf(ops []operation) plan {
	p := plan{name: "unchanged"}
	for i := range ops {
		p.ops, p.numbers = append(p.ops, copied(ops[i])), append(p.numbers, i)
	}
	return p
}

func copied(o operation) operation {
	o.in, o.Refs = slices.Clone(o.in), slices.Clone(o.Refs)
	o.take, o.give = slices.Clone(o.take), slices.Clone(o.give)
	return o
}

func (p plan) changed(name string) plan {
	q := planOf(p.ops)
	q.name, q.numbers = name, slices.Clone(p.numbers)
	return q
}

// mutations are the plan with each operation left out, exchanged with the next one, launched
// twice, and with each of its blocks replaced by another of the same shape. What an operation
// is said to read changes with its arguments, as in a plan that was written so.
func (p plan) mutations() []plan {
	var out []plan
	ids := p.ids()
	for i, o := range p.ops {
		what := fmt.Sprintf("%d %s (%s)", i, o.name, o.Kernel)
		del := p.changed("without " + what)
		if len(p.ops) == 1 { // the block that the step ends in is taken all the same
			del.ops[0].N, del.numbers[0] = 0, nothing
		} else {
			del.ops, del.numbers = slices.Delete(del.ops, i, i+1), slices.Delete(del.numbers, i, i+1)
		}
		twice := p.changed("twice " + what)
		twice.ops, twice.numbers = slices.Insert(twice.ops, i, copied(o)), slices.Insert(twice.numbers, i, i)
		out = append(out, del, twice)
		if i+1 < len(p.ops) {
			swap := p.changed("exchanged with the next: " + what)
			swap.ops[i], swap.ops[i+1] = swap.ops[i+1], swap.ops[i]
			swap.numbers[i], swap.numbers[i+1] = swap.numbers[i+1], swap.numbers[i]
			out = append(out, swap)
		}
		for _, from := range slices.Compact(slices.Sorted(slices.Values(o.blocks()))) {
			for _, to := range ids {
				if to == from || !alike(from, to) {
					continue
				}
				bound := p.changed(fmt.Sprintf("%s (%d) for %s (%d) in %s", blockNames[to], to, blockNames[from], from, what))
				bound.ops[i].rebind(from, to)
				out = append(out, bound)
			}
		}
	}
	return out
}

// ids are the blocks that the plan has.
func (p plan) ids() []blockID {
	var out []blockID
	for _, o := range p.ops {
		out = append(out, o.blocks()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// alike reports whether two blocks have the same shape: a whole state, or so many values for
// each cell of a chunk.
func alike(a, b blockID) bool {
	kind := func(id blockID) int {
		switch id {
		case bState, bNext, bBetween:
			return 0
		case bA, bH:
			return 1
		case bSum, bRoot:
			return 2
		case bP:
			return 3
		}
		return 4
	}
	return kind(a) == kind(b)
}

func (o *operation) rebind(from, to blockID) {
	for k := range o.Refs {
		if o.Refs[k].Block == int(from) {
			o.Refs[k].Block = int(to)
		}
	}
	for k, id := range o.in {
		if id == from {
			o.in[k] = to
		}
	}
	if o.out == from {
		o.out = to
	}
}

// live gives the plan's blocks the lives that its operations have.
func (p plan) live() plan {
	for i := range p.ops {
		p.ops[i].take, p.ops[i].give = nil, nil
	}
	deriveLives(p.ops)
	if !slices.ContainsFunc(p.ops, func(o operation) bool { return slices.Contains(o.blocks(), bNext) }) { // the step ends in it all the same
		p.ops[0].take = append(p.ops[0].take, bNext)
	}
	return p
}

// rows are the rows of a block that an operation reads for the row at r of its own rows.
func (o *operation) rows(id blockID, r, n int) []int {
	if !id.isWholeGrid() {
		return []int{r}
	}
	at := o.first/n + r
	if o.name == "step" || o.Kernel == neighboursKernel.Name || o.Kernel == walkKernel.Name && o.axis == 0 {
		return []int{(at + n - 1) % n, at, (at + 1) % n}
	}
	return []int{at}
}

// values are what the plan leaves in every row of the two states, as the expression of
// operations and first rows that made it. Two plans with the same expressions compute the same,
// whatever the operations are; only that excuses a mutation from being seen.
func (p plan) values(n int) string {
	type place struct {
		id  blockID
		row int
	}
	memory := map[place]uint64{}
	at := func(id blockID, row int) uint64 {
		if v, ok := memory[place{id, row}]; ok {
			return v
		}
		return maphash.String(valuesSeed, fmt.Sprint("before ", id, row))
	}
	for i := range p.ops {
		o := &p.ops[i]
		if p.numbers[i] == nothing {
			continue
		}
		wrote := map[place]uint64{}
		for r := range o.cells / n {
			text := fmt.Sprint(p.numbers[i], " row ", r)
			for _, id := range o.in {
				for _, row := range o.rows(id, r, n) {
					text += fmt.Sprint(" ", at(id, row))
				}
			}
			to := place{o.out, r}
			if o.out.isWholeGrid() {
				to.row = o.first/n + r
			}
			wrote[to] = maphash.String(valuesSeed, text)
		}
		for k, v := range wrote {
			memory[k] = v
		}
	}
	out := ""
	for row := range n {
		out += fmt.Sprint(at(bNext, row), at(bState, row), " ")
	}
	return out
}

var valuesSeed = maphash.MakeSeed()

// seen reports whether the check of a session whose plan was changed finds it, as a failed
// comparison or as an error of the step.
func seen(t *testing.T, d device.Device, c workloads.Config, change func(plan) plan) (ok bool, by string) {
	t.Helper()
	s, err := newSession(d, c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	s.ops = change(planOf(s.ops)).live().ops
	if err := s.startSession(context.Background()); err != nil {
		return true, err.Error()
	}
	checks, err := s.Check(context.Background())
	if err != nil {
		return true, err.Error()
	}
	var failed []string
	for _, c := range checks {
		if !c.Pass {
			failed = append(failed, c.Stage)
		}
	}
	return len(failed) > 0, strings.Join(failed, ", ")
}

// mutate runs every mutation of a setting's plan. Those that compute the same are not seen,
// all others are.
func mutate(t *testing.T, d device.Device, settings []string) {
	t.Helper()
	c := resolve(t, "small", settings...)
	s, err := newSession(d, c)
	if err != nil {
		t.Fatal(err)
	}
	whole, n := planOf(s.ops), s.shape.N
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for i, o := range planOf(whole.ops).live().ops {
		if !sameBlocks(o.take, whole.ops[i].take) || !sameBlocks(o.give, whole.ops[i].give) {
			t.Errorf("operation %d %s takes %v and gives %v, by what it reads and writes it should %v and %v",
				i, o.name, whole.ops[i].take, whole.ops[i].give, o.take, o.give)
		}
	}
	if found, by := seen(t, d, c, func(p plan) plan { return p }); found {
		t.Fatalf("the unchanged plan fails: %s", by)
	}
	want := whole.values(n)
	tried, same := 0, 0
	for k, m := range whole.mutations() {
		if !nightly && k%4 != 0 {
			continue // by day every fourth mutation of each setting
		}
		equal := m.values(n) == want
		if tried++; equal {
			same++
		}
		switch found, by := seen(t, d, c, func(p plan) plan { return p.mutations()[k] }); {
		case equal && found:
			t.Errorf("%s: computes the same, but fails %s", m.name, by)
		case !equal && !found:
			t.Errorf("%s: passes every check", m.name)
		}
	}
	t.Logf("%d mutations: %d change a result and fail a check, %d compute the same", tried, tried-same, same)
}

func sameBlocks(a, b []blockID) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// Every mutation of every plan fails the checks of its session. Autotuning is left out: it
// binds the same plan with another tile.
func TestMutations(t *testing.T) {
	for _, set := range variants() {
		if strings.Contains(set, "autotune") || strings.Contains(set, "grid=192") {
			continue
		}
		t.Run(set, func(t *testing.T) { mutate(t, openHost(t, host.Options{}), tinyGrid(set)) })
	}
}

// The same on the CUDA device, where a graph is one of the driver and products can be cuBLAS's.
func TestMutationsOnCUDA(t *testing.T) {
	for _, tt := range []struct {
		libraries bool
		set       string
	}{
		{false, "impl=fused"}, {false, "impl=gemm"}, {false, "impl=split,layout=hwc"},
		{false, "graph=on,impl=gemm,layout=hwc,precision=bf16"}, {false, "law=walk,impl=split,chunk=7"},
		{true, "impl=gemm,chunk=5"},
	} {
		t.Run(tt.set, func(t *testing.T) { mutate(t, openSimulated(t, tt.libraries), tinyGrid(tt.set)) })
	}
}
