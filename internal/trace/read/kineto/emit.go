package kineto

import (
	"math"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// emit keeps what is wanted of the event just read, which began at i.
func (p *parser) emit(i int) {
	e, t := &p.ev, p.out
	t.events++
	if e.ph != 0 {
		t.phased++
	}
	if e.ts < t.least && e.has&hasTS != 0 && e.ph != 'M' {
		t.least = e.ts
	}
	switch e.ph {
	case 'X':
		p.complete(i)
	case 's', 'f', 't':
		p.flow()
	case 'i', 'I', 'R':
		p.instant(i)
	case 'B', 'E':
		p.half(i)
	case 'M':
		if string(p.bytes(e.name)) == "thread_name" {
			t.meta = append(t.meta, threadName{p.laneKey(), decode(p.bytes(e.argName))})
		}
	case 0:
		p.spoil(noPhase, i)
	}
}

// timed says whether the event has a time, and counts it as bad if not.
func (p *parser) timed(i int) bool {
	if p.ev.has&hasTS == 0 {
		p.spoil(noTime, i)
		return false
	}
	return true
}

func (p *parser) complete(i int) {
	e, t := &p.ev, p.out
	c := p.category(e.cat)
	switch c.meaning.category {
	case host, device:
	case waiting:
		p.streamWait()
		return
	case unknown:
		p.strangeCategory(c)
		return
	default:
		return
	}
	if !p.timed(i) {
		return
	}
	switch {
	case e.has&hasDur == 0:
		p.spoil(noDuration, i)
		e.dur = 0
	case e.dur < 0 && c.meaning.category == host: // the gate counts those of devices
		p.spoil(negative, i)
		e.dur = 0
	}
	if c.meaning.category == device {
		t.gpu = append(t.gpu, model.GPU{})
		p.deviceEvent(&t.gpu[len(t.gpu)-1], c.meaning.kind)
		p.communicates()
		return
	}
	t.host = append(t.host, model.Host{})
	p.hostEvent(&t.host[len(t.host)-1], c.meaning.kind)
}

// communicates keeps what PyTorch tells of the collective behind a kernel.
func (p *parser) communicates() {
	e := &p.ev
	if e.collective.to == e.collective.from || e.has&hasCorr == 0 {
		return
	}
	c := model.Collective{Corr: e.corr, Name: p.name(e.collective), Group: p.name(e.groupName), Ranks: p.name(e.groupRanks), Element: p.name(e.element),
		Size: int32(min(max(e.groupSize, 0), math.MaxInt32)), In: max(e.inElements, 0), Out: max(e.outElements, 0)}
	if e.has&hasCollectiveSeq != 0 && e.collectiveSeq >= 0 && e.collectiveSeq < math.MaxInt64 {
		c.Seq = e.collectiveSeq + 1
	}
	p.out.collectives = append(p.out.collectives, c)
}

// streamWait keeps a stream's wait for an event; waits of threads are API calls
// as well, and kept as those.
func (p *parser) streamWait() {
	e := &p.ev
	if e.has&(hasWait|hasStream|hasCorr) != hasWait|hasStream|hasCorr || string(p.bytes(e.name)) != "Stream Wait Event" {
		return
	}
	p.out.waits = append(p.out.waits, model.StreamWait{Corr: e.corr, Record: max(e.waitRecord, 0), Stream: e.stream, On: max(e.waitOn, -1)})
}

func (p *parser) strangeCategory(c *catEntry) {
	t := p.out
	if t.unknown == nil {
		t.unknown = map[string]int{}
	}
	t.unknown[c.text]++
}

func (p *parser) hostEvent(h *model.Host, kind model.Kind) {
	e := &p.ev
	h.Start, h.End = e.ts, e.ts+e.dur
	h.Name = p.name(e.name)
	h.Lane = p.lane()
	switch kind {
	case model.API:
		h.Corr = e.corr
		p.seenAPI = p.seenAPI || e.corr != 0
	case model.Op, model.Annotation:
		h.Corr = e.ext
		if e.has&hasSeq != 0 && e.seq >= 0 && e.seq < math.MaxInt64 {
			h.Seq = e.seq + 1
		}
		if s := p.senses[h.Name]; s.kind != 0 {
			kind = s.kind
		}
	}
	h.Kind = kind
	if p.senses[h.Name].costed && e.inputs[0].to > e.inputs[0].from {
		h.Stack = p.stackWithArgs()
	} else {
		h.Stack = p.stack(e.stack)
	}
}

func (p *parser) deviceEvent(g *model.GPU, kind model.Kind) {
	e := &p.ev
	g.Start, g.End = e.ts, e.ts+e.dur
	g.Name = p.name(e.name)
	g.Kind = kind
	g.Corr, g.Ext, g.Bytes = e.corr, e.ext, max(e.bytes, 0)
	g.Stream = e.stream
	if e.has&hasStream == 0 {
		g.Stream = p.track(e.tid)
	}
	id := e.device
	if e.has&hasDevice == 0 {
		id = p.track(e.pid)
	}
	g.Launch = int32(min(max(id, 0), math.MaxInt32))
	g.Blocks, g.Threads = e.blocks, int32(min(e.threads, math.MaxInt32))
	g.Graph = e.graph
	g.Process = -1
	if kind == model.Memcpy {
		s := p.copyOf(e.name, g.Name)
		g.Dir, g.Memory = s.dir, s.end
	}
	p.seenGPU = p.seenGPU || e.corr != 0
}

func (p *parser) flow() {
	e, t := &p.ev, p.out
	start := e.ph == 's'
	if e.ph == 't' || start && p.seenAPI || !start && p.seenGPU || e.has&(hasTS|hasID) != hasTS|hasID {
		return
	}
	if p.category(e.cat).meaning.category != launchFlow {
		return
	}
	t.flows = append(t.flows, flow{e.id, e.ts, p.track(e.pid), p.track(e.tid), start})
}

// instant keeps allocations, and marks on a host thread.
func (p *parser) instant(i int) {
	e, t := &p.ev, p.out
	c := p.category(e.cat)
	if k := c.meaning.category; e.cat.to > e.cat.from && k != instant && k != host {
		if k == unknown {
			p.strangeCategory(c)
		}
		return
	}
	name := p.name(e.name)
	s := p.senses[name]
	if s.window || !p.timed(i) {
		return
	}
	if !s.memory {
		t.host = append(t.host, model.Host{Start: e.ts, End: e.ts, Name: name, Lane: p.lane(), Kind: model.Instant})
		return
	}
	m := model.MemoryEvent{At: e.ts, Bytes: e.memory, Allocated: -1, Reserved: -1, Device: -1, Lane: p.lane()}
	if e.has&hasAllocated != 0 {
		m.Allocated = e.allocated
	}
	if e.has&hasReserved != 0 {
		m.Reserved = e.reserved
	}
	if e.deviceType != 0 {
		m.Device = int(max(e.deviceID, -1))
	}
	t.memory = append(t.memory, m)
}

// half keeps a begin or end event for pairing.
func (p *parser) half(i int) {
	e, t := &p.ev, p.out
	if !p.timed(i) {
		return
	}
	h := half{end: e.ph == 'E', what: ignored, lane: p.lane(), ts: e.ts}
	if !h.end {
		e.dur = 0
		switch c := p.category(e.cat); c.meaning.category {
		case host:
			h.what = host
			p.hostEvent(&h.host, c.meaning.kind)
		case device:
			h.what = device
			p.deviceEvent(&h.gpu, c.meaning.kind)
		case unknown:
			p.strangeCategory(c)
		}
	}
	t.pairs = append(t.pairs, h)
}
