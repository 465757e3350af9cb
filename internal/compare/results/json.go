package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// jsonValue is one JSON value: raw text, which shares the file's memory, and an object's members by name.
type jsonValue struct {
	raw    json.RawMessage
	member map[string]json.RawMessage
	room   *outside.Room // memory budget of the file
	// path is the path of the file. read reads the files next to it that the document names.
	path string
	read reader
}

func (d jsonValue) hasMembers(names ...string) bool {
	return !slices.ContainsFunc(names, func(n string) bool { return d.member[n] == nil })
}

// Bytes of memory for a document and for each of its members while open lists them.
const (
	documentBytes = 256
	memberBytes   = 128
)

// splitDocuments splits a file into its JSON values. Each element of a top-level array, and each run of a sweep, is a
// document.
func splitDocuments(text []byte) ([]jsonValue, error) {
	var out []jsonValue
	room := outside.NewRoom()
	for rest := text; ; {
		var value []byte
		if value, rest = document.JSONValue(rest); len(value) == 0 {
			return out, nil
		}
		if !json.Valid(value) {
			return nil, locateError(text, len(text)-len(rest)-len(value), json.Unmarshal(value, &struct{}{}))
		}
		list := []json.RawMessage{value}
		if runs := document.RunList(value); runs != nil {
			var err error
			if list, err = document.JSONList(runs, room); err != nil {
				return nil, err
			}
		}
		for _, raw := range list {
			d := jsonValue{raw: raw, room: room}
			if err := d.open(); err != nil {
				return nil, err
			}
			out = append(out, d)
		}
	}
}

// open fills the members.
func (d *jsonValue) open() error {
	err := d.room.Take(documentBytes)
	if err != nil || d.raw[0] != '{' {
		return err
	}
	d.member = map[string]json.RawMessage{}
	document.JSONMembers(d.raw, func(key string, value []byte) bool {
		d.member[key] = value
		err = d.room.Take(memberBytes + int64(len(key)))
		return err == nil
	})
	return err
}

// locateError adds the line to a JSON syntax error; from is the offset of the broken value.
func locateError(text []byte, from int, err error) error {
	se, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return err
	}
	at := from + int(se.Offset)
	if at >= len(text) && strings.Contains(se.Error(), "unexpected end") {
		return errors.New("the JSON ends early")
	}
	line := 1 + bytes.Count(text[:min(max(at, 0), len(text))], []byte("\n"))
	return fmt.Errorf("line %d: %w", line, err)
}

func (d jsonValue) decode(v any) error { return d.decodeRaw(d.raw, v) }

// decodeRaw decodes a part of the document within its memory budget.
func (d jsonValue) decodeRaw(raw json.RawMessage, v any) error {
	if err := document.Fits(d.room, raw, v); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) {
			return fmt.Errorf("%s is a %.60s, which does not belong there", te.Field, te.Value)
		}
		return err
	}
	return nil
}

// figure is a number that may be missing; null and an empty string give NaN.
type figure struct {
	value float64
	set   bool
}

// UnmarshalJSON accepts a number, a number in quotes, or null.
func (f *figure) UnmarshalJSON(b []byte) error {
	f.set = true
	text := strings.Trim(string(b), `"`)
	if text == "null" || text == "" {
		f.value = math.NaN()
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("%s is not a number", b)
	}
	f.value = v
	return nil
}

// valuesOf returns the figures times scale; a missing one is NaN, which Parse refuses.
func valuesOf(ns []figure, scale float64) []float64 {
	out := make([]float64, len(ns))
	for i, n := range ns {
		out[i] = n.value * scale
	}
	return out
}
