package kineto

import (
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Memory outside the tables, bytes: a parser's text, a begin event, a flow, a wait, a thread's name, a category.
const (
	localBytes    = 128
	halfBytes     = 320
	flowBytes     = 160
	waitBytes     = 160
	metaBytes     = 160
	categoryBytes = 160
)

func (m *merger) rowBytes() int64 {
	return int64(m.host.n)*model.HostBytes + int64(m.gpu.n)*model.GPUBytes + int64(m.memory.n)*model.MemoryBytes
}

// untabledBytes returns the memory of data outside the tables, bytes.
func (m *merger) untabledBytes() int64 {
	return m.texts + int64(m.openHalves)*halfBytes + int64(len(m.flows))*flowBytes + int64(len(m.t.Waits)+len(m.t.Collectives))*waitBytes +
		int64(len(m.meta))*metaBytes + int64(len(m.unknown))*categoryBytes
}

// fitBudget makes room to read on if the memory budget is exceeded: it drops the latest events. If data other than
// events exhausts the budget, reading ends.
func (m *merger) fitBudget() {
	if !m.room.Over(m.rowBytes() + m.untabledBytes()) {
		return
	}
	for !m.full && !m.room.Settled(m.rowBytes()+m.untabledBytes()) {
		if m.full = m.room.Over(2*m.untabledBytes()) || !m.room.Cut(m.startTimes()); !m.full {
			m.dropLate()
		}
	}
}

// startTimes returns the start times of all events, or of a sample.
func (m *merger) startTimes() []int64 {
	var out []int64
	step := model.Sample(m.host.n + m.gpu.n + m.memory.n)
	i := 0
	add := func(at int64) {
		if i%step == 0 {
			out = append(out, at)
		}
		i++
	}
	for h := range m.host.eachRow() {
		add(h.Start)
	}
	for g := range m.gpu.eachRow() {
		add(g.Start)
	}
	for e := range m.memory.eachRow() {
		add(e.At)
	}
	return out
}

// dropLate removes the events after the budget's cut-off time.
func (m *merger) dropLate() {
	m.host.filterRows(func(h *model.Host) bool {
		kept := m.room.Keeps(h.Start)
		if !kept {
			m.perLane[h.Lane]--
		}
		return kept
	})
	m.gpu.filterRows(func(g *model.GPU) bool { return m.room.Keeps(g.Start) })
	m.memory.filterRows(func(e *model.MemoryEvent) bool { return m.room.Keeps(e.At) })
}

// filterRows removes the rows that ok rejects, in place.
func (c *table[T]) filterRows(ok func(*T) bool) {
	kept := table[T]{}
	at, n := 0, 0 // position of the next row
	for _, chunk := range c.chunks {
		for i := range chunk {
			if !ok(&chunk[i]) {
				continue
			}
			if n == len(c.chunks[at]) {
				at, n = at+1, 0
			}
			c.chunks[at][n] = chunk[i]
			n++
			kept.n++
		}
	}
	if kept.n == 0 {
		*c = kept
		return
	}
	clear(c.chunks[at+1:])
	kept.chunks = c.chunks[:at+1]
	kept.chunks[at] = kept.chunks[at][:n]
	*c = kept
}

// isDone reports whether further text cannot change the trace: memory is full, or the document has ended and either
// text after it was seen or it has no event array.
func (m *merger) isDone() bool {
	return m.full || m.doc.state == finished && (m.doc.extraAt >= 0 || !m.doc.objects)
}
