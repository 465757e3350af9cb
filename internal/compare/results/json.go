package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// document is one JSON value of a file: its raw text and, for an object, the
// members by name.
type document struct {
	raw    json.RawMessage
	member map[string]json.RawMessage
}

func (d document) has(names ...string) bool {
	for _, n := range names {
		if _, ok := d.member[n]; !ok {
			return false
		}
	}
	return true
}

// documents splits a file into its JSON values. Arrays are opened: their
// elements count as documents of the file.
func documents(text []byte) ([]document, error) {
	var out []document
	dec := json.NewDecoder(bytes.NewReader(text))
	for {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, syntax(text, dec.InputOffset(), err)
		}
		list := []json.RawMessage{raw}
		if raw[0] == '[' {
			if err := json.Unmarshal(raw, &list); err != nil {
				return nil, err
			}
		}
		for _, r := range list {
			d := document{raw: r}
			if bytes.HasPrefix(bytes.TrimLeft(r, " \t\r\n"), []byte("{")) {
				if err := json.Unmarshal(r, &d.member); err != nil {
					return nil, err
				}
			}
			out = append(out, d)
		}
	}
}

// syntax says where a JSON text breaks, in words.
func syntax(text []byte, at int64, err error) error {
	var se *json.SyntaxError
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON ends early")
	}
	if errors.As(err, &se) {
		at = se.Offset
	}
	line := 1 + bytes.Count(text[:min(max(at, 0), int64(len(text)))], []byte("\n"))
	return fmt.Errorf("line %d: %w", line, err)
}

// decode reads a document into v; where names the format in the error.
func (d document) decode(v any) error {
	if err := json.Unmarshal(d.raw, v); err != nil {
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) {
			return fmt.Errorf("%s is a %s, which does not belong there", te.Field, te.Value)
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
