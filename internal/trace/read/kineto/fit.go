package kineto

import (
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// What is kept beside the tables takes, bytes: a text in a parser's own list of them,
// a begin event without its end, an arrow, a wait or a collective, a thread's name, a category.
const (
	localBytes    = 128
	halfBytes     = 320
	flowBytes     = 160
	waitBytes     = 160
	metaBytes     = 160
	categoryBytes = 160
)

// rows is the memory that events take, bytes.
func (m *merger) rows() int64 {
	return int64(m.host.n)*model.HostBytes + int64(m.gpu.n)*model.GPUBytes + int64(m.memory.n)*model.MemoryBytes
}

// beside is the memory that everything else takes.
func (m *merger) beside() int64 {
	return m.texts + int64(m.halves)*halfBytes + int64(len(m.flows))*flowBytes + int64(len(m.t.Waits)+len(m.t.Collectives))*waitBytes +
		int64(len(m.meta))*metaBytes + int64(len(m.unknown))*categoryBytes
}

// fit drops the latest events where there is no room for all, until there is room to
// read on. Where others than events take the room, reading ends.
func (m *merger) fit() {
	if !m.room.Over(m.rows() + m.beside()) {
		return
	}
	for !m.full && !m.room.Settled(m.rows()+m.beside()) {
		if m.full = m.room.Over(2*m.beside()) || !m.room.Cut(m.starts()); !m.full {
			m.drop()
		}
	}
}

// starts are when events begin, or some of them.
func (m *merger) starts() []int64 {
	var out []int64
	step := model.Sample(m.host.n + m.gpu.n + m.memory.n)
	i := 0
	add := func(at int64) {
		if i%step == 0 {
			out = append(out, at)
		}
		i++
	}
	for h := range m.host.rows() {
		add(h.Start)
	}
	for g := range m.gpu.rows() {
		add(g.Start)
	}
	for e := range m.memory.rows() {
		add(e.At)
	}
	return out
}

// drop leaves out what begins after the instant of the room.
func (m *merger) drop() {
	m.host.keep(func(h *model.Host) bool {
		kept := m.room.Keeps(h.Start)
		if !kept {
			m.perLane[h.Lane]--
		}
		return kept
	})
	m.gpu.keep(func(g *model.GPU) bool { return m.room.Keeps(g.Start) })
	m.memory.keep(func(e *model.MemoryEvent) bool { return m.room.Keeps(e.At) })
}

// keep leaves out the rows that ok refuses, in place.
func (c *table[T]) keep(ok func(*T) bool) {
	kept := table[T]{}
	at, n := 0, 0 // where the next row goes
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

// ended says that what follows changes nothing: there is no room for it, or the
// document is over and more text behind it has been seen, or it holds no events.
func (m *merger) ended() bool {
	return m.full || m.doc.state == finished && (m.doc.extra >= 0 || !m.doc.objects)
}
