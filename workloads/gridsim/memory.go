package gridsim

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

type blockID int

const (
	bState   blockID = iota // state before the step
	bNext                   // state after the step
	bK                      // mean of the neighbours
	bP                      // input of the network: psi and K psi
	bA                      // hidden units before the activation
	bH                      // hidden units after the activation
	bDelta                  // output of the network
	bU                      // state before normalisation
	bSquare                 // squares of bU
	bSum                    // sum of bSquare over channels
	bRoot                   // square root of bSum
	bBetween                // law walk between its two axes
	bRegion                 // a region of a state
	blockCount
)

var blockNames = [blockCount]string{"a state", "a state", "the neighbours' means", "the network's input", "hidden units", "hidden units",
	"the network's output", "the state before it is normalised", "squares", "sums", "roots", "the state between two axes", "a region"}

// ref returns the block as an argument of a launch.
func (id blockID) ref() op.Ref { return op.Ref{Block: int(id)} }

// isWholeGrid reports whether a block holds the whole grid; the others hold one chunk of rows.
func (id blockID) isWholeGrid() bool { return id == bState || id == bNext || id == bBetween }

// deriveLives sets each operation's take and give. A chunk's blocks are allocated and freed within the chunk. The state
// exists before the first operation, and the next state remains after the last one.
func deriveLives(ops []operation) {
	type life struct {
		id    blockID
		first int // of the chunk's cells; 0 for the whole grid
	}
	loop.Lifetimes(len(ops), func(i int) (all []life) {
		for _, id := range ops[i].blocks() {
			l := life{id, ops[i].first}
			if id.isWholeGrid() {
				l.first = 0
			}
			all = append(all, l)
		}
		return all
	}, func(i int, l life) {
		if l.id != bState {
			ops[i].take = append(ops[i].take, l.id)
		}
	}, func(i int, l life) {
		if l.id != bState && l.id != bNext {
			ops[i].give = append(ops[i].give, l.id)
		}
	})
}

// block is device memory: the part of buf that begins at element at. words is its number of elements.
type block struct {
	buf    device.Buffer
	at     int
	words  int64
	id     blockID
	handle any // the allocator's handle

	number int32 // number of its request, where requests are recorded
}

// memory allocates (take) and frees (give) the blocks of a step. A freed block may be taken again while launches that
// use it are still queued, because all launches are on one stream.
type memory interface {
	take(id blockID, words int64) (block, error)
	give(b block) error
	trim() error
	counts() counts
	resetPeak()
	close() error
}

// counts are an allocator's counters, in bytes and in driver calls.
type counts struct {
	inUse, reserved, largestIdle int64
	peakInUse, peakReserved      int64
	allocs, frees                int
}

// arena is the memory that allocates every block at the start.
type arena struct {
	mem  op.Arena
	idle [blockCount][]block
	c    counts
}

// newArena allocates count blocks of each kind, each with the largest size needed.
func newArena(dev device.Device, need [blockCount]int64, count [blockCount]int) (*arena, error) {
	a := &arena{mem: op.Arena{Dev: dev}}
	for id := range blockCount {
		if need[id] == 0 {
			continue
		}
		for range count[id] {
			b := block{buf: a.mem.Words(blockNames[id], need[id], device.OnDevice), words: need[id], id: id}
			a.idle[id] = append(a.idle[id], b)
			a.c.reserved += 4 * need[id]
			a.c.allocs++
		}
	}
	a.c.peakReserved = a.c.reserved
	return a, a.mem.Err
}

// shelfOf returns the index of the free list, in arena.idle, for a kind of block. The state and the next state share
// one list.
func shelfOf(id blockID) blockID {
	if id == bNext {
		return bState
	}
	return id
}

func (a *arena) take(id blockID, words int64) (block, error) {
	free := &a.idle[shelfOf(id)]
	if len(*free) == 0 || (*free)[len(*free)-1].words < words {
		return block{}, gpuprof.Errorf(gpuprof.ErrDevice, "taking %s from the arena: it holds none of %d bytes", blockNames[id], 4*words).WithFix("report it as a defect of the workload")
	}
	b := (*free)[len(*free)-1]
	*free = (*free)[:len(*free)-1]
	a.c.inUse += 4 * b.words
	a.c.peakInUse = max(a.c.peakInUse, a.c.inUse)
	return b, nil
}

func (a *arena) give(b block) error {
	a.c.inUse -= 4 * b.words
	a.idle[b.id] = append(a.idle[b.id], b)
	return nil
}

func (a *arena) trim() error { return nil }

func (a *arena) counts() counts {
	c := a.c
	for _, list := range a.idle {
		for _, b := range list {
			c.largestIdle = max(c.largestIdle, 4*b.words)
		}
	}
	return c
}

func (a *arena) resetPeak()   { a.c.peakInUse = a.c.inUse }
func (a *arena) close() error { return a.mem.Free() }

// direct is the memory that calls the driver to allocate and free every block.
type direct struct {
	mem op.Arena
	c   counts
}

func (d *direct) take(id blockID, words int64) (block, error) {
	b := d.mem.Words(blockNames[id], words, device.OnDevice)
	if d.mem.Err != nil {
		return block{}, d.mem.Err
	}
	d.c.allocs++
	d.c.inUse += int64(b.Len())
	d.c.reserved = d.c.inUse
	d.c.peakInUse = max(d.c.peakInUse, d.c.inUse)
	d.c.peakReserved = d.c.peakInUse
	return block{buf: b, words: words, id: id}, nil
}

func (d *direct) give(b block) error {
	d.c.frees++
	d.c.inUse -= int64(b.buf.Len())
	d.c.reserved = d.c.inUse
	return d.mem.Drop(b.buf)
}

func (d *direct) trim() error    { return nil }
func (d *direct) counts() counts { return d.c }
func (d *direct) resetPeak()     { d.c.peakInUse, d.c.peakReserved = d.c.inUse, d.c.reserved }
func (d *direct) close() error   { return d.mem.Free() }
