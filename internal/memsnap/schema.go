package memsnap

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

type key uint8

const (
	kNone key = iota
	kSegments
	kTraces
	kSettings
	kNotes
	kAction
	kAddr
	kSize
	kStream
	kTime
	kFrames
	kPool
	kFree
	kName
	kFile
	kLine
	kOriginal
	kState
	kRequested
	kTotal
	kBlocks
	kDevice
	kExpandable
	kHistory
	kRealSize
	kStage
	kMaxSplit
	kCollection
	kExpandableSetting
	kRoundup
	kConf
	kHosts
	keys
)

// keyNames maps the keys that a snapshot's dictionaries have in any version of PyTorch.
func keyNames() map[string]key {
	return map[string]key{
		"segments": kSegments, "device_traces": kTraces, "allocator_settings": kSettings, "external_annotations": kNotes,
		"action": kAction, "addr": kAddr, "address": kAddr, "size": kSize, "stream": kStream, "time_us": kTime, "frames": kFrames,
		"pool_id": kPool, "segment_pool_id": kPool, "device_free": kFree, "name": kName, "filename": kFile, "line": kLine,
		"fx_original_trace": kOriginal, "state": kState, "requested_size": kRequested, "total_size": kTotal, "blocks": kBlocks,
		"device": kDevice, "is_expandable": kExpandable, "history": kHistory, "real_size": kRealSize, "stage": kStage,
		"max_split_size": kMaxSplit, "garbage_collection_threshold": kCollection, "expandable_segments": kExpandableSetting,
		"roundup_power2_divisions": kRoundup, "PYTORCH_CUDA_ALLOC_CONF": kConf, "host_segments": kHosts,
	}
}

// members holds the values of one dictionary by key.
type members struct {
	has uint64 // bit k: the dictionary has key k
	of  [keys]value
}

func (d *members) hasAll(ks ...key) bool {
	for _, k := range ks {
		if d.has&(1<<k) == 0 {
			return false
		}
	}
	return true
}

// numberOf returns a member that is a number or a boolean, else 0.
func (d *members) numberOf(k key) uint64 {
	if d.has&(1<<k) != 0 && (d.of[k].k == vNumber || d.of[k].k == vTruth) {
		return d.of[k].v
	}
	return 0
}

// idOf returns the number of an interned member, 0 if it is absent or of another kind.
func (d *members) idOf(k key, kind valueKind) uint32 {
	if d.has&(1<<k) != 0 && d.of[k].k == kind {
		return uint32(d.of[k].v)
	}
	return 0
}

// convertDictionary converts a complete dictionary by its keys, and completes the lists among its values.
func (m *machine) convertDictionary(items []value) (value, error) {
	d := &m.set // has hides members of the previous dictionary
	d.has = 0
	for i := 0; i < len(items); i += 2 {
		if items[i].k != vText {
			return value{}, errors.New("a key of a dictionary is no string")
		}
		k := m.key[items[i].v]
		if k == kNone {
			continue
		}
		v, err := m.settleValue(items[i+1])
		if err != nil {
			return value{}, err
		}
		items[i+1] = v
		d.has |= 1 << k
		d.of[k] = v
	}
	const frame = 1<<kName | 1<<kFile | 1<<kLine
	switch {
	case d.has&frame == frame:
		return m.internFrame(d)
	case d.has&(1<<kAction) != 0:
		return m.addEvent(d)
	case d.hasAll(kBlocks, kTotal):
		return m.addSegment(d)
	case d.hasAll(kSize, kState):
		return m.addBlock(d)
	case d.hasAll(kRealSize, kAddr): // an entry of a block's history (PyTorch 2.0)
		return value{vStack, uint64(d.idOf(kFrames, vStack))}, nil
	case d.hasAll(kStage, kName):
		return m.addNote(d), m.countMemory(64)
	case d.hasAll(kSegments):
		return m.addRoot(d)
	case d.hasAll(kMaxSplit):
		return m.setSettings(d), nil
	}
	return m.roundupTable(items), nil
}

// settleValue completes an open container and returns its value.
func (m *machine) settleValue(v value) (value, error) {
	if v.k != vOpen {
		return v, nil
	}
	i := int(v.v)
	o := &m.open[i]
	if o.dict {
		return m.finishContainer(i, value{k: vOther}), nil
	}
	if len(o.items) == 0 {
		return m.finishContainer(i, value{k: vStack}), nil
	}
	switch o.items[0].k {
	case vFrame:
		id, err := m.internStack(o.items)
		return m.finishContainer(i, value{vStack, uint64(id)}), err
	case vStack:
		first := o.items[0] // a history, or stacks in a list of other values
		if len(o.items) == 1 {
			return m.finishContainer(i, first), nil
		}
	case vEvent:
		if len(o.items) > 1 {
			return value{}, errors.New("a list of events holds other things")
		}
		t := m.s.traces[o.trace-1]
		if t.last-t.first != o.count {
			return value{}, errors.New("a list of events holds others' events")
		}
		return m.finishContainer(i, value{vTrace, uint64(o.trace)}), nil
	case vBlock:
		n := uint64(o.count)
		return m.finishContainer(i, value{vBlock, n}), nil
	case vNumber, vText, vPair, vOther: // Python shares such lists, for example the two numbers of a pool
		if !isPair(o.items) {
			return m.finishContainer(i, value{k: vOther}), nil
		}
		pair, err := m.internPair(o.items)
		return m.finishContainer(i, pair), err
	}
	if o.memo >= 0 {
		m.renumber(o.memo, spentWord)
		o.memo = -1
	}
	return value{vList, v.v}, nil
}

func (m *machine) internFrame(d *members) (value, error) {
	f := frame{d.idOf(kName, vText), d.idOf(kFile, vText), uint32(d.numberOf(kLine)), d.idOf(kOriginal, vText)}
	id, ok := m.frames[f]
	if !ok {
		if id = uint32(len(m.s.frames)); id >= mostIDs {
			return value{}, errors.New("it has too many different frames")
		}
		m.frames[f] = id
		m.s.frames = append(m.s.frames, f)
		if err := m.countMemory(64); err != nil {
			return value{}, err
		}
	}
	return value{vFrame, uint64(id)}, nil
}

// internStack numbers a list of frames.
func (m *machine) internStack(items []value) (uint32, error) {
	h := uint64(14695981039346656037)
	for _, v := range items {
		if v.k != vFrame {
			return 0, errors.New("a stack holds an element that is no frame")
		}
		h = (h ^ v.v) * 1099511628211
		h ^= h >> 29
	}
	for _, id := range m.stacks[h] {
		if m.isStack(id, items) {
			return id, nil
		}
	}
	id := uint32(len(m.s.stackAt))
	if id >= mostIDs || len(m.s.stackID)+len(items) > math.MaxInt32 {
		return 0, errors.New("it has too many different stacks")
	}
	m.s.stackAt = append(m.s.stackAt, uint32(len(m.s.stackID)))
	for _, v := range items {
		m.s.stackID = append(m.s.stackID, uint32(v.v))
	}
	m.stacks[h] = append(m.stacks[h], id)
	return id, m.countMemory(64 + 8*len(items))
}

func (m *machine) isStack(id uint32, items []value) bool {
	end := uint32(len(m.s.stackID))
	if int(id)+1 < len(m.s.stackAt) {
		end = m.s.stackAt[id+1]
	}
	have := m.s.stackID[m.s.stackAt[id]:end]
	return slices.EqualFunc(have, items, func(frame uint32, v value) bool { return uint64(frame) == v.v })
}

func (m *machine) internPlace(p place) uint32 {
	if p == m.lastAt && len(m.s.places) > 0 {
		return m.lastID
	}
	id, ok := m.places[p]
	if !ok {
		id = uint32(len(m.s.places))
		m.places[p] = id
		m.s.places = append(m.s.places, p)
		m.room -= 96 // the next countMemory checks the limit
	}
	m.lastAt, m.lastID = p, id
	return id
}

func (m *machine) placeIn(d *members) place {
	p := place{stream: d.numberOf(kStream)}
	if d.has&(1<<kPool) != 0 && d.of[kPool].k == vPair {
		p.pool = m.pair[d.of[kPool].v]
	}
	return p
}

func (m *machine) addBlock(d *members) (value, error) {
	b := Block{Address: d.numberOf(kAddr), Size: d.numberOf(kSize), Requested: d.numberOf(kRequested), stack: d.idOf(kFrames, vStack)}
	switch m.s.texts[d.idOf(kState, vText)] {
	case "active_allocated":
		b.State = Active
	case "active_pending_free", "active_awaiting_free":
		b.State = Pending
	}
	if d.hasAll(kHistory) && !d.hasAll(kFrames) {
		b.stack = d.idOf(kHistory, vStack)
		if v := d.of[kHistory]; v.k == vList && m.open[v.v].items[0].k == vStack {
			b.stack = uint32(m.open[v.v].items[0].v)
		}
	}
	if !d.hasAll(kRequested) && b.State != Inactive {
		b.Requested = b.Size
	}
	m.s.blocks = append(m.s.blocks, b)
	m.blocks++
	return value{vBlock, 1}, m.countMemory(2 * 40)
}

func (m *machine) addSegment(d *members) (value, error) {
	n := 0
	if v := d.of[kBlocks]; v.k == vBlock {
		n = int(v.v)
	}
	if n != m.blocks {
		return value{}, fmt.Errorf("a segment has %d blocks, and %d come before it", n, m.blocks)
	}
	g := Segment{Device: int(d.numberOf(kDevice)), Address: d.numberOf(kAddr), Total: d.numberOf(kTotal), Stream: d.numberOf(kStream), Pool: m.placeIn(d).pool, Expandable: d.numberOf(kExpandable) != 0, place: m.internPlace(m.placeIn(d)), first: len(m.s.blocks) - n, last: len(m.s.blocks)}
	if g.Device < 0 || g.Device >= mostDevices {
		return value{}, fmt.Errorf("a segment is of device %d", g.Device)
	}
	m.blocks = 0
	at := g.Address
	for i := g.first; i < g.last; i++ { // PyTorch 2.0 writes no block addresses
		b := &m.s.blocks[i]
		if b.Address == 0 {
			b.Address = at
		}
		at = b.Address + b.Size
	}
	m.s.Segments = append(m.s.Segments, g)
	return value{vSegment, 1}, m.countMemory(2 * 96)
}

const mostDevices = 1 << 12

func (m *machine) addNote(d *members) value {
	m.s.Notes = append(m.s.Notes, Note{Name: m.s.texts[d.idOf(kName, vText)], Start: m.s.texts[d.idOf(kStage, vText)] == "START", Device: int(int32(d.numberOf(kDevice))), Micros: int64(d.numberOf(kTime))})
	return value{k: vNote}
}

func (m *machine) setSettings(d *members) value {
	s := &m.s.Settings
	s.Known, s.Text = true, m.s.texts[d.idOf(kConf, vText)]
	s.MaxSplit, s.Expandable = int64(d.numberOf(kMaxSplit)), d.numberOf(kExpandableSetting) != 0
	if s.MaxSplit < 0 || s.MaxSplit == math.MaxInt64 {
		s.MaxSplit = -1
	}
	if v := d.of[kCollection]; d.hasAll(kCollection) && v.k == vFraction {
		if f := math.Float64frombits(v.v); f >= 0 && f <= 1 {
			s.Collection = f
		}
	}
	if d.hasAll(kRoundup) && d.of[kRoundup].k == vRound {
		s.Roundup = m.rounding
	}
	return value{k: vSettings}
}

// roundupTable converts the rounding of sizes: a dictionary from powers of two (as text) to numbers of divisions.
func (m *machine) roundupTable(items []value) value {
	var round [16]uint64
	for i := 0; i < len(items); i += 2 {
		n, err := strconv.ParseUint(m.s.texts[items[i].v], 10, 16)
		if err != nil || n == 0 || items[i+1].k != vNumber {
			return value{k: vOther}
		}
		at := 0
		for n > 1 && at < 15 {
			n, at = n/2, at+1
		}
		round[at] = items[i+1].v
	}
	m.rounding = round
	return value{k: vRound}
}
