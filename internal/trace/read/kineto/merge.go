package kineto

import (
	"iter"
	"math"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// merger merges batches in file order. It renumbers names, lanes and stacks by first use in the file, so that the
// result does not depend on the scheduling of parsers.
type merger struct {
	t         *model.Trace
	doc       topLevel
	ownParser *parser // parses text that no other parser got, or that was cut inside an event
	locals    []localNumbers

	carry    []byte // unread text, from index carryAt of the file's text on
	carryAt  int64
	retryLen int // least length of carry for the next attempt to read it

	names    map[string]uint32
	stacks   map[string]uint32
	lanes    map[laneKey]uint32
	laneKeys []laneKey // by lane

	host        table[model.Host]
	gpu         table[model.GPU]
	memory      table[model.MemoryEvent]
	perLane     []int    // number of host events by lane
	laneIndex   []uint32 // by lane: index in Trace.Lanes
	inUse       []bool
	deviceIndex []uint16 // by device slot: index in Trace.Devices
	flows       []flow
	open        map[uint32][]halfEvent // begin events by lane
	openHalves  int                    // number of begin events in open
	meta        []threadName
	devices     []int // ids by first use; GPU.Device is an index into devices
	slot        map[int]uint16
	lastSlot    uint16

	seenAPI, seenGPU   bool
	overhead           int64
	phased, notObjects int
	unknown            map[string]int
	bad                [badKinds]int
	firstBad           int64
	earliest           int64 // earliest time in the file, ns
	room               *model.MemoryBudget
	onOutside          func(text []byte, at int64) // gets the text around the events; nil if nobody needs it
	texts              int64                       // memory of names, stacks and threads
	full               bool                        // the memory budget is used up: further events are dropped
	tooLong            bool                        // the element at unfinished is longer than carryMax
	unfinished         int64                       // index of an unfinished event, -1 none
	textLen            int64                       // length of the text
}

// localNumbers maps a parser's numbers to the merger's numbers plus one; 0 is not mapped yet.
type localNumbers struct {
	names, stacks     []string
	lanes             []laneKey
	name, stack, lane []uint32
}

// table holds rows in chunks, so that it grows without a copy of all rows.
type table[T any] struct {
	chunks [][]T
	n      int
}

const chunkLen = 1 << 15

func (c *table[T]) appendRow(v T) {
	if c.n%chunkLen == 0 {
		c.chunks = append(c.chunks, make([]T, 0, min(chunkLen, max(64, c.n))))
	}
	last := &c.chunks[len(c.chunks)-1]
	*last = append(*last, v)
	c.n++
}

func (c *table[T]) eachRow() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, chunk := range c.chunks {
			for i := range chunk {
				if !yield(&chunk[i]) {
					return
				}
			}
		}
	}
}

func newMerger(path string, parsers int) *merger {
	return &merger{
		t:         &model.Trace{Path: path, Format: model.Kineto, Rank: -1},
		doc:       topLevel{malformedAt: -1, extraAt: -1, found: map[string][]byte{}},
		ownParser: newParser(0),
		locals:    make([]localNumbers, parsers+1),
		names:     map[string]uint32{}, stacks: map[string]uint32{}, lanes: map[laneKey]uint32{},
		open: map[uint32][]halfEvent{}, slot: map[int]uint16{}, unknown: map[string]int{},
		firstBad: -1, earliest: math.MaxInt64, unfinished: -1, room: model.NewMemoryBudget(0),
	}
}

// mergeBlock merges the next block. guess is the block's batch, parsed under the assumption that the block begins
// between two events; nil if it was not parsed.
func (m *merger) mergeBlock(k *block, guess *batch) {
	m.textLen = k.at + int64(k.n)
	if guess != nil {
		if m.doc.state != inEvents || len(m.carry) > 0 {
			guess.dropEvents()
			m.addTexts(guess)
		} else {
			m.addBatch(guess)
			m.readAfter(k.buf, k.n, guess, k.at)
			return
		}
	}
	if len(m.carry) == 0 {
		m.readWindow(k.buf, k.n, 0, k.at, false)
		return
	}
	m.carry = append(m.carry, k.buf[:k.n]...)
	switch {
	case len(m.carry) > carryMax:
		m.giveUp()
	case len(m.carry) >= m.retryLen:
		m.readCarry(false)
	}
}

// carryMax limits the length of an element or a key, bytes. Longer ones end the reading.
const carryMax = 64 << 20

// giveUp ends the reading at an element or key longer than carryMax.
func (m *merger) giveUp() {
	m.unfinished, m.tooLong = m.carryAt, true
	m.carry = nil
	m.doc.state = finished
	m.doc.extraAt = m.unfinished // no second warning for the following text
}

func (m *merger) readCarry(final bool) {
	buf, at := growBuffer(m.carry, len(m.carry)), m.carryAt
	n := len(m.carry)
	writePadding(buf, n)
	m.carry = nil
	m.readWindow(buf, n, 0, at, final)
}

// readAfter reads the text of a block after the part that its batch, done, covers.
func (m *merger) readAfter(b []byte, n int, done *batch, at int64) {
	if done.ended {
		m.closeEvents()
		m.readWindow(b, n, done.pos, at, false)
		return
	}
	m.carryText(b[done.pos:n], at+int64(done.pos))
}

func (m *merger) closeEvents() {
	if m.onOutside != nil {
		m.onOutside([]byte{']'}, 0)
	}
	m.doc.state = inObject
	if m.doc.array {
		m.doc.state = finished
	}
}

// carryText keeps unread text for the next block.
func (m *merger) carryText(b []byte, at int64) {
	if len(b) == 0 {
		return
	}
	m.ownParser.looked += int64(len(b))
	m.carry = append(make([]byte, 0, 2*len(b)+pad), b...)
	m.carryAt = at
	m.retryLen = 2 * len(b)
}

// readWindow reads a window from i on with ownParser, and carries over its unread end.
func (m *merger) readWindow(b []byte, n, i int, at int64, final bool) {
	p := m.ownParser
	for i < n {
		if m.doc.state == inEvents {
			t := p.parseEvents(b, n, i, at, final)
			m.addBatch(t)
			i = t.pos
			if !t.ended {
				break
			}
			m.closeEvents()
			continue
		}
		p.b, p.n = b, n
		j := m.doc.readOutside(p, i, at, final)
		if m.onOutside != nil {
			m.onOutside(b[i:j], at+int64(i))
		}
		if p.looked += int64(j - i); j == i { // without progress the whole window was scanned
			p.looked += int64(n - i)
		}
		if j == i && m.doc.state != inEvents {
			break
		}
		i = j
	}
	if i < n && final {
		m.unfinished = at + int64(i)
		return
	}
	m.carryText(b[i:n], at+int64(i))
}

func (m *merger) finishText() {
	if len(m.carry) > 0 {
		m.readCarry(true)
	}
}

func (m *merger) addTexts(t *batch) *localNumbers {
	l := &m.locals[t.parser]
	m.texts += localBytes * int64(len(t.names)+len(t.stacks)+len(t.lanes))
	l.names = append(l.names, t.names...)
	l.stacks = append(l.stacks, t.stacks...)
	l.lanes = append(l.lanes, t.lanes...)
	l.name = append(l.name, make([]uint32, len(t.names))...)
	l.stack = append(l.stack, make([]uint32, len(t.stacks))...)
	l.lane = append(l.lane, make([]uint32, len(t.lanes))...)
	return l
}

func (m *merger) addBatch(t *batch) {
	l := m.addTexts(t)
	m.t.Events += t.events
	m.earliest = min(m.earliest, t.earliest)
	m.phased += t.phased
	m.notObjects += t.notObjects
	for k, n := range t.unknown {
		m.unknown[k] += n
	}
	for k, n := range t.bad {
		m.bad[k] += n
	}
	if m.firstBad < 0 {
		m.firstBad = t.firstBad
	}
	if m.full = m.full || max(m.host.n, m.gpu.n) > model.MaxEvents-max(len(t.host), len(t.gpu))-len(t.halves); m.full {
		return
	}
	for i := range t.host {
		if h := &t.host[i]; m.room.Keeps(h.Start) {
			m.addHost(l, *h)
		}
	}
	for i := range t.gpu {
		if g := t.gpu[i]; m.room.Keeps(g.Start) {
			g.Name = m.translateName(l, g.Name)
			m.putGPU(g)
		}
	}
	for _, e := range t.memory {
		if m.room.Keeps(e.At) {
			e.Lane = m.translateLane(l, e.Lane)
			m.memory.appendRow(e)
		}
	}
	for i := range t.halves {
		m.pairHalf(l, &t.halves[i])
	}
	m.meta = append(m.meta, t.meta...)
	m.t.Waits = append(m.t.Waits, t.waits...)
	for _, c := range t.collectives {
		c.Name, c.Group, c.Ranks, c.Element = m.translateName(l, c.Name), m.translateName(l, c.Group), m.translateName(l, c.Ranks), m.translateName(l, c.Element)
		m.t.Collectives = append(m.t.Collectives, c)
	}
	defer m.fitBudget()
	for _, f := range t.flows {
		if f.start && !m.seenAPI || !f.start && !m.seenGPU {
			m.flows = append(m.flows, f)
		}
	}
}

func (m *merger) addHost(l *localNumbers, h model.Host) {
	m.translateHost(l, &h)
	m.putHost(h)
}

func (m *merger) translateHost(l *localNumbers, h *model.Host) {
	h.Name = m.translateName(l, h.Name)
	h.Lane = m.translateLane(l, h.Lane)
	if h.Stack != 0 {
		h.Stack = m.translateStack(l, h.Stack)
	}
}

func (m *merger) putHost(h model.Host) {
	switch h.Kind {
	case model.API:
		m.seenAPI = m.seenAPI || h.Corr != 0
	case model.Python:
		m.t.Inflated = true
	case model.Overhead:
		m.overhead += h.Dur()
	}
	m.perLane[h.Lane]++
	m.host.appendRow(h)
}

// putGPU stores a device event after its name was renumbered. g.Launch holds the device's id in the file; putGPU sets
// g.Device from it.
func (m *merger) putGPU(g model.GPU) {
	id := int(g.Launch)
	if len(m.devices) == 0 || m.devices[m.lastSlot] != id {
		slot, ok := m.slot[id]
		if !ok {
			slot = uint16(min(len(m.devices), math.MaxUint16))
			if int(slot) == len(m.devices) {
				m.devices = append(m.devices, id)
			}
			m.slot[id] = slot
		}
		m.lastSlot = slot
	}
	g.Device, g.Launch = m.lastSlot, -1
	m.seenGPU = m.seenGPU || g.Corr != 0
	m.gpu.appendRow(g)
}

func (m *merger) translateName(l *localNumbers, local model.NameID) model.NameID {
	if v := l.name[local]; v != 0 {
		return model.NameID(v - 1)
	}
	s := l.names[local]
	id, ok := m.names[s]
	if !ok {
		id = uint32(len(m.t.Names))
		m.names[s] = id
		m.texts += model.TextBytes(s)
		m.t.Names = append(m.t.Names, s)
	}
	l.name[local] = id + 1
	return model.NameID(id)
}

func (m *merger) translateStack(l *localNumbers, local uint32) uint32 {
	if v := l.stack[local-1]; v != 0 {
		return v
	}
	s := l.stacks[local-1]
	id, ok := m.stacks[s]
	if !ok {
		m.t.Stacks = append(m.t.Stacks, s)
		id = uint32(len(m.t.Stacks))
		m.stacks[s] = id
		m.texts += model.TextBytes(s)
	}
	l.stack[local-1] = id
	return id
}

func (m *merger) translateLane(l *localNumbers, local uint32) uint32 {
	if v := l.lane[local]; v != 0 {
		return v - 1
	}
	k := l.lanes[local]
	id, ok := m.lanes[k]
	if !ok {
		id = uint32(len(m.laneKeys))
		m.lanes[k] = id
		m.texts += model.TextBytes(k.pidText) + model.TextBytes(k.tidText)
		m.laneKeys = append(m.laneKeys, k)
		m.perLane = append(m.perLane, 0)
	}
	l.lane[local] = id + 1
	return id
}

// pairHalf keeps a begin event until its end event arrives: an end event ends the innermost open event of its lane.
func (m *merger) pairHalf(l *localNumbers, h *halfEvent) {
	lane := m.translateLane(l, h.lane)
	open := m.open[lane]
	if !h.end {
		b := *h
		switch b.category {
		case host:
			m.translateHost(l, &b.host)
		case device:
			b.gpu.Name = m.translateName(l, b.gpu.Name)
		}
		m.open[lane] = append(open, b)
		m.openHalves++
		return
	}
	if len(open) == 0 {
		m.bad[unpaired]++
		return
	}
	b := open[len(open)-1]
	m.open[lane] = open[:len(open)-1]
	m.openHalves--
	if !m.room.Keeps(b.ts) {
		return
	}
	end := h.ts
	if end < b.ts {
		m.bad[negative]++
		end = b.ts
	}
	switch b.category {
	case host:
		b.host.End = end
		m.putHost(b.host)
	case device:
		b.gpu.End = end
		m.putGPU(b.gpu)
	}
}
