package model

import "math"

const anyProcess = -1

// Values of a launchTable for an id. A value of 0 or more is an index into Trace.Host.
const (
	callNone      = -1 // a device event has the id, no call does
	callUnknownID = -2 // no device event has the id
	callMany      = -3 // this value v or less: several calls have the id, in the list many[callMany-v]
)

// launchTables find the API call of a correlation id in a process. They hold only ids of device events.
type launchTables struct {
	tables    []launchTable // one per process
	byProcess map[int32]int // index in tables
	last      int           // index of the last table used, which is mostly the next one too
}

// launchTable holds the ids of one process: dense ids as a list, others in a hash table with open addressing.
type launchTable struct {
	process   int32
	low, high int64
	n         int
	dense     []int32
	slots     []launchSlot
	mask      uint64
}

type launchSlot struct {
	corr int64
	call int32
}

// widestSpread: a table is a list if its ids span less than widestSpread times the number of its events. A slot of the
// hash table takes four times the memory of a list entry, and at most two thirds of the slots are used.
const widestSpread = 16

func newLaunchTables(gpu []GPU) *launchTables {
	l := &launchTables{byProcess: map[int32]int{}}
	for i := range gpu {
		g := &gpu[i]
		if g.Corr == 0 {
			continue
		}
		p := l.tableOf(g.Process)
		if p == nil {
			l.byProcess[g.Process] = len(l.tables)
			l.tables = append(l.tables, launchTable{process: g.Process, low: math.MaxInt64, high: math.MinInt64})
			p = l.tableOf(g.Process)
		}
		p.n++
		p.low, p.high = min(p.low, g.Corr), max(p.high, g.Corr)
	}
	for i := range l.tables {
		l.tables[i].allocateSlots()
	}
	for i := range gpu {
		if g := &gpu[i]; g.Corr != 0 {
			l.tableOf(g.Process).addID(g.Corr)
		}
	}
	return l
}

// tableOf returns the table of a process, nil if it has no device events.
func (l *launchTables) tableOf(process int32) *launchTable {
	if l.last < len(l.tables) && l.tables[l.last].process == process {
		return &l.tables[l.last]
	}
	i, ok := l.byProcess[process]
	if !ok {
		return nil
	}
	l.last = i
	return &l.tables[i]
}

// findCall returns the table's value for an id, nil if no device event has the id.
func (l *launchTables) findCall(corr int64, process int32) *int32 {
	p := l.tableOf(process)
	if p == nil {
		return nil
	}
	if p.dense != nil {
		if corr < p.low || corr > p.high {
			return nil
		}
		return &p.dense[corr-p.low]
	}
	return &p.findSlot(corr).call
}

// addCall stores a call under its id. Calls that share an id go to a list in many, which addCall returns.
func (l *launchTables) addCall(many [][]int32, corr int64, process, host int32) [][]int32 {
	call := l.findCall(corr, process)
	switch {
	case call == nil || *call == callUnknownID:
	case *call == callNone:
		*call = host
	case *call >= 0:
		many = append(many, []int32{*call, host})
		*call = callMany - int32(len(many)-1)
	default:
		at := callMany - *call
		many[at] = append(many[at], host)
	}
	return many
}

func (p *launchTable) allocateSlots() {
	if width := uint64(p.high) - uint64(p.low); width < uint64(widestSpread*p.n+1024) {
		p.dense = make([]int32, width+1)
		for i := range p.dense {
			p.dense[i] = callUnknownID
		}
		return
	}
	size := 16
	for size < p.n+p.n/2 {
		size *= 2
	}
	p.slots, p.mask = make([]launchSlot, size), uint64(size-1)
	for i := range p.slots {
		p.slots[i].call = callUnknownID
	}
}

func (p *launchTable) addID(corr int64) {
	if p.dense != nil {
		p.dense[corr-p.low] = callNone
		return
	}
	*p.findSlot(corr) = launchSlot{corr, callNone}
}

// findSlot returns the slot of an id, or a free slot for it. The hash keeps four consecutive ids in one cache line
// and scatters the lines, because ids may have any stride.
func (p *launchTable) findSlot(corr int64) *launchSlot {
	u := uint64(corr)
	mix := (u >> 2) * 0x9E3779B97F4A7C15 // 2^64 over the golden ratio: Knuth's multiplicative hash
	for h := (mix>>48^mix>>32^mix)<<2 | u&3; ; h++ {
		s := &p.slots[h&p.mask]
		if s.call == callUnknownID || s.corr == corr {
			return s
		}
	}
}
