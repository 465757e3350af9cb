// Package memtest writes PyTorch memory snapshots for tests. It pickles values as Python's or PyTorch's C++ writer
// does, and records a simulated caching allocator that follows PyTorch's rules.
package memtest

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
)

// Dict is a dictionary that keeps the order of its members. A Dict or List whose pointer occurs twice is pickled once
// and then referenced.
type Dict struct{ Members []Member }

// Member is one member of a Dict.
type Member struct {
	Key   string
	Value any
}

// List is a list.
type List struct{ Items []any }

// Tuple is a pair of integers.
type Tuple [2]int

// Set adds a member and returns the dictionary.
func (d *Dict) Set(key string, value any) *Dict {
	d.Members = append(d.Members, Member{key, value})
	return d
}

// Add adds an item.
func (l *List) Add(item any) { l.Items = append(l.Items, item) }

// Of is a list of items.
func Of(items ...any) *List { return &List{items} }

// batch is the number of items that Python's pickle adds to a container at a time.
const batch = 1000

// writer pickles values, as PyTorch's C++ writer does if cpp is set.
type writer struct {
	b        bytes.Buffer
	protocol int
	cpp      bool
	memo     map[any]int
}

// Python writes a value as Python's pickle does, protocol 2, 4 or 5.
func Python(v any, protocol int) []byte {
	w := &writer{protocol: protocol, memo: map[any]int{}}
	w.b.Write([]byte{0x80, byte(protocol)})
	w.value(v)
	w.b.WriteByte('.')
	if protocol < 4 {
		return w.b.Bytes()
	}
	body := w.b.Bytes()[2:]
	out := append([]byte{0x80, byte(protocol), 0x95}, binary.LittleEndian.AppendUint64(nil, uint64(len(body)))...)
	return append(out, body...)
}

// CPP writes a value as PyTorch's C++ writer does, protocol 2.
func CPP(v any) []byte {
	w := &writer{protocol: 2, cpp: true, memo: map[any]int{}}
	w.b.Write([]byte{0x80, 2})
	w.value(v)
	w.b.WriteByte('.')
	return w.b.Bytes()
}

func (w *writer) value(v any) {
	switch v := v.(type) {
	case nil:
		w.b.WriteByte('N')
	case bool:
		w.b.WriteByte(map[bool]byte{true: 0x88, false: 0x89}[v])
	case string:
		if !w.known(v) {
			w.text(v)
			w.remember(v)
		}
	case int:
		w.whole(int64(v), v < 0)
	case uint64:
		w.whole(int64(v), false)
	case float64:
		w.b.WriteByte('G')
		w.b.Write(binary.BigEndian.AppendUint64(nil, math.Float64bits(v)))
	case Tuple:
		if w.cpp || !w.known(v) {
			w.value(v[0])
			w.value(v[1])
			w.b.WriteByte(0x86)
			if !w.cpp {
				w.remember(v)
			}
		}
	case *Dict:
		w.dict(v)
	case *List:
		w.list(v)
	}
}

func (w *writer) text(s string) {
	if len(s) < 256 && w.protocol >= 4 {
		w.b.Write([]byte{0x8c, byte(len(s))})
	} else {
		w.b.WriteByte('X')
		w.b.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(s))))
	}
	w.b.WriteString(s)
}

// whole writes an integer. n holds its 64 bits, which are unsigned if negative is false.
func (w *writer) whole(n int64, negative bool) {
	u := uint64(n)
	switch {
	case !negative && u < 1<<8:
		w.b.Write([]byte{'K', byte(u)})
	case !negative && u < 1<<16:
		w.b.Write(binary.LittleEndian.AppendUint16([]byte{'M'}, uint16(u)))
	case negative && n >= math.MinInt32 || !negative && u <= math.MaxInt32:
		w.b.Write(binary.LittleEndian.AppendUint32([]byte{'J'}, uint32(u)))
	case w.cpp:
		w.b.Write(binary.LittleEndian.AppendUint64([]byte{0x8a, 8}, u))
	default:
		size := bits.Len64(u)/8 + 1 // one more bit for the sign
		w.b.Write([]byte{0x8a, byte(size)})
		w.b.Write(append(binary.LittleEndian.AppendUint64(nil, u), 0)[:size])
	}
}

// known writes a reference to v if v was written before, and reports whether it did.
func (w *writer) known(v any) bool {
	at, ok := w.memo[v]
	if ok && at < 256 {
		w.b.Write([]byte{'h', byte(at)})
	} else if ok {
		w.b.Write(binary.LittleEndian.AppendUint32([]byte{'j'}, uint32(at)))
	}
	return ok
}

func (w *writer) remember(v any) {
	at := len(w.memo)
	w.memo[v] = at
	switch {
	case w.protocol >= 4:
		w.b.WriteByte(0x94)
	case at < 256:
		w.b.Write([]byte{'q', byte(at)})
	default:
		w.b.Write(binary.LittleEndian.AppendUint32([]byte{'r'}, uint32(at)))
	}
}

func (w *writer) dict(d *Dict) {
	if w.known(d) {
		return
	}
	w.b.WriteByte('}')
	if !w.cpp {
		w.remember(d)
	}
	var parts []func()
	for _, m := range d.Members {
		parts = append(parts, func() { w.value(m.Key); w.value(m.Value) })
	}
	w.batches(parts, 's', 'u')
	if w.cpp {
		w.remember(d)
	}
}

func (w *writer) list(l *List) {
	if w.known(l) {
		return
	}
	w.b.WriteByte(']')
	if !w.cpp {
		w.remember(l)
	}
	var parts []func()
	for _, v := range l.Items {
		parts = append(parts, func() { w.value(v) })
	}
	w.batches(parts, 'a', 'e')
	if w.cpp {
		w.remember(l)
	}
}

// batches writes the items of a container. Opcode one adds a single item, many adds all items since a mark.
func (w *writer) batches(parts []func(), one, many byte) {
	for first := true; len(parts) > 0 || first && w.cpp; first = false {
		n := min(len(parts), batch)
		if w.cpp {
			n = len(parts)
		}
		if n == 1 && !w.cpp {
			parts[0]()
			w.b.WriteByte(one)
		} else {
			w.b.WriteByte('(')
			for _, p := range parts[:n] {
				p()
			}
			w.b.WriteByte(many)
		}
		parts = parts[n:]
	}
}
