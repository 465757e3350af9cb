package kineto

import (
	"bytes"

	"github.com/gpuprof/gpuprof/internal/document"
)

// state is the position of the reader in the document.
type state uint8

const (
	begin     state = iota
	inObject        // before a key of the top-level object
	inSkipped       // in a skipped or captured value
	inEvents        // in the event array
	finished        // after the document
	searching       // searching the event array in text that is not JSON
)

// captureMax limits the captured length of a top-level value, bytes.
const captureMax = 4 << 20

// topLevel parses the document around the event array, window by window. It may stop before a window's end to get
// more text.
type topLevel struct {
	state   state
	array   bool // the document is an event array
	objects bool // traceEvents was an array, or the document is one
	binary  bool // the document does not begin with text
	noArray bool // traceEvents was no array

	key         string
	depth       int  // of brackets in a skipped value
	inStr       bool // in a string of a skipped value
	kept        []byte
	keep        bool
	found       map[string][]byte // captured values by key
	malformedAt int64             // index of the first text that is not JSON, -1 none
	extraAt     int64             // index of text after the document, -1 none
}

func isWanted(key string) bool {
	switch key {
	case "deviceProperties", "distributedInfo", "baseTimeNanoseconds", "gpuprof_cpus", document.PartMember:
		return true
	}
	return false
}

// readOutside reads the window of p from i on, up to the event array or the window's end, and returns the index
// reached.
func (d *topLevel) readOutside(p *parser, i int, at int64, final bool) int {
	for i < p.n {
		was, from := d.state, i
		switch d.state {
		case begin:
			if i = d.readOpening(p.b, i, p.n); d.state == begin && at+int64(i) > carryMax {
				d.state, d.malformedAt, d.binary = finished, 0, p.b[0] == 0 // white space or zeros, perhaps without end
			}
		case inObject:
			i = d.readMember(p, i, at, final)
		case inSkipped:
			i = d.skipMember(p, i, final)
		case searching:
			if i = d.searchEvents(p.b[:p.n], i); d.state == searching && at+int64(i)-d.malformedAt > carryMax {
				d.state = finished // no file has so much text before its events
			}
		case finished:
			if j := skipSpace(p.b, i); j < p.n && d.extraAt < 0 {
				d.extraAt = at + int64(j)
			}
			return p.n
		case inEvents:
			return i
		}
		if i == from && d.state == was {
			return i
		}
	}
	return min(i, p.n)
}

func (d *topLevel) readOpening(b []byte, i, n int) int {
	if bytes.HasPrefix(b[i:], byteOrder) {
		i += len(byteOrder)
	}
	i = skipSpace(b, i)
	switch b[i] {
	case '{':
		d.state = inObject
	case '[':
		d.state, d.array, d.objects = inEvents, true, true
	default:
		if i >= n {
			return n
		}
		d.state, d.malformedAt = searching, int64(i)
		d.binary = b[i] < ' ' || b[i] > '~' || bytes.IndexByte(b[i:min(n, i+512)], 0) >= 0
		return i
	}
	return i + 1
}

// readMember reads a key and finds the start of its value.
func (d *topLevel) readMember(p *parser, i int, at int64, final bool) int {
	b, from := p.b, i
	for i = skipSpace(b, i); b[i] == ','; i = skipSpace(b, i) {
		i++
	}
	switch {
	case i >= p.n:
		return p.n
	case b[i] == '}':
		d.state = finished
		return i + 1
	case b[i] != '"':
		return d.markMalformed(i, at)
	}
	q := p.stringEnd(i+1, key)
	if q >= p.n || skipSpace(b, q+1) >= p.n {
		return from
	}
	j := skipSpace(b, q+1)
	if b[j] != ':' || findQuote(b, i+1, q) < q && !isEscaped(b, i+1, findQuote(b, i+1, q)) {
		return d.markMalformed(i, at)
	}
	if j = skipSpace(b, j+1); j >= p.n && !final {
		return from
	}
	d.key = decodeString(b[i+1 : q])
	if d.key == "traceEvents" {
		if b[j] == '[' {
			d.state, d.objects = inEvents, true
			return j + 1
		}
		d.noArray = true
	}
	d.state, d.depth, d.inStr = inSkipped, 0, false
	d.keep, d.kept = isWanted(d.key), nil
	return j
}

func (d *topLevel) markMalformed(i int, at int64) int {
	if d.malformedAt < 0 {
		d.malformedAt = at + int64(i)
	}
	d.state = searching
	if d.objects { // the events have been read
		d.state = finished
	}
	return i
}

func (d *topLevel) skipMember(p *parser, i int, final bool) int {
	j, done := d.scanValue(p, i, final)
	if d.keep && len(d.kept)+j-i <= captureMax {
		d.kept = append(d.kept, p.b[i:j]...)
	}
	if done {
		d.state = inObject
		// A cut of a cut trace has two descriptions. The first one describes the outer cut, and counts.
		if _, cut := d.found[document.PartMember]; d.keep && (!cut || d.key != document.PartMember) {
			d.found[d.key] = d.kept
		}
	}
	return j
}

// scanValue scans the part of a value that is in the window. It leaves the window's last characters for the next window
// if their meaning depends on the characters after them.
func (d *topLevel) scanValue(p *parser, i int, final bool) (int, bool) {
	b := p.b
	for i < p.n {
		if d.inStr {
			q := findQuote(b, i, p.n)
			if q >= p.n {
				return d.trimBackslashes(b, i, p.n, final), false
			}
			j := skipSpace(b, q+1)
			if j >= p.n && !final {
				return d.trimBackslashes(b, i, q, final), false
			}
			if c := b[j]; !isEscaped(b, i, q) && (c == ',' || c == ':' || c == '}' || c == ']' || j >= p.n) {
				d.inStr = false
				if d.depth == 0 {
					return q + 1, true
				}
			}
			i = q + 1
			continue
		}
		switch b[i] {
		case '"':
			d.inStr = true
		case '[', '{':
			d.depth++
		case ']', '}':
			if d.depth == 0 { // end of a number, and of the object
				return i, true
			}
			if d.depth--; d.depth == 0 {
				return i + 1, true
			}
		case ',':
			if d.depth == 0 {
				return i, true
			}
		}
		i++
	}
	return p.n, false
}

// trimBackslashes returns the end of b[from:to] without trailing backslashes, because a window must not split an
// escape.
func (d *topLevel) trimBackslashes(b []byte, from, to int, final bool) int {
	if final {
		return to
	}
	for to > from && b[to-1] == '\\' {
		to--
	}
	return to
}

var eventsKey = []byte(`"traceEvents"`)

// searchEvents searches text that is not JSON for the event array.
func (d *topLevel) searchEvents(b []byte, i int) int {
	k := bytes.Index(b[i:], eventsKey)
	if k < 0 {
		return max(i, len(b)-len(eventsKey)-1)
	}
	j := i + k + len(eventsKey)
	rest := bytes.TrimLeft(b[j:], " \t\r\n:")
	if len(rest) == 0 {
		return i + k
	}
	if rest[0] == '[' {
		d.state, d.objects = inEvents, true
		return len(b) - len(rest) + 1
	}
	return j
}
