package kineto

import "math"

// parseArgs parses the args object at i and returns the index after it. It skips values of unknown keys.
func (p *parser) parseArgs(i int) int {
	b := p.b
	if i = skipSpace(b, i+1); b[i] == '}' && i < p.n {
		return i + 1
	}
	for {
		if b[i] != '"' {
			return p.failAt(i)
		}
		f, j := argKey(b, i+1)
		if j < 0 {
			if j = p.stringEnd(i+1, key); j >= p.n {
				return p.failAt(p.n)
			}
			j++
		}
		if j = skipSpace(b, j); b[j] != ':' {
			return p.failAt(j)
		}
		if j = skipSpace(b, j+1); f == other {
			i = p.skipValue(j, member)
		} else {
			i = p.parseArg(f, j)
		}
		if i < 0 {
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

// The constants pack the first eight bytes of a key in the byte order of load.
const (
	wExternal   = 'E' | 'x'<<8 | 't'<<16 | 'e'<<24 | 'r'<<32 | 'n'<<40 | 'a'<<48 | 'l'<<56
	wexternal   = 'e' | 'x'<<8 | 't'<<16 | 'e'<<24 | 'r'<<32 | 'n'<<40 | 'a'<<48 | 'l'<<56
	wCorrelat   = 'c' | 'o'<<8 | 'r'<<16 | 'r'<<24 | 'e'<<32 | 'l'<<40 | 'a'<<48 | 't'<<56
	wSequence   = 'S' | 'e'<<8 | 'q'<<16 | 'u'<<24 | 'e'<<32 | 'n'<<40 | 'c'<<48 | 'e'<<56
	wCallStack  = 'C' | 'a'<<8 | 'l'<<16 | 'l'<<24 | ' '<<32 | 's'<<40 | 't'<<48 | 'a'<<56
	wInputDims  = 'I' | 'n'<<8 | 'p'<<16 | 'u'<<24 | 't'<<32 | ' '<<40 | 'D'<<48 | 'i'<<56
	wInputType  = 'I' | 'n'<<8 | 'p'<<16 | 'u'<<24 | 't'<<32 | ' '<<40 | 't'<<48 | 'y'<<56
	wInputStri  = 'I' | 'n'<<8 | 'p'<<16 | 'u'<<24 | 't'<<32 | ' '<<40 | 'S'<<48 | 't'<<56
	wConcrete   = 'C' | 'o'<<8 | 'n'<<16 | 'c'<<24 | 'r'<<32 | 'e'<<40 | 't'<<48 | 'e'<<56
	wGraphID    = 'g' | 'r'<<8 | 'a'<<16 | 'p'<<24 | 'h'<<32 | ' '<<40 | 'i'<<48 | 'd'<<56
	wGraphNode  = 'g' | 'r'<<8 | 'a'<<16 | 'p'<<24 | 'h'<<32 | ' '<<40 | 'n'<<48 | 'o'<<56
	wTotalAllo  = 'T' | 'o'<<8 | 't'<<16 | 'a'<<24 | 'l'<<32 | ' '<<40 | 'A'<<48 | 'l'<<56
	wTotalRese  = 'T' | 'o'<<8 | 't'<<16 | 'a'<<24 | 'l'<<32 | ' '<<40 | 'R'<<48 | 'e'<<56
	wDeviceTyp  = 'D' | 'e'<<8 | 'v'<<16 | 'i'<<24 | 'c'<<32 | 'e'<<40 | ' '<<48 | 'T'<<56
	wDeviceID   = 'D' | 'e'<<8 | 'v'<<16 | 'i'<<24 | 'c'<<32 | 'e'<<40 | ' '<<48 | 'I'<<56
	wDevice     = 'd' | 'e'<<8 | 'v'<<16 | 'i'<<24 | 'c'<<32 | 'e'<<40 | '"'<<48
	wStream     = 's' | 't'<<8 | 'r'<<16 | 'e'<<24 | 'a'<<32 | 'm'<<40 | '"'<<48
	wWaitOn     = 'w' | 'a'<<8 | 'i'<<16 | 't'<<24 | '_'<<32 | 'o'<<40 | 'n'<<48 | '_'<<56
	wCollective = 'C' | 'o'<<8 | 'l'<<16 | 'l'<<24 | 'e'<<32 | 'c'<<40 | 't'<<48 | 'i'<<56
	wProcess    = 'P' | 'r'<<8 | 'o'<<16 | 'c'<<24 | 'e'<<32 | 's'<<40 | 's'<<48 | ' '<<56
	wGroupSize  = 'G' | 'r'<<8 | 'o'<<16 | 'u'<<24 | 'p'<<32 | ' '<<40 | 's'<<48 | 'i'<<56
	wInMsg      = 'I' | 'n'<<8 | ' '<<16 | 'm'<<24 | 's'<<32 | 'g'<<40 | ' '<<48 | 'n'<<56
	wOutMsg     = 'O' | 'u'<<8 | 't'<<16 | ' '<<24 | 'm'<<32 | 's'<<40 | 'g'<<48 | ' '<<56
	wdtype      = 'd' | 't'<<8 | 'y'<<16 | 'p'<<24 | 'e'<<32 | '"'<<40
	wSeq        = 'S' | 'e'<<8 | 'q'<<16 | '"'<<24
	wbytes      = 'b' | 'y'<<8 | 't'<<16 | 'e'<<24 | 's'<<32 | '"'<<40
	wBytes      = 'B' | 'y'<<8 | 't'<<16 | 'e'<<24 | 's'<<32 | '"'<<40
	wBlock      = 'b' | 'l'<<8 | 'o'<<16 | 'c'<<24 | 'k'<<32 | '"'<<40
	wGrid       = 'g' | 'r'<<8 | 'i'<<16 | 'd'<<24 | '"'<<32
	wName       = 'n' | 'a'<<8 | 'm'<<16 | 'e'<<24 | '"'<<32
)

// argKey matches keys of arguments, as eventKey matches keys of events.
func argKey(b []byte, i int) (field, int) {
	w := load(b, i)
	switch w {
	case wExternal, wexternal:
		return matchTail(b, i+8, ` id"`, fExt)
	case wCorrelat:
		return matchTail(b, i+8, `ion"`, fCorr)
	case wSequence:
		return matchTail(b, i+8, ` number"`, fSeq)
	case wCallStack:
		return matchTail(b, i+8, `ck"`, fStack)
	case wInputDims, wInputType, wInputStri, wConcrete:
		return inputKey(b, i, w)
	case wWaitOn:
		if f, j := matchTail(b, i+8, `stream"`, fWaitStream); j > 0 {
			return f, j
		}
		return matchTail(b, i+8, `cuda_event_record_corr_id"`, fWaitRecord)
	case wGraphID:
		return matchTail(b, i+8, `"`, fGraph)
	case wGraphNode:
		return matchTail(b, i+8, `de id"`, fGraph)
	case wTotalAllo:
		return matchTail(b, i+8, `located"`, fAllocated)
	case wTotalRese:
		return matchTail(b, i+8, `served"`, fReserved)
	case wDeviceTyp:
		return matchTail(b, i+8, `ype"`, fDeviceType)
	case wDeviceID:
		return matchTail(b, i+8, `d"`, fDeviceID)
	case wCollective:
		return matchTail(b, i+8, `ve name"`, fCollective)
	case wProcess:
		if f, j := matchTail(b, i+8, `Group Name"`, fGroupName); j > 0 {
			return f, j
		}
		return matchTail(b, i+8, `Group Ranks"`, fGroupRanks)
	case wGroupSize:
		return matchTail(b, i+8, `ze"`, fGroupSize)
	case wInMsg:
		return matchTail(b, i+8, `elems"`, fInElements)
	case wOutMsg:
		return matchTail(b, i+8, `nelems"`, fOutElements)
	}
	return shortArgKey(b, i, w)
}

// inputKey matches the keys of an operator's recorded arguments.
func inputKey(b []byte, i int, w uint64) (field, int) {
	switch w {
	case wInputDims:
		return matchTail(b, i+8, `ms"`, fDims)
	case wInputType:
		return matchTail(b, i+8, `pe"`, fTypes)
	case wInputStri:
		return matchTail(b, i+8, `rides"`, fStrides)
	}
	return matchTail(b, i+8, ` Inputs"`, fValues)
}

func shortArgKey(b []byte, i int, w uint64) (field, int) {
	switch b[i] {
	case 'S':
		if w&(1<<32-1) == wSeq {
			return fCollectiveSeq, i + 4
		}
	case 'd', 's':
		if w&(1<<48-1) == wdtype {
			return fElement, i + 6
		}
		switch w & (1<<56 - 1) {
		case wDevice:
			return fDevice, i + 7
		case wStream:
			return fStream, i + 7
		}
	case 'b', 'B':
		switch w & (1<<48 - 1) {
		case wbytes:
			return fBytes, i + 6
		case wBlock:
			return fBlock, i + 6
		case wBytes:
			return fMemory, i + 6
		}
	case 'g', 'n':
		switch w & (1<<40 - 1) {
		case wGrid:
			return fGrid, i + 5
		case wName:
			return fArgName, i + 5
		}
	}
	return other, -1
}

// matchTail returns f and the index after tail if b continues with tail at i, else the constant other and -1.
func matchTail(b []byte, i int, tail string, f field) (field, int) {
	if string(b[i:i+len(tail)]) == tail {
		return f, i + len(tail)
	}
	return other, -1
}

// parseArg parses the value at i of a known argument and returns the index after it.
func (p *parser) parseArg(f field, i int) int {
	e := &p.ev
	if to, has := e.numberTarget(f); to != nil {
		return p.parseNumber(i, to, has)
	}
	switch f {
	case fGraph:
		return p.parseGraph(i)
	case fCollective:
		e.collective, i = p.parseText(i)
	case fGroupName:
		e.groupName, i = p.parseText(i)
	case fGroupRanks:
		e.groupRanks, i = p.parseText(i)
	case fElement:
		e.element, i = p.parseText(i)
	case fGrid:
		return p.parseProduct(i, &e.blocks)
	case fBlock:
		return p.parseProduct(i, &e.threads)
	case fDims, fTypes, fStrides, fValues:
		j := p.skipValue(i, member)
		e.inputs[f-fDims] = token{i, max(i, j)}
		return j
	case fStack:
		e.stack, i = p.parseText(i)
	default:
		e.argName, i = p.parseText(i)
	}
	return i
}

// numberTarget returns the variable and the flag of a numeric argument; nil for other arguments.
func (e *event) numberTarget(f field) (*int64, uint32) {
	switch f {
	case fCorr:
		return &e.corr, hasCorr
	case fExt:
		return &e.ext, hasExt
	case fDevice:
		return &e.device, hasDevice
	case fStream:
		return &e.stream, hasStream
	case fWaitStream:
		return &e.waitOn, hasWait
	case fWaitRecord:
		return &e.waitRecord, 0
	case fSeq:
		return &e.seq, hasSeq
	case fBytes:
		return &e.bytes, 0
	case fMemory:
		return &e.memory, 0
	case fAllocated:
		return &e.allocated, hasAllocated
	case fReserved:
		return &e.reserved, hasReserved
	case fDeviceType:
		return &e.deviceType, 0
	case fDeviceID:
		return &e.deviceID, 0
	case fGroupSize:
		return &e.groupSize, 0
	case fInElements:
		return &e.inElements, 0
	case fOutElements:
		return &e.outElements, 0
	case fCollectiveSeq:
		return &e.collectiveSeq, hasCollectiveSeq
	default:
		return nil, 0
	}
}

func (p *parser) parseGraph(i int) int {
	var id int64
	j := p.parseNumber(i, &id, 0)
	p.ev.graph = p.ev.graph || id != 0
	return j
}

// parseProduct multiplies the integers of the array at i, saturating at the largest int64.
func (p *parser) parseProduct(i int, to *int64) int {
	b := p.b
	if b[i] != '[' {
		return p.parseNumber(i, to, 0)
	}
	v := int64(1)
	for k := skipSpace(b, i+1); k < p.n; k = skipSpace(b, k) {
		if b[k] == ']' {
			*to = v
			return k + 1
		}
		x, j, ok := parseInteger(b, k)
		if !ok || j >= p.n || x < 0 {
			break
		}
		if x != 0 && v > math.MaxInt64/x {
			v = math.MaxInt64
		} else {
			v *= x
		}
		if k = skipSpace(b, j); b[k] == ',' {
			k++
		}
	}
	return p.skipValue(i, member)
}
