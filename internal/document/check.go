package document

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// jsonCheck walks a valid JSON text in parallel with the Go type for it. It counts the memory for decoding, and finds
// words such as NaN in place of numbers.
type jsonCheck struct {
	numbers  bool // check numbers
	room     *outside.Room
	path     []step
	fields   map[reflect.Type]map[string]reflect.Type // by lower-case name, as encoding/json matches them
	pointers map[reflect.Type]bool
}

type step struct {
	key   string
	index int
}

func newJSONCheck(room *outside.Room, numbers bool) *jsonCheck {
	return &jsonCheck{numbers: numbers, room: room, fields: map[reflect.Type]map[string]reflect.Type{}, pointers: map[reflect.Type]bool{}}
}

// Memory for decoding besides the values. While a slice grows, the old and the new array exist at once, and the new one
// is a quarter larger than needed; growth is in quarters.
const (
	growth      = 9
	mapBytes    = 64 // per map
	mapRoom     = 8  // entries of the smallest map
	entryBytes  = 64 // per entry, without key and value
	headerBytes = 16 // per value of unknown type
	textTimes   = 4  // copies of a text: unescaped and cleaned
	ownBytes    = 32 // per part of a value that decodes itself
)

// pathText formats the path to the current value: "step.runs[0][17]".
func (c *jsonCheck) pathText() string {
	var b strings.Builder
	for _, s := range c.path {
		switch {
		case s.key == "":
			fmt.Fprintf(&b, "[%d]", s.index)
		case b.Len() > 0:
			fmt.Fprintf(&b, ".%.80s", s.key)
		default:
			fmt.Fprintf(&b, "%.80s", s.key)
		}
	}
	return b.String()
}

func (c *jsonCheck) checkPart(s step, raw []byte, t reflect.Type) error {
	c.path = append(c.path, s)
	err := c.checkValue(raw, t)
	c.path = c.path[:len(c.path)-1]
	return err
}

// checkValue checks one value. Other errors of the text are left to json.Unmarshal.
func (c *jsonCheck) checkValue(raw []byte, t reflect.Type) error {
	raw = bytes.TrimSpace(raw)
	null := string(raw) == "null"
	switch {
	case t == reflect.TypeFor[gpuprof.Number]():
		if null {
			return nil
		}
		return c.checkNumber(raw)
	case t == reflect.TypeFor[gpuprof.Interval]():
		if null {
			return nil
		}
		return c.checkList(raw, t)
	case t == reflect.TypeFor[json.RawMessage]():
		return c.room.Take(int64(len(raw)))
	case t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return c.takeDecoded(raw, t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		if null {
			return nil
		}
		if err := c.room.Take(int64(t.Elem().Size())); err != nil {
			return err
		}
		return c.checkValue(raw, t.Elem())
	case reflect.Struct:
		return c.checkObject(raw, t)
	case reflect.Map:
		return c.checkMembers(raw, t.Elem(), int64(t.Key().Size()+t.Elem().Size()))
	case reflect.Slice, reflect.Array:
		return c.checkList(raw, t)
	case reflect.Interface:
		return c.checkAny(raw, t)
	case reflect.String:
		return c.room.Take(textTimes * int64(len(raw)))
	case reflect.Bool:
		return nil
	}
	return c.checkNumber(raw)
}

// takeDecoded counts the memory of a value whose type decodes itself. A type without pointers needs only its size,
// which is counted already. Another type needs its text and its parts, mostly numbers.
func (c *jsonCheck) takeDecoded(raw []byte, t reflect.Type) error {
	if !c.hasPointers(t) {
		return nil
	}
	return c.room.Take(2*int64(len(raw)) + ownBytes*int64(1+bytes.Count(raw, []byte(","))))
}

func (c *jsonCheck) hasPointers(t reflect.Type) bool {
	known, ok := c.pointers[t]
	if ok {
		return known
	}
	var is bool
	switch t.Kind() {
	case reflect.Array:
		is = c.hasPointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			is = is || c.hasPointers(t.Field(i).Type)
		}
	default:
		is = t.Kind() > reflect.Complex128 // smaller kinds are numbers
	}
	c.pointers[t] = is
	return is
}

// checkNumber checks that a value is a number in range; nothing if numbers is false.
func (c *jsonCheck) checkNumber(raw []byte) error {
	if !c.numbers || len(raw) == 0 {
		return nil
	}
	switch first := raw[0]; {
	case first == 'n':
		return fmt.Errorf("%s is null, NaN or infinite, and has to be a number", c.pathText())
	case first != '-' && (first < '0' || first > '9'):
		return fmt.Errorf("%s is %.40s, and has to be a number", c.pathText(), raw)
	case isOrdinary(raw):
		return nil
	}
	if _, err := strconv.ParseFloat(string(raw), 64); errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("%s is %.40s, which is out of range", c.pathText(), raw)
	}
	return nil
}

func (c *jsonCheck) checkObject(raw []byte, t reflect.Type) error {
	fields := c.fieldsOf(t)
	var err error
	JSONMembers(raw, func(key string, value []byte) bool {
		if f, ok := fields[strings.ToLower(key)]; ok {
			err = c.checkPart(step{key: key}, value, f)
		}
		return err == nil
	})
	return err
}

func (c *jsonCheck) fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known := c.fields[t]; known != nil {
		return known
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" || !f.IsExported() || name == "-" {
			continue
		}
		name = cmp.Or(name, f.Name)
		fields[strings.ToLower(name)] = f.Type
	}
	c.fields[t] = fields
	return fields
}

func (c *jsonCheck) checkMembers(raw []byte, elem reflect.Type, size int64) error {
	err := c.room.Take(mapBytes + mapRoom*size)
	if err != nil {
		return err
	}
	JSONMembers(raw, func(key string, value []byte) bool {
		if err = c.room.Take(entryBytes + 2*size + int64(len(key))); err == nil {
			err = c.checkPart(step{key: key}, value, elem)
		}
		return err == nil
	})
	return err
}

func (c *jsonCheck) checkList(raw []byte, t reflect.Type) error {
	elem, each := t.Elem(), int64(0)
	if t.Kind() == reflect.Slice {
		each = max(1, growth*int64(t.Elem().Size())/4)
		if elem.Kind() == reflect.Uint8 && raw[0] == '"' { // bytes are encoded as text
			return c.room.Take(int64(len(raw)))
		}
	}
	plain := plainNumber(elem)
	var err error
	i := 0
	JSONElements(raw, func(value []byte) bool {
		if err = c.room.Take(each); err == nil && (!plain || c.numbers && !isOrdinary(value)) {
			err = c.checkPart(step{index: i}, value, elem)
		}
		i++
		return err == nil
	})
	return err
}

// plainNumber reports whether encoding/json decodes a type as a plain number.
func plainNumber(t reflect.Type) bool {
	return t.Kind() <= reflect.Complex128 && !reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// isOrdinary reports whether a text is a number in the range of every type, as most are.
func isOrdinary(raw []byte) bool {
	return (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9') && len(raw) < 20 && bytes.IndexByte(raw, 'e') < 0 && bytes.IndexByte(raw, 'E') < 0
}

// checkAny checks a value for a field of type any, by the type that encoding/json chooses.
func (c *jsonCheck) checkAny(raw []byte, t reflect.Type) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	switch raw[0] {
	case '"':
		return c.room.Take(headerBytes + textTimes*int64(len(raw)))
	case '{':
		return c.checkMembers(raw, t, headerBytes+int64(t.Size()))
	case '[':
		return c.checkList(raw, reflect.SliceOf(t))
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if err := c.room.Take(headerBytes); err != nil {
			return err
		}
		return c.checkNumber(raw)
	}
	return nil
}

// Fits takes from room the memory for decoding a JSON text into v. The error is outside.TooLarge if room has less. A
// nil room is the budget of one file.
func Fits(room *outside.Room, text []byte, v any) error {
	if room == nil {
		room = outside.NewRoom()
	}
	if !json.Valid(text) {
		return nil // the text will not be decoded
	}
	return newJSONCheck(room, false).checkValue(text, reflect.TypeOf(v))
}
