package kserve

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

func littleFloat(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

func putNative(b []byte, v float32) { binary.NativeEndian.PutUint32(b, math.Float32bits(v)) }

func nativeFloat(b []byte) float32 { return math.Float32frombits(binary.NativeEndian.Uint32(b)) }

// readNumbers reads data, which is valid JSON: the numbers of the tensor in row-major order, flat or nested like its
// shape.
func (m *Model) readNumbers(into, data []byte) error {
	r := reader{text: data, m: m, into: into}
	flat, err := r.readTensor()
	switch {
	case err != nil:
		return err
	case r.n != m.In.Len():
		return unreadable(fmt.Sprintf("send %d", m.In.Len()), "%s has %d numbers", m.In.Name, r.n)
	case !flat && r.uneven:
		return unreadable("nest data like the shape, or send it flat", "data of %s is nested in another way than its shape %s", m.In.Name, shapeText(m.In.Shape))
	}
	return nil
}

// reader parses the JSON numbers in one pass; encoding/json would allocate an object for each.
type reader struct {
	text []byte
	at   int
	m    *Model
	into []byte
	n    int // numbers read

	depth  int
	counts [maxDepth]int // elements of each open bracket
	uneven bool          // a bracket's number of elements differs from the shape
}

const maxDepth = 8

// readTensor reads the outermost array; flat reports that it contains no nested array.
func (r *reader) readTensor() (flat bool, err error) {
	deepest := 0
	for r.at < len(r.text) {
		c := r.text[r.at]
		switch {
		case c == '[':
			if r.depth == maxDepth {
				return false, unreadable("nest data like the shape, or send it flat", "data of %s is nested %d deep", r.m.In.Name, r.depth+1)
			}
			r.countItem()
			r.counts[r.depth] = 0
			r.depth++
			deepest = max(deepest, r.depth)
			r.at++
		case c == ']':
			r.close()
			r.at++
		case c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r':
			r.at++
		case c == '-' || c >= '0' && c <= '9':
			if r.depth == 0 {
				return false, r.noArray()
			}
			r.countItem()
			r.uneven = r.uneven || r.depth != len(r.m.In.Shape)
			if err := r.readNumber(); err != nil {
				return false, err
			}
		case r.depth == 0:
			return false, r.noArray()
		default:
			return false, unreadable("send numbers", "data of %s holds %.20q", r.m.In.Name, r.text[r.at:])
		}
	}
	return deepest == 1, nil
}

func (r *reader) noArray() error {
	return unreadable("send an array of numbers", "data of %s is %.20q", r.m.In.Name, r.text)
}

func (r *reader) countItem() {
	if r.depth > 0 {
		r.counts[r.depth-1]++
	}
}

func (r *reader) close() {
	r.depth--
	shape := r.m.In.Shape
	if r.depth >= len(shape) || r.counts[r.depth] != shape[r.depth] {
		r.uneven = true
	}
}

func (r *reader) readNumber() error {
	begin := r.at
	for r.at < len(r.text) && isNumeric(r.text[r.at]) {
		r.at++
	}
	i, word := r.n, r.text[begin:r.at]
	r.n++
	if i >= r.m.In.Len() { // surplus numbers are counted for the error message
		return nil
	}
	if r.m.In.Datatype == Uint8 {
		v, err := strconv.ParseUint(string(word), 10, 8)
		if err != nil {
			return unreadable("send whole numbers from 0 to 255", "number %d of %s is %.20s", i, r.m.In.Name, word)
		}
		r.into[i] = byte(v)
		return nil
	}
	v, err := strconv.ParseFloat(string(word), 32)
	if err != nil || math.Abs(v) > mostMagnitude {
		return r.m.outOfRange(i, float32(v))
	}
	putNative(r.into[4*i:], float32(v))
	return nil
}

func isNumeric(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}
