package memsnap

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gpuprof/gpuprof/internal/outside"
)

// kindOf is what a value of the pickle's stack is.
type kindOf uint8

// The kinds up to vSpent can be referred to again. Number, truth and fraction cannot:
// no writer puts them among what it refers to.
const (
	vNone kindOf = iota
	vText
	vFrame
	vStack
	vPair
	vOther // complete, and of no use here
	vOpen  // a list or dictionary that is not complete; v is its index
	vSpent // what was complete when it was first met
	vNumber
	vTruth
	vFraction
	vEvent
	vBlock
	vSegment
	vNote
	vSettings
	vRound
	vList // a complete list of other values, by its index
	vTrace
	vRoot
)

type value struct {
	k kindOf
	v uint64
}

// container is a list or a dictionary until it is complete.
type container struct {
	dict  bool
	memo  int     // where others refer to it, -1 nowhere
	at    int     // its place on the stack
	items []value // of a list; many events or blocks in a row are one item
	paid  int     // items that memory was counted for
	count int     // of events, blocks or segments
	first int     // of a list of segments: its first one
	trace int     // of a list of events: its number from 1 on
}

// machine is the part of a pickle machine that snapshots need.
type machine struct {
	s     *Snapshot
	in    *window
	room  int64 // bytes that are left
	all   int64 // bytes that there were
	stack []value
	marks []int
	open  []container
	spare []int // free entries of open
	memo  column[uint32]
	spent []int // entries of each chunk of the memo that cannot be referred to again
	root  bool
	own   int // where the dictionary stands that is being completed

	ids      map[string]uint32
	key      []key    // by string
	action   []Action // by string
	set      members  // of the dictionary that is being completed
	frames   map[frame]uint32
	stacks   map[uint64][]uint32
	pairs    map[[2]uint64]uint32
	pair     [][2]uint64
	lastAt   place // the place that was asked for last, and its number
	lastID   uint32
	places   map[place]uint32
	origins  map[origin]uint32
	made     []uint32 // by stack: the origin of its last allocation
	freed    []uint32 // by origin: the one that its last allocation had when it was freed
	actions  map[string]Action
	live     liveRows // of the trace that is read
	last     int64    // its last time
	blocks   int      // blocks that no segment has yet
	rounding [16]uint64
}

func newMachine(ctx context.Context, r io.Reader, room int64) *machine {
	m := &machine{
		s: &Snapshot{times: map[int]int64{}}, in: newWindow(ctx, r), room: room, all: room,
		ids: map[string]uint32{}, frames: map[frame]uint32{}, stacks: map[uint64][]uint32{}, pairs: map[[2]uint64]uint32{}, places: map[place]uint32{}, origins: map[origin]uint32{}, actions: actions(),
	}
	// The text, the stack and the place of what has none. Memory is counted from then on.
	_, _ = m.text(nil)
	_, _ = m.stackOf(nil)
	m.placeOf(place{})
	m.originOf(origin{}, new(uint32))
	m.room = room
	return m
}

// take counts memory.
func (m *machine) take(bytes int) error {
	if m.room -= int64(bytes); m.room < 0 {
		return &outside.TooLarge{What: "its events take more than " + outside.MemoryText(m.all), Memory: m.all}
	}
	return nil
}

// Opcodes, as the documentation of Python's pickletools calls them.
const (
	opProto    = 0x80
	opFrame    = 0x95
	opMemoize  = 0x94
	opText1    = 0x8c
	opText8    = 0x8d
	opLong1    = 0x8a
	opLong4    = 0x8b
	opTrue     = 0x88
	opFalse    = 0x89
	opTuple1   = 0x85
	opTuple2   = 0x86
	opTuple3   = 0x87
	opFraction = 'G'
)

// run reads up to the end of the pickle.
func (m *machine) run() error {
	for {
		if m.in.p == m.in.e {
			if err := m.in.fill(1); err != nil {
				return err
			}
		}
		at, op := m.in.at(), m.in.buf[m.in.p]
		m.in.p++
		if op == 'h' && m.again() {
			continue
		}
		if op == '.' {
			return m.stop()
		}
		if err := m.step(op); err != nil {
			if _, large := errors.AsType[*outside.TooLarge](err); large || errors.Is(err, io.ErrUnexpectedEOF) || outside.Damaged(err) {
				return err
			}
			return fmt.Errorf("byte %d: %w", at, err)
		}
		if len(m.stack) > tallest {
			return fmt.Errorf("byte %d: more than %d values wait on its stack, and no snapshot has so many", at, tallest)
		}
	}
}

// step does one opcode.
func (m *machine) step(op byte) error {
	switch op {
	case '(':
		if len(m.marks) >= deepest {
			return fmt.Errorf("containers are more than %d levels deep, and no snapshot is", deepest)
		}
		m.marks = append(m.marks, len(m.stack))
	case '}', ']':
		return m.begin(op == '}')
	case 's':
		return m.setFrom(len(m.stack) - 2)
	case 'u':
		from, err := m.mark()
		if err != nil {
			return err
		}
		return m.setFrom(from)
	case 'a':
		return m.appendFrom(len(m.stack) - 1)
	case 'e':
		return m.toMark(m.appendFrom)
	case opMemoize:
		return m.put(uint64(m.memo.n))
	case 'q', 'r', 'h', 'j':
		return m.refer(op)
	case ')':
		m.push(vOther, 0)
	case 't':
		return m.toMark(m.tupleFrom)
	case opTuple1, opTuple2, opTuple3:
		return m.tupleFrom(len(m.stack) - int(op-opTuple1) - 1)
	case 'd', 'l':
		return m.toMark(func(from int) error { return m.gather(op == 'd', from) })
	default:
		return m.scalar(op)
	}
	return nil
}

func (m *machine) push(k kindOf, v uint64) { m.stack = append(m.stack, value{k, v}) }

// begin puts an empty container on the stack.
func (m *machine) begin(dict bool) error {
	i := len(m.open)
	if n := len(m.spare); n > 0 {
		i = m.spare[n-1]
		m.spare = m.spare[:n-1]
	} else {
		if i >= mostOpen {
			return fmt.Errorf("more than %d containers lie inside each other, and no snapshot has so many", mostOpen)
		}
		m.open = append(m.open, container{})
	}
	m.open[i] = container{dict: dict, memo: -1, at: len(m.stack), items: m.open[i].items[:0]}
	m.push(vOpen, uint64(i))
	return nil
}

// toMark does what needs the values after the last mark.
func (m *machine) toMark(do func(from int) error) error {
	from, err := m.mark()
	if err != nil {
		return err
	}
	return do(from)
}

// mark takes the last mark: the values after it are from there on.
func (m *machine) mark() (from int, err error) {
	if len(m.marks) == 0 {
		return 0, errors.New("it takes values from a mark that is not there")
	}
	if from = m.marks[len(m.marks)-1]; from > len(m.stack) {
		return 0, errors.New("it takes values from before a mark")
	}
	m.marks = m.marks[:len(m.marks)-1]
	return from, nil
}

// bottom is the first place of the stack that the values after the last mark have.
func (m *machine) bottom() int {
	if n := len(m.marks); n > 0 {
		return m.marks[n-1]
	}
	return 0
}

// target is the container below from that its values belong to.
func (m *machine) target(from int, dict bool) (int, error) {
	if from-1 < m.bottom() || m.stack[from-1].k != vOpen || m.open[m.stack[from-1].v].dict != dict {
		// A list of many events is done in parts, and other complete things take no more.
		return 0, errors.New("it adds values to what is no open list or dictionary")
	}
	return int(m.stack[from-1].v), nil
}

// setFrom completes the dictionary below from, which the pairs from there on are put in.
func (m *machine) setFrom(from int) error {
	if from >= 1 && from-1 >= m.bottom() && from < len(m.stack) && m.stack[from-1].k == vOther {
		m.dropFrom(from) // more of a large dictionary that is of no use
		return nil
	}
	i, err := m.target(from, true)
	if err != nil {
		return err
	}
	if (len(m.stack)-from)%2 != 0 {
		return errors.New("a dictionary has a key without a value")
	}
	m.own = from - 1
	v, err := m.dictionary(m.stack[from:])
	if err != nil {
		return err
	}
	m.dropFrom(from)
	m.stack[from-1] = m.done(i, v)
	m.merge()
	return nil
}

// merge makes many events, or blocks, in a row one value of the stack.
func (m *machine) merge() {
	n := len(m.stack)
	if n-2 >= m.bottom() && m.stack[n-1].k == m.stack[n-2].k && (m.stack[n-1].k == vEvent || m.stack[n-1].k == vBlock || m.stack[n-1].k == vSegment) {
		m.stack[n-2].v += m.stack[n-1].v
		m.stack = m.stack[:n-1]
	}
}

// appendFrom adds the values from there on to the list below.
func (m *machine) appendFrom(from int) error {
	if from > len(m.stack) || from < 1 {
		return errors.New("it adds values that are not there")
	}
	i, err := m.target(from, false)
	if err != nil {
		return err
	}
	for _, v := range m.stack[from:] {
		if v, err = m.settled(v); err != nil {
			return err
		}
		o := &m.open[i]
		switch v.k {
		case vEvent, vBlock, vSegment:
			if o.count == 0 {
				o.first = len(m.s.Segments) - int(v.v)
			}
			o.count += int(v.v)
			if len(o.items) > 0 && o.items[len(o.items)-1].k == v.k {
				continue
			}
		case vNumber: // two are a pair, as a tuple of them is
			if n := len(o.items); n == 0 || n == 1 && o.items[0].k == vNumber {
				break
			}
			o.addOther()
			continue
		case vOther, vNone, vTruth, vFraction:
			o.addOther()
			continue
		default:
			o.paid++
			if err := m.take(16); err != nil {
				return err
			}
		}
		o.items = append(o.items, v)
	}
	m.stack = m.stack[:from]
	return nil
}

// addOther adds a value of no use; several in a row are one item.
func (o *container) addOther() {
	if n := len(o.items); n == 0 || o.items[n-1].k != vOther {
		o.items = append(o.items, value{k: vOther})
	}
}

// gather makes a container of the values from there on, as protocol 0 writes them.
func (m *machine) gather(dict bool, from int) error {
	values := append([]value(nil), m.stack[from:]...)
	m.stack = m.stack[:from]
	if err := m.begin(dict); err != nil {
		return err
	}
	m.stack = append(m.stack, values...)
	if len(values) == 0 {
		return nil
	}
	if dict {
		return m.setFrom(from + 1)
	}
	return m.appendFrom(from + 1)
}

// dropFrom takes values off the stack, and the containers among them out of use.
func (m *machine) dropFrom(from int) {
	for _, v := range m.stack[from:] {
		if v.k == vOpen || v.k == vList {
			m.done(int(v.v), value{k: vOther})
		}
	}
	m.stack = m.stack[:from]
}

// done ends a container: it is v from now on, for what refers to it as well.
func (m *machine) done(i int, v value) value {
	o := &m.open[i]
	if o.memo >= 0 {
		m.renumber(o.memo, packed(v))
		o.memo = -1
	}
	m.room += int64(16 * o.paid)
	for _, inner := range o.items {
		if inner.k == vList && inner.v != uint64(i) {
			m.done(int(inner.v), value{k: vOther})
		}
	}
	if cap(o.items) > 1<<10 {
		o.items = nil
	}
	o.items, o.paid = o.items[:0], 0
	m.spare = append(m.spare, i)
	return v
}

// tupleFrom makes a tuple of the values from there on: a pair of numbers is kept.
func (m *machine) tupleFrom(from int) error {
	if from < m.bottom() || from > len(m.stack) {
		return errors.New("it makes a tuple of values that are not there")
	}
	v := value{k: vOther}
	if t := m.stack[from:]; isPair(t) {
		var err error
		if v, err = m.internPair(t); err != nil {
			return err
		}
	}
	m.dropFrom(from)
	m.stack = append(m.stack, v)
	return nil
}

func isPair(items []value) bool {
	return len(items) == 2 && items[0].k == vNumber && items[1].k == vNumber
}

// internPair keeps a pair of numbers once.
func (m *machine) internPair(items []value) (value, error) {
	p := [2]uint64{items[0].v, items[1].v}
	id, ok := m.pairs[p]
	if !ok {
		id = uint32(len(m.pair))
		if err := m.take(64); err != nil {
			return value{}, err
		}
		m.pairs[p], m.pair = id, append(m.pair, p)
	}
	return value{vPair, uint64(id)}, nil
}

// stop ends the pickle with its one value.
func (m *machine) stop() error {
	if len(m.stack) != 1 || len(m.marks) != 0 {
		return errors.New("the pickle ends with values left on its stack")
	}
	v := m.stack[0]
	if v.k == vOpen && !m.open[v.v].dict { // of torch.cuda.memory_snapshot()
		return m.segments(v)
	}
	return nil
}
