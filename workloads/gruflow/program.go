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
	loop.Binder
	stream   device.Stream
	memory   *pool.Pool // pool of the scratch memory
	segments *op.Segments
	scratch  []scratchBlock
	// fill fills every scratch block with NaN when it is taken. poison does the same for a check, and its cost is not
	// counted.
	fill, poison bool
	filler       launch
	// watch runs before every time step of a group, for a check; may be nil.
	watch func(g *group, t int) error
	// rings maps a buffer to its instances of equal size, which successive windows use in turn. Every list has turns
	// entries; turn is the index for the current window. windows counts completed windows.
	rings                map[device.Buffer][]device.Buffer
	turns, turn, windows int
}

type scratchBlock struct {
	what  string
	bytes int64
	buf   device.Buffer // segment that holds the block since the last acquire
	at    int64
	lent  *pool.Block
}

// scratchRef is the index of a scratch block, as an argument of a launch. A block has one life in a list of groups, so
// that each use of memory reserves its own.
type scratchRef int

// walking is an integer argument that grows by stride at every time step.
type walking struct{ base, stride int }

// moving is an argument in a buffer or scratch block. It begins at byte at, plus by for every time step.
type moving struct {
	arg    any
	at, by int64
}

// launch is one kernel with its arguments.
type launch struct {
	fn     device.Func
	kernel string
	n      int
	args   device.Args
	uses   []use
	walks  []walkArg
	moves  []moveArg
	cost   gpuprof.Cost
}

type moveArg struct {
	arg int
	moving
	ring []device.Buffer // the buffer's instances, one per window; nil if there is only one
}

type use struct {
	arg   int
	block scratchRef
}

type walkArg struct {
	arg int
	walking
}

// group is the work of one span of a stage: the launches in once, then those in each for every time step, then lib,
// then those in after.
type group struct {
	stage, layer int
	level, micro int         // in training: index of the level in the window, and of the micro-batch
	add          bool        // adds to the existing gradients
	part         *optim.Part // part of the optimizer's step
	take, give   []scratchRef
	// Scratch blocks that a check reads, of the backward pass: cotangents of the gates, of the output and of the input.
	gx, gh, dout, dx scratchRef
	once, each       []launch
	repeat           int
	lib              device.Op // the library's GRU or a bound operation; runs after each
	after            []launch
	minimum          gpuprof.Cost
}

func newProgram(dev device.Device, stream device.Stream) *program {
	segments := op.NewSegments(dev, nil)
	p := &program{stream: stream, memory: pool.New(pool.Settings{}, segments), segments: segments, Binder: loop.Binder{Dev: dev}}
	p.filler = p.launch(&fillKernel, 0, gpuprof.Cost{}, gruFillArgs{
		out: scratchRef(0), n: 0, value: float32(math.NaN()),
	})
	return p
}

// reserve declares a scratch block of n floats.
func (p *program) reserve(what string, n int64) scratchRef {
	p.scratch = append(p.scratch, scratchBlock{what: what, bytes: 4 * n})
	return scratchRef(len(p.scratch) - 1)
}

// launch makes a launch of kern over n items. args may hold, in addition to what loop.Binder accepts, a scratchRef or a
// moving as a device.Ref, and a walking as a device.Num. A buffer in a ring is replaced by the current window's
// instance.
func (p *program) launch(kern *device.Kernel, n int, cost gpuprof.Cost, args any) launch {
	cost.Launches = 1
	l := launch{kernel: kern.Name, n: n, cost: cost}
	l.fn = p.Bind(kern, &l.args, func(i int, arg any) byte {
		switch v := arg.(type) {
		case scratchRef:
			l.uses = append(l.uses, use{i, v})
			return 'b'
		case walking:
			l.walks = append(l.walks, walkArg{i, v})
			return 'i'
		case moving:
			b, _ := v.arg.(device.Buffer)
			l.moves = append(l.moves, moveArg{i, v, p.rings[b]})
			return 'b'
		case device.Buffer:
			return p.moveInRing(&l, i, v, 0)
		case loop.View:
			return p.moveInRing(&l, i, v.Buf, 4*int64(v.At))
		}
		return 0
	}, args)
	return l
}

// moveInRing makes argument i a moving argument, from byte at of its buffer on, if the buffer is in a ring.
func (p *program) moveInRing(l *launch, i int, b device.Buffer, at int64) byte {
	ring := p.rings[b]
	if ring == nil {
		return 0
	}
	l.moves = append(l.moves, moveArg{i, moving{arg: b, at: at}, ring})
	return 'b'
}

func (p *program) current(b device.Buffer) device.Buffer {
	if ring := p.rings[b]; ring != nil {
		return ring[p.turn]
	}
	return b
}

// run takes a group's scratch memory, enqueues its launches, and returns the memory that no later group needs. It does
// not wait, and if the pool holds enough memory it does not allocate.
func (p *program) run(g *group) error {
	if p.turns > 1 {
		p.turn = (p.windows + g.micro) % p.turns
	}
	for _, ref := range g.take {
		if err := p.takeBlock(ref); err != nil {
			return err
		}
	}
	for i := range g.once {
		if err := p.enqueue(&g.once[i], 0); err != nil {
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
			if err := p.enqueue(&g.each[i], t); err != nil {
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
		if err := p.enqueue(&g.after[i], 0); err != nil {
			return err
		}
	}
	for _, ref := range g.give {
		p.memory.Give(p.scratch[ref].lent)
	}
	return nil
}

// blocks returns the scratch blocks that the group's launches use, in the order in which they were reserved.
func (g *group) blocks() (all []scratchRef) {
	for _, l := range slices.Concat(g.once, g.each, g.after) {
		for _, u := range l.uses {
			all = append(all, u.block)
		}
		for _, m := range l.moves {
			if ref, ok := m.moving.arg.(scratchRef); ok {
				all = append(all, ref)
			}
		}
	}
	slices.Sort(all)
	return all
}

// deriveLives sets the scratch blocks that each group takes and gives.
func deriveLives(groups []group) {
	loop.Lifetimes(len(groups), func(i int) []scratchRef { return groups[i].blocks() },
		func(i int, ref scratchRef) { groups[i].take = append(groups[i].take, ref) },
		func(i int, ref scratchRef) { groups[i].give = append(groups[i].give, ref) })
}

// acquire takes a scratch block from the pool. Enqueued launches may still use the same memory, which is safe because
// all launches are on one stream.
func (p *program) acquire(ref scratchRef) error {
	b := &p.scratch[ref]
	lent, err := p.memory.Take(b.bytes, 0, 0)
	if err != nil {
		return fmt.Errorf("taking scratch memory for %s: %w", b.what, err)
	}
	b.lent, b.buf, b.at = lent, p.segments.Of(lent), lent.Offset
	return nil
}

func (p *program) takeBlock(ref scratchRef) error {
	if err := p.acquire(ref); err != nil {
		return err
	}
	if !p.fill && !p.poison {
		return nil
	}
	b := &p.scratch[ref]
	return p.fillBuffer(b.buf, b.at, int(b.bytes/4))
}

func (p *program) fillBuffer(b device.Buffer, at int64, n int) error {
	a := device.View[gruFillView](&p.filler.args)
	a.out.Set(b, at)
	a.n.Set(n)
	return p.stream.Launch(p.filler.fn, n, &p.filler.args)
}

func (p *program) enqueue(l *launch, t int) error {
	for _, u := range l.uses {
		l.args.SetBufAt(u.arg, p.scratch[u.block].buf, p.scratch[u.block].at)
	}
	for _, m := range l.moves {
		at := m.at + int64(t)*m.by
		switch v := m.moving.arg.(type) {
		case scratchRef:
			l.args.SetBufAt(m.arg, p.scratch[v].buf, p.scratch[v].at+at)
		case device.Buffer:
			if m.ring != nil {
				v = m.ring[p.turn]
			}
			l.args.SetBufAt(m.arg, v, at)
		}
	}
	for _, w := range l.walks {
		l.args.SetInt(w.arg, w.base+t*w.stride)
	}
	return p.stream.Launch(l.fn, l.n, &l.args)
}

// warmPool takes and returns the groups' scratch memory once, so that the first step finds it reserved.
func (p *program) warmPool(groups []group) error {
	for i := range groups {
		for _, ref := range groups[i].take {
			if err := p.acquire(ref); err != nil {
				return err
			}
		}
		for _, ref := range groups[i].give {
			p.memory.Give(p.scratch[ref].lent)
		}
	}
	return nil
}

// partsOf returns a group's launches in order, including the fills of knob fill.
func (p *program) partsOf(g *group) []gpuprof.Part {
	var out []gpuprof.Part
	if p.fill {
		for _, ref := range g.take {
			c := fillCost(int(p.scratch[ref].bytes / 4))
			c.Launches = 1
			out = append(out, gpuprof.Part{Kernel: p.filler.kernel, Cost: c})
		}
	}
	add := func(ls []launch) {
		for i := range ls {
			out = append(out, gpuprof.Part{Kernel: ls[i].kernel, Cost: ls[i].cost})
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
