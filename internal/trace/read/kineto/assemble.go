package kineto

import (
	"math"
	"runtime"
	"slices"
	"strconv"

	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// assembleTrace copies the tables into the trace, with host events grouped by lane, and frees their chunks. It
// returns the shift added to all times, ns.
func (m *merger) assembleTrace() int64 {
	t := m.t
	if m.overhead > 0 {
		t.Inflated = true
	}
	m.numberLanes()
	m.readDescription()
	shift := m.timeShift()
	t.Shift = shift
	if m.earliest < math.MaxInt64 {
		t.First = m.earliest + shift
	}
	if raw, ok := m.doc.found[document.PartMember]; ok {
		t.Cut = model.ReadCut(raw, shift)
	}
	m.linkFlows()
	m.fillTables(shift)
	m.assignProcesses()
	m.nameLanes()
	return shift
}

func (m *merger) fillTables(shift int64) {
	t := m.t
	at := make([]int, len(m.perLane)+1)
	for i, n := range m.perLane {
		at[i+1] = at[i] + n
	}
	t.Host = make([]model.Host, m.host.n)
	for c, chunk := range m.host.chunks {
		for _, h := range chunk {
			h.Start += shift
			h.End += shift
			k := h.Lane
			h.Lane = m.laneIndex[k]
			t.Host[at[k]] = h
			at[k]++
		}
		m.host.chunks[c] = nil
	}
	t.GPU = make([]model.GPU, 0, m.gpu.n)
	for c, chunk := range m.gpu.chunks {
		for _, g := range chunk {
			g.Start += shift
			g.End += shift
			g.Device = m.deviceIndex[g.Device]
			t.GPU = append(t.GPU, g)
		}
		m.gpu.chunks[c] = nil
	}
	t.Memory = make([]model.MemoryEvent, 0, m.memory.n)
	for c, chunk := range m.memory.chunks {
		for _, e := range chunk {
			e.At += shift
			e.Lane = m.laneIndex[e.Lane]
			t.Memory = append(t.Memory, e)
		}
		m.memory.chunks[c] = nil
	}
	if m.host.n+m.gpu.n+m.memory.n > manyRows {
		runtime.GC()
	}
}

// manyRows: a trace with more rows runs the garbage collector after the copy, because the copied chunks are as large
// as the tables. Otherwise the heap would grow to twice the live size. A collection is cheap, because rows hold no
// pointers.
const manyRows = 1 << 19

// timeShift returns the ns to add to every time. Newer Kineto versions count from baseTimeNanoseconds, and absolute
// times make the ranks of a job comparable. It is 0 if the times are already absolute.
func (m *merger) timeShift() int64 {
	raw, ok := m.doc.found["baseTimeNanoseconds"]
	if !ok {
		return 0
	}
	base, ok := parseDecimal(trimScalar(raw), 0)
	if !ok || base <= 0 || base > timeLimitNS {
		return 0
	}
	last := int64(math.MinInt64)
	for h := range m.host.eachRow() {
		last = max(last, h.End)
	}
	for g := range m.gpu.eachRow() {
		last = max(last, g.End)
	}
	for e := range m.memory.eachRow() {
		last = max(last, e.At)
	}
	if last >= base {
		return 0
	}
	return base
}

// numberLanes numbers the lanes in use. Process and thread ids that are texts become negative numbers, from -2 down.
func (m *merger) numberLanes() {
	used := slices.Clone(m.perLane)
	for e := range m.memory.eachRow() {
		used[e.Lane]++
	}
	texts := map[string]int64{}
	number := func(text string) int64 {
		v, ok := texts[text]
		if !ok {
			v = -2 - int64(len(texts))
			texts[text] = v
		}
		return v
	}
	m.laneIndex, m.inUse = make([]uint32, len(m.laneKeys)), make([]bool, len(m.laneKeys))
	for i, k := range m.laneKeys {
		if used[i] == 0 {
			continue
		}
		m.inUse[i] = true
		m.laneIndex[i] = uint32(len(m.t.Lanes))
		l := model.Lane{Thread: k.tid, Name: k.tidText}
		if k.tidText != "" {
			l.Thread = number(k.tidText)
		}
		switch {
		case k.pidText != "":
			l.Process = int32(number(k.pidText))
		case k.pid == int64(int32(k.pid)):
			l.Process = int32(k.pid)
		default:
			l.Process = int32(number(strconv.FormatInt(k.pid, 10)))
		}
		m.t.Lanes = append(m.t.Lanes, l)
	}
}

func (m *merger) nameLanes() {
	for _, n := range m.meta {
		if i, ok := m.lanes[n.lane]; ok && n.name != "" && m.inUse[i] {
			m.t.Lanes[m.laneIndex[i]].Name = n.name
		}
	}
}
