package xla

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
)

var errWire = errors.New("it is no XSpace: a field is longer than the file")

// field is one field of a protocol buffer message.
type field struct {
	number int
	value  uint64 // of numbers
	text   []byte // of texts, messages and floating-point numbers
}

// eachField calls each with the fields of a message, until each returns false.
func eachField(b []byte, each func(field) bool) error {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 || tag>>3 == 0 || tag>>3 > math.MaxInt32 {
			return errWire
		}
		b = b[n:]
		f := field{number: int(tag >> 3)}
		var size int
		switch tag & 7 {
		case 0:
			if f.value, n = binary.Uvarint(b); n <= 0 {
				return errWire
			}
			size = n
		case 1:
			size = 8
		case 5:
			size = 4
		case 2:
			length, n := binary.Uvarint(b)
			if n <= 0 || length > uint64(len(b)-n) {
				return errWire
			}
			b, size = b[n:], int(length)
			f.text = b[:size]
		default:
			return errWire
		}
		if size > len(b) {
			return errWire
		}
		if tag&7 == 1 {
			f.text = b[:size]
		}
		b = b[size:]
		if !each(f) {
			return nil
		}
	}
	return nil
}

// isXSpace reports whether a file begins with an XSpace, whose first plane has one of XLA's names.
func isXSpace(head []byte) bool {
	if len(head) < 4 || head[0] != 1<<3|2 {
		return false
	}
	_, n := binary.Uvarint(head[1:])
	if n <= 0 {
		return false
	}
	is := false
	_ = eachField(head[1+n:], func(f field) bool {
		if f.number == 2 {
			s := string(f.text)
			is = strings.HasPrefix(s, "/host:") || strings.HasPrefix(s, "/device:") || s == "Task Environment"
		}
		return f.number == 1 // the id precedes the name
	})
	return is
}

// readSpace reads the planes of an XSpace (tsl/profiler/protobuf/xplane.proto).
func (c *converter) readSpace(ctx context.Context, text []byte) error {
	return eachField(text, func(f field) bool {
		if f.number == 1 {
			if err := c.readPlane(f.text); err != nil && c.err == nil {
				c.err = err
			}
		}
		return ctx.Err() == nil && !c.isOver()
	})
}

// nameTable holds the names of a plane's statistics by number.
type nameTable map[uint64]string

// metadata describes the events that refer to it.
type metadata struct {
	name, display string
	stats         [][]byte
}

// readEntry reads a map entry: its key (field 1), and from its value (field 2) the name (2), the short name (4) and
// statistics (5).
func readEntry(entry []byte) (key uint64, m metadata, err error) {
	err = eachField(entry, func(f field) bool {
		switch f.number {
		case 1:
			key = f.value
		case 2:
			_ = eachField(f.text, func(g field) bool {
				switch g.number {
				case 2:
					m.name = string(g.text)
				case 4:
					m.display = string(g.text)
				case 5:
					m.stats = append(m.stats, g.text)
				}
				return true
			})
		}
		return true
	})
	return key, m, err
}

func (c *converter) readPlane(text []byte) error {
	events, stats := map[uint64]metadata{}, nameTable{}
	name := ""
	var lines, own [][]byte
	var errs []error
	errs = append(errs, eachField(text, func(f field) bool {
		switch f.number {
		case 2:
			name = string(f.text)
		case 3:
			lines = append(lines, f.text)
		case 4:
			key, m, err := readEntry(f.text)
			events[key], errs = m, append(errs, err)
		case 5:
			key, m, err := readEntry(f.text)
			stats[key], errs = m.name, append(errs, err)
		case 6:
			own = append(own, f.text)
		}
		return true
	}))
	if name == "/host:metadata" {
		c.addPrograms(events, stats)
	}
	p := c.newPlane(name)
	for _, s := range own {
		p.setDevice(readStat(s, stats))
	}
	for _, l := range lines {
		errs = append(errs, c.readLine(p, l, events, stats))
	}
	return errors.Join(errs...)
}

func (c *converter) readLine(p *plane, text []byte, events map[uint64]metadata, stats nameTable) error {
	var id, start uint64
	name := ""
	var found [][]byte
	err := eachField(text, func(f field) bool {
		switch f.number {
		case 1:
			id = f.value
		case 2:
			name = string(f.text)
		case 3:
			start = f.value
		case 4:
			found = append(found, f.text)
		}
		return true
	})
	l := p.newLine(int64(id), name)
	for _, e := range found {
		if l.skip || c.isOver() {
			break
		}
		v := event{}
		var offset, long uint64
		err = errors.Join(err, eachField(e, func(f field) bool {
			switch f.number {
			case 1:
				m := events[f.value]
				v.name = m.name
				if p.device >= 0 && m.display != "" {
					v.name, v.instruction = m.display, m.name
				}
				for _, s := range m.stats {
					v.setStat(readStat(s, stats))
				}
			case 2:
				offset = f.value
			case 3:
				long = f.value
			case 4:
				v.setStat(readStat(f.text, stats))
			}
			return true
		}))
		const pico = 1000 // per ns
		v.start = int64(min(start, math.MaxInt64/4)) + int64(offset/pico)
		v.end = v.start + int64((offset%pico+long)/pico)
		c.addEvent(l, &v)
	}
	return err
}

// stat is a statistic of a plane or an event: a text, bytes or a number.
type stat struct {
	key, text string
	number    int64
	real      float64
}

func readStat(b []byte, stats nameTable) (s stat) {
	_ = eachField(b, func(f field) bool {
		switch f.number {
		case 1:
			s.key = stats[f.value]
		case 2:
			if len(f.text) == 8 {
				s.real = math.Float64frombits(binary.LittleEndian.Uint64(f.text))
			}
		case 3, 4:
			s.number = int64(f.value)
			s.real = float64(s.number)
		case 5, 6:
			s.text = string(f.text)
		case 7:
			s.text = stats[f.value]
		}
		return true
	})
	return s
}
