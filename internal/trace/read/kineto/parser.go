package kineto

import (
	"math"

	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

// parser parses windows of text into batches. It keeps its numbers of names, stacks and lanes for all windows.
type parser struct {
	b               []byte // text and padding
	n               int    // length of the text
	st              status // reason why reading stopped
	careful         bool   // strings are scanned carefully (see stringEnd)
	crossed         bool   // careful scanning of a string (see stringEnd) ran into the next event
	boundary        int    // the first index after boundaryFrom at which an event seems to begin, n+1 none, 0 not searched yet
	boundaryFrom    int
	from, fruitless int // start of the current event; bytes scanned in this window without a result
	// looked counts scanned bytes, each time they are scanned. It must stay proportional to the text
	// (TestHostileText).
	looked  int64
	ev      event
	out     *batch
	onEvent func(i, j int) // gets the events instead of out; nil to emit them

	names  interner
	senses []nameSense // by name
	stacks interner
	noText []bool // by stack: it has no frames
	// scratch is the buffer of stackWithArgs.
	scratch []byte
	lanes   map[laneKey]uint32
	recent  [64]laneEntry
	cats    [64]catEntry
	// seenAPI and seenGPU report that an API call or a device event with a correlation id was read. Flows from API
	// calls or to device events are then not needed.
	seenAPI, seenGPU bool
}

type laneEntry struct {
	pid, tid int64
	id       uint32 // number plus one
}

type catEntry struct {
	text    string
	known   bool
	meaning meaning
}

func newParser(id int) *parser {
	return &parser{names: newInterner(), stacks: newInterner(), lanes: map[laneKey]uint32{}, out: &batch{parser: id}}
}

// isGuarded reports whether parsing an event must stop at the next event start. It must if more than twice the window
// was scanned in vain, which bounds the work on hostile files. The rule depends on the window only, because a trace
// must not depend on the division of blocks among parsers.
func (p *parser) isGuarded() bool { return p.fruitless > 2*len(p.b) }

// parseEvents parses elements of the event array from i on. It stops at the end of the array or of the window, or at
// an element that does not end in the window. final means that no text follows the window.
func (p *parser) parseEvents(b []byte, n, i int, at int64, final bool) *batch {
	p.b, p.n, p.boundary, p.fruitless = b, n, 0, 0
	t := p.out
	t.reset(at)
	for {
		from := i
		for i = skipSpace(b, i); b[i] == ','; i = skipSpace(b, i) {
			i++
		}
		p.looked += int64(i - from)
		if i >= n {
			t.pos = n
			return t
		}
		switch b[i] {
		case '{':
			j := p.nextEvent(i)
			if j < 0 {
				if j = p.repairEvent(i, final); j < 0 {
					t.pos = i
					return t
				}
			}
			i = j
		case ']':
			t.pos, t.ended = i+1, true
			return t
		default:
			j := p.skipElement(i)
			if j < 0 {
				t.pos = i
				return t
			}
			i = j
		}
	}
}

// nextBoundary returns the first event start after i (nextEventStart), n+1 for none. It keeps the result, so that all
// calls together scan the window once.
func (p *parser) nextBoundary(i int) int {
	if p.boundary == 0 || i < p.boundaryFrom || i >= p.boundary {
		p.boundaryFrom, p.boundary = i, nextEventStart(p.b, i, p.n)
		if p.boundary < 0 {
			p.boundary = p.n + 1
		}
		p.looked += int64(p.boundary - i)
	}
	return p.boundary
}

// limitToEvent runs f on a window that ends at the next event start.
func (p *parser) limitToEvent(i int, f func(i int) int) int {
	k, n := p.nextBoundary(i), p.n
	p.n = min(k, n)
	defer func() { p.n = n }()
	return f(i)
}

// skipElement skips the element at i, which is not an object. It returns the index after it, or -1.
func (p *parser) skipElement(i int) int {
	p.out.notObjects++
	p.crossed, p.from = false, i
	if j := p.limitToEvent(i, func(i int) int { return p.skipValue(i, element) }); j >= 0 {
		p.looked += int64(j - i)
		return j
	}
	if k := p.nextBoundary(i); k < p.n {
		return k
	}
	return -1
}

// nextEvent parses and stores the event at i and returns the index after it.
func (p *parser) nextEvent(i int) int {
	if p.isGuarded() {
		return p.limitToEvent(i, p.tryEvent)
	}
	return p.tryEvent(i)
}

func (p *parser) tryEvent(i int) int {
	p.crossed, p.from = false, i
	j := p.parseEvent(i)
	if j < 0 {
		return j
	}
	if !p.careful {
		// Names may contain unescaped quotation marks. The parser may take one for the end of the name, and then a
		// brace in the name for the end of the event. So check the text after the event.
		switch k := skipSpace(p.b, j); p.b[k] {
		case ',', ']', '{':
		default:
			if k < p.n {
				return p.failAt(k)
			}
		}
	}
	p.looked += int64(j - i)
	if p.onEvent != nil {
		p.onEvent(i, j)
		return j
	}
	p.emitEvent(i)
	return j
}

// repairEvent handles an event at i that could not be parsed. It tries again with careful scanning of strings (see
// stringEnd), else it leaves the event out. It returns the index where parsing continues, or -1 for more text.
func (p *parser) repairEvent(i int, final bool) int {
	broken := p.st == malformed
	p.careful = true
	j := p.nextEvent(i)
	p.careful = false
	if j >= 0 {
		return j
	}
	broken = broken || p.st == malformed || p.isGuarded() && p.nextBoundary(i) < p.n
	if !broken && !final {
		return -1
	}
	p.crossed = false
	j = p.limitToEvent(i, func(i int) int { return p.skipValue(i, element) })
	k := p.nextBoundary(i)
	if j >= 0 {
		p.looked += int64(j - i)
		if c := p.b[skipSpace(p.b, j)]; c == ',' || c == ']' {
			k = j
		}
	}
	if k >= p.n {
		return -1
	}
	p.countBad(unreadable, i)
	return k
}

func (p *parser) countBad(why, i int) {
	t := p.out
	if why == unreadable {
		t.events++
	}
	t.bad[why]++
	if t.firstBad < 0 {
		t.firstBad = t.at + int64(i)
	}
}

func (p *parser) bytesOfToken(t token) []byte { return p.b[t.from:t.to] }

// lookUpCategory returns the entry of a category; a file has only a few.
func (p *parser) lookUpCategory(t token) *catEntry {
	s := p.bytesOfToken(t)
	h := uint(len(s))
	if h > 0 {
		h += uint(s[0])*7 + uint(s[len(s)-1])*31 + uint(s[len(s)/2])*3
	}
	e := &p.cats[h%uint(len(p.cats))]
	if !e.known || e.text != string(s) {
		text := decodeString(s)
		*e = catEntry{text: string(s), known: true, meaning: parseCategory(text)}
	}
	return e
}

func (p *parser) lookUpCopy(t token, id model.NameID) nameSense {
	s := &p.senses[id]
	if !s.copied {
		s.copied = true
		s.dir, s.hostMemory = parseCopyName(decodeString(p.bytesOfToken(t)))
	}
	return *s
}

// nameMax limits a name, bytes, because every rule searches whole names. C++ templates take some thousand.
const nameMax = 64 << 10

func (p *parser) numberName(t token) model.NameID {
	raw := p.bytesOfToken(t)
	if len(raw) > nameMax {
		raw = raw[:nameMax]
	}
	id, fresh := p.names.numberOf(raw)
	if fresh {
		text := decodeString(raw)
		if key := p.names.keys[id]; text == key {
			text = key
		}
		p.out.names = append(p.out.names, text)
		p.senses = append(p.senses, parseName(text))
	}
	return model.NameID(id)
}

// numberStack returns the number of a call stack plus one; 0 for a stack without frames.
func (p *parser) numberStack(t token) uint32 {
	if t.to == t.from {
		return 0
	}
	id, fresh := p.stacks.numberOf(p.bytesOfToken(t))
	if fresh {
		text := reverseFrames(decodeString(p.bytesOfToken(t)))
		p.out.stacks = append(p.out.stacks, text)
		p.noText = append(p.noText, text == "")
	}
	if p.noText[id] {
		return 0
	}
	return id + 1
}

// Argument lists are dropped if they are longer than longestArgs, bytes, or after mostArgs different stacks: an
// operator with new shapes in every call would fill the memory.
const (
	longestArgs = 4 << 10
	mostArgs    = 1 << 17
)

// stackWithArgs numbers an operator's stack and arguments as one text, and returns the number plus one.
func (p *parser) stackWithArgs() uint32 {
	e := &p.ev
	p.scratch = append(p.scratch[:0], p.bytesOfToken(e.stack)...)
	p.scratch = append(p.scratch, model.ArgsMark...)
	for i, part := range e.inputs {
		if i > 0 {
			p.scratch = append(p.scratch, opcost.Separator...)
		}
		p.scratch = append(p.scratch, p.bytesOfToken(part)...)
	}
	key := p.scratch
	if len(key)-(e.stack.to-e.stack.from) > longestArgs || len(p.stacks.keys) >= mostArgs {
		return p.numberStack(e.stack)
	}
	id, fresh := p.stacks.numberOf(key)
	if fresh {
		args := string(key[e.stack.to-e.stack.from:])
		p.out.stacks = append(p.out.stacks, reverseFrames(decodeString(p.bytesOfToken(e.stack)))+args)
		p.noText = append(p.noText, false)
	}
	return id + 1
}

func (p *parser) numberLane() uint32 {
	e := &p.ev
	numbers := e.pid.text.to == 0 && e.tid.text.to == 0
	var near *laneEntry
	if numbers {
		near = &p.recent[(uint64(e.pid.num)*0x9E3779B97F4A7C15^uint64(e.tid.num)*0xC2B2AE3D27D4EB4F)>>58]
		if near.id != 0 && near.pid == e.pid.num && near.tid == e.tid.num {
			return near.id - 1
		}
	}
	k := p.laneKey()
	id, ok := p.lanes[k]
	if !ok {
		id = uint32(len(p.lanes))
		p.lanes[k] = id
		p.out.lanes = append(p.out.lanes, k)
	}
	if numbers {
		*near = laneEntry{e.pid.num, e.tid.num, id + 1}
	}
	return id
}

func (p *parser) laneKey() laneKey {
	e := &p.ev
	return laneKey{e.pid.num, e.tid.num, decodeString(p.bytesOfToken(e.pid.text)), decodeString(p.bytesOfToken(e.tid.text))}
}

// trackNumber returns the number in a device's pid or tid: 7 for "stream 7".
func (p *parser) trackNumber(a actor) int64 {
	if a.text.to == 0 {
		return a.num
	}
	s := p.bytesOfToken(a.text)
	var v, unit int64 = 0, 1
	for i := len(s) - 1; i >= 0 && s[i]-'0' <= 9 && unit < math.MaxInt64/100; i-- {
		v += int64(s[i]-'0') * unit
		unit *= 10
	}
	return v
}
