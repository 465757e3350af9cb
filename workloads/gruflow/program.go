package gruflow

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/pool"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// program is a list of launches on one device. When a group of launches runs, it takes scratch memory for its arguments
// from the pool.
type program struct {
	op.Binder
	stream   device.Stream
	memory   *pool.Pool // pool of the scratch memory
	segments *op.Segments
	scratch  []scratchBlock
	// fill fills every scratch block with NaN when it is taken. poison does the same for a check, and its cost is not
	// counted.
	fill, poison bool
	filler       op.Call
	// watch runs before every time step of a group, for a check; may be nil.
	watch func(g *group, t int) error
	// A buffer may have several copies, a ring in op.Binder. turns is the number of copies; each window uses the next one.
	// windows counts completed windows.
	turns, windows int
}

type scratchBlock struct {
	what  string
	bytes int64
	buf   device.Buffer // segment that holds the block since the last acquire
	at    int64
	lent  *pool.Block
}

// group is the work of one span of a stage. It runs the launches in once, then the launches in each for every time
// step, then lib, then the launches in after.
type group struct {
	stage, layer int
	level, micro int         // in training: index of the level in the window, and of the micro-batch
	add          bool        // adds to the existing gradients
	part         *optim.Part // part of the optimizer's step
	take, give   []int       // scratch blocks, by index: taken before the launches, returned after them
	// Scratch blocks that a check reads, of the backward pass: cotangents of the gates, of the output and of the input.
	gx, gh, dout, dx op.Ref
	once, each       []op.Call
	repeat           int
	lib              device.Op // the library's GRU or a bound operation; runs after each
	after            []op.Call
	minimum          gpuprof.Cost
}

func newProgram(dev device.Device, stream device.Stream) *program {
	segments := op.NewSegments(dev, nil)
	p := &program{stream: stream, memory: pool.New(pool.Settings{}, segments), segments: segments, Binder: op.Binder{Dev: dev}}
	p.Place = func(block int) (device.Buffer, int64) { return p.scratch[block].buf, p.scratch[block].at }
	p.filler = p.Bind(&fillKernel, 0, gpuprof.Cost{}, gruFillArgs{out: op.Ref{}, n: 0, value: float32(math.NaN())})
	return p
}

// reserve declares a scratch block of n floats. A block has only one lifetime in a list of groups, so each use of
// scratch memory reserves a block of its own.
func (p *program) reserve(what string, n int64) op.Ref {
	p.scratch = append(p.scratch, scratchBlock{what: what, bytes: 4 * n})
	return op.Ref{Block: len(p.scratch) - 1}
}

func (p *program) current(b device.Buffer) device.Buffer {
	if ring := p.Rings[b]; ring != nil {
		return ring[p.Turn]
	}
	return b
}

// run takes a group's scratch memory, enqueues its launches, and returns the memory that no later group needs. It does
// not wait, and if the pool holds enough memory it does not allocate.
func (p *program) run(g *group) error {
	if p.turns > 1 {
		p.Turn = (p.windows + g.micro) % p.turns
	}
	for _, block := range g.take {
		if err := p.takeBlock(block); err != nil {
			return err
		}
	}
	for i := range g.once {
		if err := p.Enqueue(p.stream, &g.once[i], 0); err != nil {
			return err
		}
	}
	for t := range g.repeat {
		if p.watch != nil {
			if err := p.watch(g, t); err != nil {
				return err
			}
		}
		for i := range g.each {
			if err := p.Enqueue(p.stream, &g.each[i], t); err != nil {
				return err
			}
		}
	}
	if g.lib != nil {
		if err := g.lib.Enqueue(p.stream); err != nil {
			return err
		}
	}
	for i := range g.after {
		if err := p.Enqueue(p.stream, &g.after[i], 0); err != nil {
			return err
		}
	}
	for _, block := range g.give {
		p.memory.Give(p.scratch[block].lent)
	}
	return nil
}

// blocks returns the scratch blocks that the group's launches use, in the order in which they were reserved.
func (g *group) blocks() (all []int) {
	for _, c := range slices.Concat(g.once, g.each, g.after) {
		for _, r := range c.Refs {
			if r.Buf == nil {
				all = append(all, r.Block)
			}
		}
	}
	slices.Sort(all)
	return all
}

// deriveLives sets the scratch blocks that each group takes and gives.
func deriveLives(groups []group) {
	loop.Lifetimes(len(groups), func(i int) []int { return groups[i].blocks() },
		func(i, block int) { groups[i].take = append(groups[i].take, block) },
		func(i, block int) { groups[i].give = append(groups[i].give, block) })
}

// acquire takes a scratch block from the pool. Enqueued launches may still use the same memory, which is safe because
// all launches are on one stream.
func (p *program) acquire(block int) error {
	b := &p.scratch[block]
	lent, err := p.memory.Take(b.bytes, 0, 0)
	if err != nil {
		return fmt.Errorf("taking scratch memory for %s: %w", b.what, err)
	}
	b.lent, b.buf, b.at = lent, p.segments.Of(lent), lent.Offset
	return nil
}

func (p *program) takeBlock(block int) error {
	if err := p.acquire(block); err != nil {
		return err
	}
	if !p.fill && !p.poison {
		return nil
	}
	b := &p.scratch[block]
	return p.fillBuffer(b.buf, b.at, int(b.bytes/4))
}

func (p *program) fillBuffer(b device.Buffer, at int64, n int) error {
	a := device.View[gruFillView](&p.filler.Args)
	a.out.Set(b, at)
	a.n.Set(n)
	return p.stream.Launch(p.filler.Func, n, &p.filler.Args)
}

// warmPool takes and returns the groups' scratch memory once, so that the first step finds it reserved.
func (p *program) warmPool(groups []group) error {
	for i := range groups {
		for _, block := range groups[i].take {
			if err := p.acquire(block); err != nil {
				return err
			}
		}
		for _, block := range groups[i].give {
			p.memory.Give(p.scratch[block].lent)
		}
	}
	return nil
}

// partsOf returns a group's launches in order, including the fills of knob fill.
func (p *program) partsOf(g *group) []gpuprof.Part {
	var out []gpuprof.Part
	if p.fill {
		for _, block := range g.take {
			c := fillCost(int(p.scratch[block].bytes / 4))
			c.Launches = 1
			out = append(out, gpuprof.Part{Kernel: p.filler.Kernel, Cost: c})
		}
	}
	add := func(calls []op.Call) {
		for i := range calls {
			out = append(out, gpuprof.Part{Kernel: calls[i].Kernel, Cost: calls[i].Cost})
		}
	}
	add(g.once)
	for range g.repeat {
		add(g.each)
	}
	if g.lib != nil {
		out = append(out, g.lib.Parts()...)
	}
	add(g.after)
	return out
}
