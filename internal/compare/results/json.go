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

// jsonValue is one JSON value of a file: its raw text, a part of the file's, and, for
// an object, the members by name.
type jsonValue struct {
	raw    json.RawMessage
	member map[string]json.RawMessage
	room   *outside.Room // of the file
}

func (d jsonValue) has(names ...string) bool {
	return !slices.ContainsFunc(names, func(n string) bool { return d.member[n] == nil })
}

// What a document and each of its members take while they are listed, bytes.
const (
	documentBytes = 256
	memberBytes   = 128
)

// documents splits a file into its JSON values. Arrays are opened: their
// elements count as documents of the file.
func documents(text []byte) ([]jsonValue, error) {
	var out []jsonValue
	room := outside.NewRoom()
	for rest := text; ; {
		var value []byte
		if value, rest = document.JSONValue(rest); len(value) == 0 {
			return out, nil
		}
		if !json.Valid(value) {
			return nil, syntax(text, len(text)-len(rest)-len(value), json.Unmarshal(value, &struct{}{}))
		}
		list := []json.RawMessage{value}
		if value[0] == '[' {
			var err error
			if list, err = document.JSONList(value, room); err != nil {
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

// open lists the members.
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

// syntax says where a JSON text breaks, in words; from is where the broken value
// begins.
func syntax(text []byte, from int, err error) error {
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

// decode reads a document into v; where names the format in the error.
func (d jsonValue) decode(v any) error {
	if err := document.Fits(d.room, d.raw, v); err != nil {
		return err
	}
	if err := json.Unmarshal(d.raw, v); err != nil {
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) {
			return fmt.Errorf("%s is a %.60s, which does not belong there", te.Field, te.Value)
		}
		return err
	}
	return nil
}

// figure is a number that may be missing; null and what is no number are NaN.
type figure struct {
	value float64
	set   bool
}

// UnmarshalJSON takes a number, a number in quotes or null.
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

// times converts seconds and refuses what is no time: null, not finite, below zero.
func times(ns []figure) ([]float64, error) {
	out := make([]float64, len(ns))
	for i, n := range ns {
		v, err := oneTime(n.value)
		if err != nil {
			return nil, fmt.Errorf("sample %d %w", i+1, err)
		}
		out[i] = v
	}
	return out, nil
}
