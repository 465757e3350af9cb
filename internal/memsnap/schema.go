package memsnap

import (
	"errors"
	"fmt"
	"math"
	"strconv"
)

// key is a key of a dictionary that matters here.
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

func keyOf(s string) key {
	switch s {
	case "segments":
		return kSegments
	case "device_traces":
		return kTraces
	case "allocator_settings":
		return kSettings
	case "external_annotations":
		return kNotes
	case "action":
		return kAction
	case "addr", "address":
		return kAddr
	case "size":
		return kSize
	case "stream":
		return kStream
	case "time_us":
		return kTime
	case "frames":
		return kFrames
	case "pool_id", "segment_pool_id":
		return kPool
	case "device_free":
		return kFree
	case "name":
		return kName
	case "filename":
		return kFile
	case "line":
		return kLine
	}
	return rareKey(s)
}

func rareKey(s string) key {
	switch s {
	case "fx_original_trace":
		return kOriginal
	case "state":
		return kState
	case "requested_size":
		return kRequested
	case "total_size":
		return kTotal
	case "blocks":
		return kBlocks
	case "device":
		return kDevice
	case "is_expandable":
		return kExpandable
	case "history":
		return kHistory
	case "real_size":
		return kRealSize
	case "stage":
		return kStage
	case "max_split_size":
		return kMaxSplit
	case "garbage_collection_threshold":
		return kCollection
	case "expandable_segments":
		return kExpandableSetting
	case "roundup_power2_divisions":
		return kRoundup
	case "PYTORCH_CUDA_ALLOC_CONF":
		return kConf
	case "host_segments":
		return kHosts
	}
	return kNone
}

// members are the values of one dictionary by their keys.
type members struct {
	has uint64
	of  [keys]value
}

func (d *members) all(ks ...key) bool {
	for _, k := range ks {
		if d.has&(1<<k) == 0 {
			return false
		}
	}
	return true
}

// number is a member that is one, 0 where it is none.
func (d *members) number(k key) uint64 {
	if d.has&(1<<k) != 0 && (d.of[k].k == vNumber || d.of[k].k == vTruth) {
		return d.of[k].v
	}
	return 0
}

// id is a member of a kind that is interned, 0 where it is none.
func (d *members) id(k key, kind kindOf) uint32 {
	if d.has&(1<<k) != 0 && d.of[k].k == kind {
		return uint32(d.of[k].v)
	}
	return 0
}

// dictionary is what a complete dictionary is by its keys. A member that is a list is
// complete with it.
func (m *machine) dictionary(items []value) (value, error) {
	d := &m.set // what it has of the dictionary before is not among has
	d.has = 0
	for i := 0; i < len(items); i += 2 {
		if items[i].k != vText {
			return value{}, errors.New("a key of a dictionary is no string")
		}
		k := m.key[items[i].v]
		if k == kNone {
			continue
		}
		v, err := m.settled(items[i+1])
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
		return m.frame(d)
	case d.has&(1<<kAction) != 0:
		return m.event(d)
	case d.all(kBlocks, kTotal):
		return m.segment(d)
	case d.all(kSize, kState):
		return m.block(d)
	case d.all(kRealSize, kAddr): // an entry of a block's history in PyTorch 2.0
		return value{vStack, uint64(d.id(kFrames, vStack))}, nil
	case d.all(kStage, kName):
		return m.note(d), m.take(64)
	case d.all(kSegments):
		return m.snapshot(d)
	case d.all(kMaxSplit):
		return m.settings(d), nil
	}
	return m.numbered(items), nil
}

// settled is a value that no more is added to: an open container is what it holds.
func (m *machine) settled(v value) (value, error) {
	if v.k != vOpen {
		return v, nil
	}
	i := int(v.v)
	o := &m.open[i]
	if o.dict {
		return m.done(i, value{k: vOther}), nil
	}
	if len(o.items) == 0 {
		return m.done(i, value{k: vStack}), nil
	}
	switch o.items[0].k {
	case vFrame:
		id, err := m.stackOf(o.items)
		return m.done(i, value{vStack, uint64(id)}), err
	case vStack:
		first := o.items[0] // of a history, and of stacks in a list of other things
		if len(o.items) == 1 {
			return m.done(i, first), nil
		}
	case vEvent:
		if len(o.items) > 1 {
			return value{}, errors.New("a list of events holds other things")
		}
		t := m.s.traces[o.trace-1]
		if t.last-t.first != o.count {
			return value{}, errors.New("a list of events holds others' events")
		}
		return m.done(i, value{vTrace, uint64(o.trace)}), nil
	case vBlock:
		n := uint64(o.count)
		return m.done(i, value{vBlock, n}), nil
	case vNumber, vText, vPair, vOther: // writers in Python share such lists, as that of a pool's two numbers
		if !isPair(o.items) {
			return m.done(i, value{k: vOther}), nil
		}
		pair, err := m.internPair(o.items)
		return m.done(i, pair), err
	}
	if o.memo >= 0 {
		m.renumber(o.memo, spentWord)
		o.memo = -1
	}
	return value{vList, v.v}, nil
}

func (m *machine) frame(d *members) (value, error) {
	f := frame{d.id(kName, vText), d.id(kFile, vText), uint32(d.number(kLine)), d.id(kOriginal, vText)}
	id, ok := m.frames[f]
	if !ok {
		if id = uint32(len(m.s.frames)); id >= mostIDs {
			return value{}, errors.New("it has too many different frames")
		}
		m.frames[f] = id
		m.s.frames = append(m.s.frames, f)
		if err := m.take(64); err != nil {
			return value{}, err
		}
	}
	return value{vFrame, uint64(id)}, nil
}

// stackOf interns a list of frames.
func (m *machine) stackOf(items []value) (uint32, error) {
	h := uint64(14695981039346656037)
	for _, v := range items {
		if v.k != vFrame {
			return 0, errors.New("a stack holds what is no frame")
		}
		h = (h ^ v.v) * 1099511628211
		h ^= h >> 29
	}
	for _, id := range m.stacks[h] {
		if m.sameStack(id, items) {
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
	return id, m.take(64 + 8*len(items))
}

func (m *machine) sameStack(id uint32, items []value) bool {
	end := uint32(len(m.s.stackID))
	if int(id)+1 < len(m.s.stackAt) {
		end = m.s.stackAt[id+1]
	}
	have := m.s.stackID[m.s.stackAt[id]:end]
	if len(have) != len(items) {
		return false
	}
	for i, v := range items {
		if uint64(have[i]) != v.v {
			return false
		}
	}
	return true
}

func (m *machine) placeOf(p place) uint32 {
	if p == m.lastAt && len(m.s.places) > 0 {
		return m.lastID
	}
	id, ok := m.places[p]
	if !ok {
		id = uint32(len(m.s.places))
		m.places[p] = id
		m.s.places = append(m.s.places, p)
		m.room -= 96 // the next take looks
	}
	m.lastAt, m.lastID = p, id
	return id
}

// placeIn is the stream and pool of an event or a segment.
func (m *machine) placeIn(d *members) place {
	p := place{stream: d.number(kStream)}
	if d.has&(1<<kPool) != 0 && d.of[kPool].k == vPair {
		p.pool = m.pair[d.of[kPool].v]
	}
	return p
}

func (m *machine) block(d *members) (value, error) {
	b := Block{Address: d.number(kAddr), Size: d.number(kSize), Requested: d.number(kRequested), stack: d.id(kFrames, vStack)}
	switch m.s.texts[d.id(kState, vText)] {
	case "active_allocated":
		b.State = Active
	case "active_pending_free", "active_awaiting_free":
		b.State = Pending
	}
	if d.all(kHistory) && !d.all(kFrames) {
		b.stack = d.id(kHistory, vStack)
		if v := d.of[kHistory]; v.k == vList && m.open[v.v].items[0].k == vStack {
			b.stack = uint32(m.open[v.v].items[0].v)
		}
	}
	if !d.all(kRequested) && b.State != Inactive {
		b.Requested = b.Size
	}
	m.s.blocks = append(m.s.blocks, b)
	m.blocks++
	return value{vBlock, 1}, m.take(2 * 40)
}

func (m *machine) segment(d *members) (value, error) {
	n := 0
	if v := d.of[kBlocks]; v.k == vBlock {
		n = int(v.v)
	}
	if n != m.blocks {
		return value{}, fmt.Errorf("a segment has %d blocks, and %d come before it", n, m.blocks)
	}
	g := Segment{Device: int(d.number(kDevice)), Address: d.number(kAddr), Total: d.number(kTotal), Stream: d.number(kStream), Pool: m.placeIn(d).pool, Expandable: d.number(kExpandable) != 0, place: m.placeOf(m.placeIn(d)), first: len(m.s.blocks) - n, last: len(m.s.blocks)}
	if g.Device < 0 || g.Device >= mostDevices {
		return value{}, fmt.Errorf("a segment is of device %d", g.Device)
	}
	m.blocks = 0
	at := g.Address
	for i := g.first; i < g.last; i++ { // PyTorch 2.0 has no addresses of blocks
		b := &m.s.blocks[i]
		if b.Address == 0 {
			b.Address = at
		}
		at = b.Address + b.Size
	}
	m.s.Segments = append(m.s.Segments, g)
	return value{vSegment, 1}, m.take(2 * 96)
}

// mostDevices is more than a machine has.
const mostDevices = 1 << 12

func (m *machine) note(d *members) value {
	m.s.Notes = append(m.s.Notes, Note{Name: m.s.texts[d.id(kName, vText)], Start: m.s.texts[d.id(kStage, vText)] == "START", Device: int(int32(d.number(kDevice))), Micros: int64(d.number(kTime))})
	return value{k: vNote}
}

func (m *machine) settings(d *members) value {
	s := &m.s.Settings
	s.Known, s.Text = true, m.s.texts[d.id(kConf, vText)]
	s.MaxSplit, s.Expandable = int64(d.number(kMaxSplit)), d.number(kExpandableSetting) != 0
	if s.MaxSplit < 0 || s.MaxSplit == math.MaxInt64 {
		s.MaxSplit = -1
	}
	if v := d.of[kCollection]; d.all(kCollection) && v.k == vFraction {
		if f := math.Float64frombits(v.v); f >= 0 && f <= 1 {
			s.Collection = f
		}
	}
	if d.all(kRoundup) && d.of[kRoundup].k == vRound {
		s.Roundup = m.rounding
	}
	return value{k: vSettings}
}

// numbered is a dictionary whose keys are numbers, as of the rounding of sizes.
func (m *machine) numbered(items []value) value {
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
