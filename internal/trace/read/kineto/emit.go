package kineto

import (
	"math"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// emitEvent stores the parsed event that begins at i.
func (p *parser) emitEvent(i int) {
	e, t := &p.ev, p.out
	t.events++
	if e.ph != 0 {
		t.phased++
	}
	if e.ts < t.earliest && e.has&hasTS != 0 && e.ph != 'M' {
		t.earliest = e.ts
	}
	switch e.ph {
	case 'X':
		p.emitComplete(i)
	case 's', 'f', 't':
		p.emitFlow()
	case 'i', 'I', 'R':
		p.emitInstant(i)
	case 'B', 'E':
		p.emitHalf(i)
	case 'M':
		if string(p.bytesOfToken(e.name)) == "thread_name" {
			t.meta = append(t.meta, threadName{p.laneKey(), decodeString(p.bytesOfToken(e.argName))})
		}
	case 0:
		p.countBad(noPhase, i)
	}
}

// checkTime reports whether the event has a time; otherwise it counts the event as bad.
func (p *parser) checkTime(i int) bool {
	if p.ev.has&hasTS == 0 {
		p.countBad(noTime, i)
		return false
	}
	return true
}

func (p *parser) emitComplete(i int) {
	e, t := &p.ev, p.out
	c := p.lookUpCategory(e.cat)
	switch c.meaning.category {
	case host, device:
	case waiting:
		p.emitStreamWait()
		return
	case unknown:
		p.countUnknown(c)
		return
	default:
		return
	}
	if !p.checkTime(i) {
		return
	}
	switch {
	case e.has&hasDur == 0:
		p.countBad(noDuration, i)
		e.dur = 0
	case e.dur < 0 && c.meaning.category == host: // negative durations on devices are counted later (model.Gate)
		p.countBad(negative, i)
		e.dur = 0
	}
	if c.meaning.category == device {
		t.gpu = append(t.gpu, model.GPU{})
		p.fillDevice(&t.gpu[len(t.gpu)-1], c.meaning.kind)
		p.emitCollective()
		return
	}
	t.host = append(t.host, model.Host{})
	p.fillHost(&t.host[len(t.host)-1], c.meaning.kind)
}

// emitCollective stores PyTorch's description of the collective in a kernel.
func (p *parser) emitCollective() {
	e := &p.ev
	if e.collective.to == e.collective.from || e.has&hasCorr == 0 {
		return
	}
	c := model.Collective{Corr: e.corr, Name: p.numberName(e.collective), Group: p.numberName(e.groupName), Ranks: p.numberName(e.groupRanks), Element: p.numberName(e.element),
		Size: int32(min(max(e.groupSize, 0), math.MaxInt32)), In: max(e.inElements, 0), Out: max(e.outElements, 0)}
	if e.has&hasCollectiveSeq != 0 && e.collectiveSeq >= 0 && e.collectiveSeq < math.MaxInt64 {
		c.Seq = e.collectiveSeq + 1
	}
	p.out.collectives = append(p.out.collectives, c)
}

// emitStreamWait stores a stream's wait for an event. The profiler also records waits of threads as API calls.
func (p *parser) emitStreamWait() {
	e := &p.ev
	if e.has&(hasWait|hasStream|hasCorr) != hasWait|hasStream|hasCorr || string(p.bytesOfToken(e.name)) != "Stream Wait Event" {
		return
	}
	p.out.waits = append(p.out.waits, model.StreamWait{Corr: e.corr, Record: max(e.waitRecord, 0), Stream: e.stream, On: max(e.waitOn, -1)})
}

func (p *parser) countUnknown(c *catEntry) {
	t := p.out
	if t.unknown == nil {
		t.unknown = map[string]int{}
	}
	t.unknown[c.text]++
}

func (p *parser) fillHost(h *model.Host, kind model.Kind) {
	e := &p.ev
	h.Start, h.End = e.ts, e.ts+e.dur
	h.Name = p.numberName(e.name)
	h.Lane = p.numberLane()
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
		h.Stack = p.numberStack(e.stack)
	}
}

func (p *parser) fillDevice(g *model.GPU, kind model.Kind) {
	e := &p.ev
	g.Start, g.End = e.ts, e.ts+e.dur
	g.Name = p.numberName(e.name)
	g.Kind = kind
	g.Corr, g.Ext, g.Bytes = e.corr, e.ext, max(e.bytes, 0)
	g.Stream = e.stream
	if e.has&hasStream == 0 {
		g.Stream = p.trackNumber(e.tid)
	}
	id := e.device
	if e.has&hasDevice == 0 {
		id = p.trackNumber(e.pid)
	}
	g.Launch = int32(min(max(id, 0), math.MaxInt32))
	g.Blocks, g.Threads = e.blocks, int32(min(e.threads, math.MaxInt32))
	g.Graph = e.graph
	g.Process = -1
	if kind == model.Memcpy {
		s := p.lookUpCopy(e.name, g.Name)
		g.Dir, g.Memory = s.dir, s.hostMemory
	}
	p.seenGPU = p.seenGPU || e.corr != 0
}

func (p *parser) emitFlow() {
	e, t := &p.ev, p.out
	start := e.ph == 's'
	if e.ph == 't' || start && p.seenAPI || !start && p.seenGPU || e.has&(hasTS|hasID) != hasTS|hasID {
		return
	}
	if p.lookUpCategory(e.cat).meaning.category != launchFlow {
		return
	}
	t.flows = append(t.flows, flow{e.id, e.ts, p.trackNumber(e.pid), p.trackNumber(e.tid), start})
}

// emitInstant stores allocations, and marks on host threads.
func (p *parser) emitInstant(i int) {
	e, t := &p.ev, p.out
	c := p.lookUpCategory(e.cat)
	if k := c.meaning.category; e.cat.to > e.cat.from && k != instant && k != host {
		if k == unknown {
			p.countUnknown(c)
		}
		return
	}
	name := p.numberName(e.name)
	s := p.senses[name]
	if s.window || !p.checkTime(i) {
		return
	}
	if !s.memory {
		t.host = append(t.host, model.Host{Start: e.ts, End: e.ts, Name: name, Lane: p.numberLane(), Kind: model.Instant})
		return
	}
	m := model.MemoryEvent{At: e.ts, Bytes: e.memory, Allocated: -1, Reserved: -1, Device: -1, Lane: p.numberLane()}
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

// emitHalf stores a begin or end event for pairing.
func (p *parser) emitHalf(i int) {
	e, t := &p.ev, p.out
	if !p.checkTime(i) {
		return
	}
	h := halfEvent{end: e.ph == 'E', category: ignored, lane: p.numberLane(), ts: e.ts}
	if !h.end {
		e.dur = 0
		switch c := p.lookUpCategory(e.cat); c.meaning.category {
		case host:
			h.category = host
			p.fillHost(&h.host, c.meaning.kind)
		case device:
			h.category = device
			p.fillDevice(&h.gpu, c.meaning.kind)
		case unknown:
			p.countUnknown(c)
		}
	}
	t.halves = append(t.halves, h)
}
