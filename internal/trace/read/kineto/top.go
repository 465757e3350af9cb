package kineto

import (
	"bytes"

	"github.com/gpuprof/gpuprof/internal/document"
)

// state is where in the document reading stands.
type state uint8

const (
	begin     state = iota
	inObject        // before a key of the outermost object
	inSkipped       // in a value that is not wanted, or one that is captured
	inEvents        // in the array of events
	finished        // after the document
	lost            // in text that is no JSON; looking for the array of events
)

// capture is the most that is kept of a value of the outermost object.
const capture = 4 << 20

// topLevel follows the outermost level of the text. It is fed windows and
// may stop short of a window's end to see more.
type topLevel struct {
	state   state
	array   bool // the document is an array of events
	objects bool // the key traceEvents held an array, or array
	binary  bool // the document begins with what is no text
	noArray bool // the key traceEvents held something else

	key   string
	depth int  // of brackets in a skipped value
	inStr bool // in a string of a skipped value
	kept  []byte
	keep  bool
	found map[string][]byte // captured values by key
	bad   int64             // first place that is no JSON, -1 none
	extra int64             // where text after the document begins, -1 none
}

// wanted are the keys whose values are kept.
func wanted(key string) bool {
	switch key {
	case "deviceProperties", "distributedInfo", "baseTimeNanoseconds", document.PartMember:
		return true
	}
	return false
}

// outside reads the text of p's window from i on until the array of events,
// or until it must see more. It returns the place reached.
func (d *topLevel) outside(p *parser, i int, at int64, final bool) int {
	for i < p.n {
		was, from := d.state, i
		switch d.state {
		case begin:
			if i = d.opening(p.b, i, p.n); d.state == begin && at+int64(i) > carryMax {
				d.state, d.bad, d.binary = finished, 0, p.b[0] == 0 // blanks or zeros, without end perhaps
			}
		case inObject:
			i = d.member(p, i, at, final)
		case inSkipped:
			i = d.skipped(p, i, final)
		case lost:
			if i = d.search(p.b[:p.n], i); d.state == lost && at+int64(i)-d.bad > carryMax {
				d.state = finished // no file has its events behind so much else
			}
		case finished:
			if j := space(p.b, i); j < p.n && d.extra < 0 {
				d.extra = at + int64(j)
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

func (d *topLevel) opening(b []byte, i, n int) int {
	if bytes.HasPrefix(b[i:], byteOrder) {
		i += len(byteOrder)
	}
	i = space(b, i)
	switch b[i] {
	case '{':
		d.state = inObject
	case '[':
		d.state, d.array, d.objects = inEvents, true, true
	default:
		if i >= n {
			return n
		}
		d.state, d.bad = lost, int64(i)
		d.binary = b[i] < ' ' || b[i] > '~' || bytes.IndexByte(b[i:min(n, i+512)], 0) >= 0
		return i
	}
	return i + 1
}

// member reads a key and looks at its value's first character.
func (d *topLevel) member(p *parser, i int, at int64, final bool) int {
	b, from := p.b, i
	for i = space(b, i); b[i] == ','; i = space(b, i) {
		i++
	}
	switch {
	case i >= p.n:
		return p.n
	case b[i] == '}':
		d.state = finished
		return i + 1
	case b[i] != '"':
		return d.stray(i, at)
	}
	q := p.stringEnd(i+1, key)
	if q >= p.n || space(b, q+1) >= p.n {
		return from
	}
	j := space(b, q+1)
	if b[j] != ':' || quote(b, i+1, q) < q && !escaped(b, i+1, quote(b, i+1, q)) {
		return d.stray(i, at)
	}
	if j = space(b, j+1); j >= p.n && !final {
		return from
	}
	d.key = decode(b[i+1 : q])
	if d.key == "traceEvents" {
		if b[j] == '[' {
			d.state, d.objects = inEvents, true
			return j + 1
		}
		d.noArray = true
	}
	d.state, d.depth, d.inStr = inSkipped, 0, false
	d.keep, d.kept = wanted(d.key), nil
	return j
}

// stray notes text that is no JSON.
func (d *topLevel) stray(i int, at int64) int {
	if d.bad < 0 {
		d.bad = at + int64(i)
	}
	d.state = lost
	if d.objects { // the events are read; what follows can only be worth less
		d.state = finished
	}
	return i
}

// skipped goes over a value and keeps it where it is wanted.
func (d *topLevel) skipped(p *parser, i int, final bool) int {
	j, done := d.through(p, i, final)
	if d.keep && len(d.kept)+j-i <= capture {
		d.kept = append(d.kept, p.b[i:j]...)
	}
	if done {
		d.state = inObject
		if _, cut := d.found[document.PartMember]; d.keep && (!cut || d.key != document.PartMember) { // of a part of a part the outer one comes first
			d.found[d.key] = d.kept
		}
	}
	return j
}

// through goes over a value, or as much of it as the window holds. It leaves
// the last characters for later where what follows them decides.
func (d *topLevel) through(p *parser, i int, final bool) (int, bool) {
	b := p.b
	for i < p.n {
		if d.inStr {
			q := quote(b, i, p.n)
			if q >= p.n {
				return d.backslash(b, i, p.n, final), false
			}
			j := space(b, q+1)
			if j >= p.n && !final {
				return d.backslash(b, i, q, final), false
			}
			if c := b[j]; !escaped(b, i, q) && (c == ',' || c == ':' || c == '}' || c == ']' || j >= p.n) {
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
			if d.depth == 0 { // the end of a number, and of the object
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

// backslash is to, or the first of the backslashes before it: whether they
// escape what follows must be seen in one window.
func (d *topLevel) backslash(b []byte, from, to int, final bool) int {
	if final {
		return to
	}
	for to > from && b[to-1] == '\\' {
		to--
	}
	return to
}

var eventsKey = []byte(`"traceEvents"`)

// search looks for the array of events in text that is no JSON.
func (d *topLevel) search(b []byte, i int) int {
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
