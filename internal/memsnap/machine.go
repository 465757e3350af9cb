package memsnap

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gpuprof/gpuprof/internal/outside"
)

// valueKind is the kind of a value on the pickle's stack.
type valueKind uint8

// A pickle stores values in a memo, to which later opcodes refer. The memo keeps only kinds before vSpent, and
// references to other kinds fail: Python's pickle modules never store integers, booleans or floats in the memo.
const (
	vNone valueKind = iota
	vText
	vFrame
	vStack
	vPair
	vOther // complete and not needed
	vOpen  // incomplete list or dictionary; v is its index in open
	vSpent // complete when first read, no longer available
	vNumber
	vTruth
	vFraction
	vEvent
	vBlock
	vSegment
	vNote
	vSettings
	vRound
	vList // complete list of other values; v is its index
	vTrace
	vRoot
)

// value is an entry of the pickle's stack: its kind, and a number, identifier or index that depends on the kind.
type value struct {
	k valueKind
	v uint64
}

// container is a list or a dictionary until it is complete.
type container struct {
	dict  bool
	memo  int     // memo entry, -1 none
	at    int     // index on the stack
	items []value // of a list; consecutive events or blocks are one item
	paid  int     // items whose memory is counted
	count int     // of events, blocks or segments
	first int     // first segment of a segment list
	trace int     // number of an event list, from 1
}

// machine executes the subset of pickle that snapshots need.
type machine struct {
	s     *Snapshot
	in    *window
	room  int64 // remaining memory, bytes
	all   int64 // total memory, bytes
	stack []value
	marks []int
	open  []container
	spare []int // free entries of open
	memo  column[uint32]
	spent []int // spent entries in each chunk of the memo
	root  bool
	own   int // index of the dictionary being completed

	ids      map[string]uint32
	key      []key    // by string
	action   []Action // by string
	set      members  // of the dictionary being completed
	frames   map[frame]uint32
	stacks   map[uint64][]uint32
	pairs    map[[2]uint64]uint32
	pair     [][2]uint64
	lastAt   place // last place looked up, and its number
	lastID   uint32
	places   map[place]uint32
	origins  map[origin]uint32
	made     []uint32 // by stack: origin of its last allocation
	freed    []uint32 // by origin: origin of its last freed allocation
	actions  map[string]Action
	keys     map[string]key
	live     liveRows // of the current trace
	last     int64    // of the current trace
	blocks   int      // without a segment so far
	rounding [16]uint64
}

func newMachine(ctx context.Context, r io.Reader, room int64) *machine {
	m := &machine{
		s: &Snapshot{times: map[int]int64{}}, in: &window{ctx: ctx, r: r, buf: make([]byte, blockSize+spare)}, room: room, all: room,
		ids: map[string]uint32{}, frames: map[frame]uint32{}, stacks: map[uint64][]uint32{}, pairs: map[[2]uint64]uint32{}, places: map[place]uint32{}, origins: map[origin]uint32{}, actions: actionNames(), keys: keyNames(),
	}
	// The empty text, stack, place and origin get number 0; they do not count as memory.
	_, _ = m.internText(nil)
	_, _ = m.internStack(nil)
	m.internPlace(place{})
	m.internOrigin(origin{}, new(uint32))
	m.room = room
	return m
}

func (m *machine) countMemory(bytes int) error {
	if m.room -= int64(bytes); m.room < 0 {
		return &outside.TooLarge{What: "its events take more than " + outside.MemoryText(m.all), Memory: m.all}
	}
	return nil
}

// Opcodes, by their names in Python's pickletools.
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

// run executes the whole pickle.
func (m *machine) run() error {
	for {
		if m.in.p == m.in.e {
			if err := m.in.fillBuffer(1); err != nil {
				return err
			}
		}
		at, op := m.in.offset(), m.in.buf[m.in.p]
		m.in.p++
		if op == 'h' && m.pushKnown() {
			continue
		}
		if op == '.' {
			return m.stop()
		}
		if err := m.executeOpcode(op); err != nil {
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

func (m *machine) executeOpcode(op byte) error {
	switch op {
	case '(':
		if len(m.marks) >= deepest {
			return fmt.Errorf("containers are more than %d levels deep, and no snapshot is", deepest)
		}
		m.marks = append(m.marks, len(m.stack))
	case '}', ']':
		return m.pushContainer(op == '}')
	case 's':
		return m.setFrom(len(m.stack) - 2)
	case 'u':
		from, err := m.popMark()
		if err != nil {
			return err
		}
		return m.setFrom(from)
	case 'a':
		return m.appendFrom(len(m.stack) - 1)
	case 'e':
		return m.popToMark(m.appendFrom)
	case opMemoize:
		return m.put(uint64(m.memo.n))
	case 'q', 'r', 'h', 'j':
		return m.executeMemo(op)
	case ')':
		m.push(vOther, 0)
	case 't':
		return m.popToMark(m.tupleFrom)
	case opTuple1, opTuple2, opTuple3:
		return m.tupleFrom(len(m.stack) - int(op-opTuple1) - 1)
	case 'd', 'l':
		return m.popToMark(func(from int) error { return m.buildContainer(op == 'd', from) })
	default:
		return m.pushScalar(op)
	}
	return nil
}

func (m *machine) push(k valueKind, v uint64) { m.stack = append(m.stack, value{k, v}) }

func (m *machine) pushContainer(dict bool) error {
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

// popToMark calls the function do with the index of the first value after the last mark.
func (m *machine) popToMark(do func(from int) error) error {
	from, err := m.popMark()
	if err != nil {
		return err
	}
	return do(from)
}

// popMark removes the last mark and returns the index of the first value after it.
func (m *machine) popMark() (from int, err error) {
	if len(m.marks) == 0 {
		return 0, errors.New("it takes values from a mark that is not there")
	}
	if from = m.marks[len(m.marks)-1]; from > len(m.stack) {
		return 0, errors.New("it takes values from before a mark")
	}
	m.marks = m.marks[:len(m.marks)-1]
	return from, nil
}

func (m *machine) bottom() int {
	if n := len(m.marks); n > 0 {
		return m.marks[n-1]
	}
	return 0
}

// target returns the index in m.open of the container at m.stack[from-1], which must be an open dictionary (dict) or
// list.
func (m *machine) target(from int, dict bool) (int, error) {
	if from-1 < m.bottom() || m.stack[from-1].k != vOpen || m.open[m.stack[from-1].v].dict != dict {
		// A long event list is filled in parts; other complete values accept no more items.
		return 0, errors.New("it adds values to an object that is no open list or dictionary")
	}
	return int(m.stack[from-1].v), nil
}

// setFrom completes the open dictionary m.stack[from-1] with the keys and values m.stack[from:], or drops them if the
// dictionary is not needed.
func (m *machine) setFrom(from int) error {
	if from >= 1 && from-1 >= m.bottom() && from < len(m.stack) && m.stack[from-1].k == vOther {
		m.dropFrom(from) // more members of a large dictionary that is not needed
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
	v, err := m.convertDictionary(m.stack[from:])
	if err != nil {
		return err
	}
	m.dropFrom(from)
	m.stack[from-1] = m.finishContainer(i, v)
	m.mergeTop()
	return nil
}

// mergeTop merges consecutive events, blocks or segments on the stack into one value.
func (m *machine) mergeTop() {
	n := len(m.stack)
	if n-2 >= m.bottom() && m.stack[n-1].k == m.stack[n-2].k && (m.stack[n-1].k == vEvent || m.stack[n-1].k == vBlock || m.stack[n-1].k == vSegment) {
		m.stack[n-2].v += m.stack[n-1].v
		m.stack = m.stack[:n-1]
	}
}

// appendFrom appends the values m.stack[from:] to the open list m.stack[from-1].
func (m *machine) appendFrom(from int) error {
	if from > len(m.stack) || from < 1 {
		return errors.New("it adds values that are not there")
	}
	i, err := m.target(from, false)
	if err != nil {
		return err
	}
	for _, v := range m.stack[from:] {
		if v, err = m.settleValue(v); err != nil {
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
		case vNumber: // two numbers are a pair, as in a tuple
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
			if err := m.countMemory(16); err != nil {
				return err
			}
		}
		o.items = append(o.items, v)
	}
	m.stack = m.stack[:from]
	return nil
}

// addOther adds a value that is not needed. Several such values in sequence are stored as one item.
func (o *container) addOther() {
	if n := len(o.items); n == 0 || o.items[n-1].k != vOther {
		o.items = append(o.items, value{k: vOther})
	}
}

// buildContainer builds a list or a dictionary from the values m.stack[from:] (protocol 0).
func (m *machine) buildContainer(dict bool, from int) error {
	values := append([]value(nil), m.stack[from:]...)
	m.stack = m.stack[:from]
	if err := m.pushContainer(dict); err != nil {
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

// dropFrom removes values from the stack and releases their containers.
func (m *machine) dropFrom(from int) {
	for _, v := range m.stack[from:] {
		if v.k == vOpen || v.k == vList {
			m.finishContainer(int(v.v), value{k: vOther})
		}
	}
	m.stack = m.stack[:from]
}

// finishContainer replaces container i by v, in the memo too, and releases it.
func (m *machine) finishContainer(i int, v value) value {
	o := &m.open[i]
	if o.memo >= 0 {
		m.renumber(o.memo, packValue(v))
		o.memo = -1
	}
	m.room += int64(16 * o.paid)
	for _, inner := range o.items {
		if inner.k == vList && inner.v != uint64(i) {
			m.finishContainer(int(inner.v), value{k: vOther})
		}
	}
	if cap(o.items) > 1<<10 {
		o.items = nil
	}
	o.items, o.paid = o.items[:0], 0
	m.spare = append(m.spare, i)
	return v
}

// tupleFrom replaces the values m.stack[from:] by a tuple; only pairs of numbers are kept.
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

func (m *machine) internPair(items []value) (value, error) {
	p := [2]uint64{items[0].v, items[1].v}
	id, ok := m.pairs[p]
	if !ok {
		id = uint32(len(m.pair))
		if err := m.countMemory(64); err != nil {
			return value{}, err
		}
		m.pairs[p], m.pair = id, append(m.pair, p)
	}
	return value{vPair, uint64(id)}, nil
}

func (m *machine) stop() error {
	if len(m.stack) != 1 || len(m.marks) != 0 {
		return errors.New("the pickle ends with values left on its stack")
	}
	v := m.stack[0]
	if v.k == vOpen && !m.open[v.v].dict { // result of torch.cuda.memory_snapshot()
		return m.setSegments(v)
	}
	return nil
}
