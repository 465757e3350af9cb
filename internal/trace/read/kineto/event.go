package kineto

// token is a range of the window.
type token struct{ from, to int }

// Flags of the fields that an event has.
const (
	hasTS = 1 << iota
	hasDur
	badTS
	badDur
	hasCorr
	hasExt
	hasDevice
	hasStream
	hasSeq
	hasAllocated
	hasReserved
	hasID
	hasWait
	hasCollectiveSeq
)

// actor is a pid or tid: a number, or a text.
type actor struct {
	num  int64
	text token // empty for a number
}

// event holds the fields of the current event; the next event overwrites it.
type event struct {
	has  uint32
	ph   byte
	cat  token
	name token
	pid  actor
	tid  actor
	ts   int64
	dur  int64
	id   int64

	corr, ext, device, stream, seq        int64
	bytes, allocated, reserved, memory    int64
	deviceType, deviceID, blocks, threads int64
	waitOn, waitRecord                    int64
	groupSize, inElements, outElements    int64
	collectiveSeq                         int64
	graph                                 bool
	stack, argName                        token
	inputs                                [4]token // dims, types, strides and values of an operator's arguments
	collective, groupName, groupRanks     token
	element                               token
}

// field is a key of an event or of its arguments whose value is parsed.
type field uint8

const (
	other field = iota
	fPh
	fCat
	fName
	fPid
	fTid
	fTs
	fDur
	fID
	fArgs
	fCorr
	fExt
	fDevice
	fStream
	fSeq
	fBytes
	fMemory
	fAllocated
	fReserved
	fDeviceType
	fDeviceID
	fGrid
	fBlock
	fGraph
	fStack
	fDims // four lists of an operator's arguments, in the order of opcost.Parse
	fTypes
	fStrides
	fValues
	fArgName
	fWaitStream
	fWaitRecord
	fCollective
	fGroupName
	fGroupRanks
	fGroupSize
	fInElements
	fOutElements
	fElement
	fCollectiveSeq
)

// parseEvent parses the event whose opening brace is at i into p.ev and returns the index after it. Otherwise it
// returns -1 with p.st set to malformed or, at the end of the window, incomplete.
func (p *parser) parseEvent(i int) int {
	b := p.b
	p.ev = event{}
	if i = skipSpace(b, i+1); b[i] == '}' && i < p.n {
		return i + 1
	}
	for {
		if b[i] != '"' {
			return p.failAt(i)
		}
		f, j := eventKey(b, i+1)
		if j < 0 {
			if j = p.stringEnd(i+1, key); j >= p.n {
				return p.failAt(p.n)
			}
			j++
		}
		if j = skipSpace(b, j); b[j] != ':' {
			return p.failAt(j)
		}
		if i = p.parseValue(f, skipSpace(b, j+1)); i < 0 {
			return i
		}
		i = skipSpace(b, i)
		if b[i] == ',' {
			i = skipSpace(b, i+1)
			continue
		}
		if b[i] != '}' || i >= p.n {
			return p.failAt(i)
		}
		return i + 1
	}
}

// eventKey matches an event's key by its first bytes. It returns the field and the index after the closing quote, or
// -1.
func eventKey(b []byte, i int) (field, int) {
	w := load(b, i)
	switch w & 0xFFFFFFFF {
	case 'c' | 'a'<<8 | 't'<<16 | '"'<<24:
		return fCat, i + 4
	case 'p' | 'i'<<8 | 'd'<<16 | '"'<<24:
		return fPid, i + 4
	case 't' | 'i'<<8 | 'd'<<16 | '"'<<24:
		return fTid, i + 4
	case 'd' | 'u'<<8 | 'r'<<16 | '"'<<24:
		return fDur, i + 4
	case 'n' | 'a'<<8 | 'm'<<16 | 'e'<<24:
		if b[i+4] == '"' {
			return fName, i + 5
		}
	case 'a' | 'r'<<8 | 'g'<<16 | 's'<<24:
		if b[i+4] == '"' {
			return fArgs, i + 5
		}
	}
	switch w & 0xFFFFFF {
	case 'p' | 'h'<<8 | '"'<<16:
		return fPh, i + 3
	case 't' | 's'<<8 | '"'<<16:
		return fTs, i + 3
	case 'i' | 'd'<<8 | '"'<<16:
		return fID, i + 3
	}
	return other, -1
}

// parseValue parses the value at i of an event's key and returns the index after it.
func (p *parser) parseValue(f field, i int) int {
	e := &p.ev
	switch f {
	case fPh:
		t, j := p.parseText(i)
		if t.to > t.from {
			e.ph = p.b[t.from]
		}
		return j
	case fCat:
		e.cat, i = p.parseText(i)
	case fName:
		e.name, i = p.parseText(i)
	case fPid:
		return p.parseActor(i, &e.pid)
	case fTid:
		return p.parseActor(i, &e.tid)
	case fTs:
		return p.parseTime(i, &e.ts, hasTS, badTS)
	case fDur:
		return p.parseTime(i, &e.dur, hasDur, badDur)
	case fID:
		return p.parseNumber(i, &e.id, hasID)
	case fArgs:
		if p.b[i] == '{' {
			return p.parseArgs(i)
		}
		return p.skipValue(i, member)
	default:
		return p.skipValue(i, member)
	}
	return i
}

// parseText parses a value as text: a string without its quotes, or any other token.
func (p *parser) parseText(i int) (token, int) {
	if p.b[i] != '"' {
		j := p.skipValue(i, member)
		return token{i, max(i, j)}, j
	}
	q := p.stringEnd(i+1, member)
	if q >= p.n {
		return token{}, p.failAt(p.n)
	}
	return token{i + 1, q}, q + 1
}

// parseTime parses a time in ns from a number or a string with a number.
func (p *parser) parseTime(i int, to *int64, good, bad uint32) int {
	b := p.b
	if v, j, ok := parseNanos(b, i); ok && j < p.n {
		*to = v
		p.ev.has |= good
		return j
	}
	t, j := p.parseText(i)
	if j < 0 {
		return j
	}
	if b[i] == '"' {
		if v, end, ok := parseNanos(b, t.from); ok && end == t.to {
			*to = v
			p.ev.has |= good
			return j
		}
	}
	p.ev.has |= bad
	return j
}

// parseNumber parses an integer from a number or a string, also hexadecimal.
func (p *parser) parseNumber(i int, to *int64, good uint32) int {
	if v, j, ok := parseInteger(p.b, i); ok && j < p.n {
		*to = v
		p.ev.has |= good
		return j
	}
	t, j := p.parseText(i)
	if j < 0 {
		return j
	}
	if v, ok := parseIntegerText(p.b[t.from:t.to]); ok {
		*to = v
		p.ev.has |= good
	}
	return j
}

func (p *parser) parseActor(i int, a *actor) int {
	if v, j, ok := parseInteger(p.b, i); ok && j < p.n {
		*a = actor{num: v}
		return j
	}
	t, j := p.parseText(i)
	if j < 0 {
		return j
	}
	*a = actor{text: t}
	if v, ok := parseIntegerText(p.b[t.from:t.to]); ok {
		*a = actor{num: v}
	}
	return j
}
