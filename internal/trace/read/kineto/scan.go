package kineto

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// The scanner works on windows: b[:n] is text, followed by at least pad bytes of 0xFF. The padding ends every token
// and has no meaning in JSON, so that loops need not check n and can load eight bytes anywhere.
const pad = 64

// status is the result of parsing an element.
type status uint8

const (
	fine       status = iota
	incomplete        // the window ended inside the element
	malformed         // not JSON, even with repairs
)

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

func load(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// skipSpace returns the first index from i on without white space. Control characters count as white space.
func skipSpace(b []byte, i int) int {
	if b[i] > ' ' {
		return i
	}
	if i++; b[i] > ' ' {
		return i
	}
	for {
		w := load(b, i)
		// The addition sets the top bit of every byte above ' ' that does not have it already.
		if m := (w&^highs + ones*(0x7F-' ') | w) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
}

// skipSpaceBack returns the last index up to i without white space, or -1.
func skipSpaceBack(b []byte, i int) int {
	for i >= 0 && b[i] <= ' ' {
		i--
	}
	return i
}

// findQuote returns the first quotation mark from i on, or n.
func findQuote(b []byte, i, n int) int {
	for range 4 {
		if i >= n {
			return n
		}
		x := load(b, i) ^ ones*'"'
		if m := (x - ones) &^ x & highs; m != 0 {
			return min(i+bits.TrailingZeros64(m)>>3, n)
		}
		i += 8
	}
	if i < n {
		if k := bytes.IndexByte(b[i:n], '"'); k >= 0 {
			return i + k
		}
	}
	return n
}

// isEscaped reports whether an odd number of backslashes in b[from:q] precedes the character at q directly.
func isEscaped(b []byte, from, q int) bool {
	k := q
	for k > from && b[k-1] == '\\' {
		k--
	}
	return (q-k)&1 == 1
}

// stringRole is the place of a string in JSON. It decides which characters may follow.
type stringRole uint8

const (
	key stringRole = iota
	member
	element
)

// stringEnd returns the index of the quotation mark that closes the string whose first character is at i, or n.
//
// Kernel and Python names contain unescaped quotation marks, so a mark closes a string only if the next character
// except white space may follow a string: , : } or ]. Careful scanning requires more; see closesString.
func (p *parser) stringEnd(i int, at stringRole) int {
	b, from := p.b, i
	for {
		q := findQuote(b, i, p.n)
		if q >= p.n {
			return p.n
		}
		if p.careful {
			if hasEventStart(b, i, q, p.n) {
				p.crossed = true
				return p.n
			}
			if i = q + 1; p.closesString(from, q, at) {
				return q
			}
			continue
		}
		i = q + 1
		if b[q-1] == '\\' && isEscaped(b, from, q) {
			continue
		}
		switch b[skipSpace(b, i)] {
		case ',', ':', '}', ']':
			return q
		}
	}
}

// closesString reports whether the mark at q closes a string in an event for which the simple rule failed. The
// following text must continue the enclosing object or array. A mark after a single backslash may close a string too,
// because Windows paths are written without escapes.
func (p *parser) closesString(from, q int, at stringRole) bool {
	b := p.b
	if isEscaped(b, from, q) && at != member {
		return false
	}
	i := skipSpace(b, q+1)
	switch c := b[i]; {
	case at == key:
		return c == ':'
	case c == '}' && at == member:
		if isEscaped(b, from, q) {
			return false
		}
		i = skipSpace(b, i+1)
		return b[i] == ',' || b[i] == '}' || b[i] == ']' || i >= p.n
	case c == ',' && at == member:
		return p.isKeyAt(skipSpace(b, i+1))
	case at == element && c == ']':
		return true
	case at == element && c == ',':
		return valueStart[b[skipSpace(b, i+1)]]
	}
	return false
}

// isKeyAt reports whether a short key and its colon begin at i.
func (p *parser) isKeyAt(i int) bool {
	b := p.b
	if b[i] != '"' {
		return false
	}
	q := findQuote(b, i+1, min(p.n, i+66))
	return b[q] == '"' && bytes.IndexByte(b[i+1:q], '\\') < 0 && b[skipSpace(b, q+1)] == ':'
}

var valueStart = bytesOf("\"-0123456789[{tfnNI")

// endsToken are the bytes that end a number or a literal: structure, white space and padding.
var endsToken = bytesOf(",:}]\"\xff\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f ")

func bytesOf(s string) (t [256]bool) {
	for i := range len(s) {
		t[s[i]] = true
	}
	return t
}

// tokenEnd returns the end of the number or literal at i.
func tokenEnd(b []byte, i int) int {
	for !endsToken[b[i]] {
		i++
	}
	return i
}

// skipValue returns the index after the value at i, or -1 with p.st set.
func (p *parser) skipValue(i int, at stringRole) int {
	switch p.b[i] {
	case '"':
		q := p.stringEnd(i+1, at)
		if q >= p.n {
			return p.failAt(p.n)
		}
		return q + 1
	case '[', '{':
		return p.skipNested(i)
	}
	j := tokenEnd(p.b, i)
	if j == i || j >= p.n {
		return p.failAt(j)
	}
	return j
}

// skipNested returns the index after the array or object at i.
func (p *parser) skipNested(i int) int {
	b := p.b
	// One bit per open bracket: 1 for an object, 0 for an array. Beyond a depth of 64 the kinds are not checked.
	depth, objects, deep := 0, uint64(0), false
	for {
		// Both brackets, both braces (and Y, y, _) become 0x7F if or-ed with 0x26.
		w := load(b, i)
		x, y := w^ones*'"', (w|ones*0x26)^ones*0x7F
		m := ((x-ones)&^x | (y-ones)&^y) & highs
		if m == 0 {
			if i += 8; i >= p.n {
				return p.failAt(p.n)
			}
			continue
		}
		i += bits.TrailingZeros64(m) >> 3
		if i >= p.n {
			return p.failAt(p.n)
		}
		switch b[i] {
		case '"':
			if i = p.nestedString(i, objects&1 == 1); i < 0 {
				return i
			}
			continue
		case '[':
			depth++
			objects <<= 1
		case '{':
			depth++
			objects = objects<<1 | 1
		case ']', '}':
			if deep = deep || depth > 64; !deep && (objects&1 == 1) != (b[i] == '}') {
				return p.failAt(i)
			}
			objects >>= 1
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
}

// nestedString returns the index after the string whose opening mark is at i.
func (p *parser) nestedString(i int, object bool) int {
	at := element
	if object {
		at = member
		if p.careful && (p.b[skipSpaceBack(p.b, i-1)] != ':') {
			at = key
		}
	}
	q := p.stringEnd(i+1, at)
	if q >= p.n {
		return p.failAt(p.n)
	}
	return q + 1
}

// failAt records why parsing stopped at i and returns -1.
func (p *parser) failAt(i int) int {
	p.st = malformed
	p.fruitless += min(i, p.n) - p.from
	p.looked += int64(min(i, p.n) - p.from)
	if i >= p.n && !p.crossed {
		p.st = incomplete
	}
	return -1
}

// isEventStart reports whether an event of the array seems to begin at the brace at i: it follows "}," and has a key
// of events. It may be wrong, so callers that cut text there check it later. The colon after the key closes every
// string that is still open.
func isEventStart(b []byte, i, n int) bool {
	k := skipSpaceBack(b, i-1)
	if k < 1 || b[k] != ',' {
		return false
	}
	if k = skipSpaceBack(b, k-1); k < 0 || b[k] != '}' {
		return false
	}
	k = i + 1
	for k < n && b[k] <= ' ' {
		k++
	}
	if k >= n || b[k] != '"' {
		return false
	}
	k++
	q := bytes.IndexByte(b[k:min(k+6, n)], '"')
	if q < 0 {
		return false
	}
	switch string(b[k : k+q]) {
	case "ph", "name", "cat", "pid", "tid", "ts", "dur", "args", "id", "s", "bp":
	default:
		return false
	}
	for k += q + 1; k < n && b[k] <= ' '; k++ {
	}
	return k < n && b[k] == ':'
}

// hasEventStart reports whether an event begins in b[from:to].
func hasEventStart(b []byte, from, to, n int) bool {
	for i := from; i < to; i++ {
		k := bytes.IndexByte(b[i:to], '{')
		if k < 0 {
			return false
		}
		if i += k; isEventStart(b, i, n) {
			return true
		}
	}
	return false
}

// lastEventStart returns the last index in b at which an event begins, or -1.
func lastEventStart(b []byte) int {
	for i := len(b); i > 0; {
		if i = bytes.LastIndexByte(b[:i], '{'); i > 0 && isEventStart(b, i, len(b)) {
			return i
		}
	}
	return -1
}

// nextEventStart returns the first index after i at which an event begins, or -1.
func nextEventStart(b []byte, i, n int) int {
	for i++; i < n; i++ {
		k := bytes.IndexByte(b[i:n], '{')
		if k < 0 {
			return -1
		}
		if i += k; isEventStart(b, i, n) {
			return i
		}
	}
	return -1
}
