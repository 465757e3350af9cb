// Package document holds the code for all files that gpuprof writes: the envelope with kind and schema version, one
// decoder, and the cleaning of foreign texts. Texts are cleaned when they are decoded, not when they are shown, and
// memory is counted before it is allocated.
//
// kinds.go lists the kinds of document; envelope.go finds the kind of a file and rejects others; decode.go and
// check.go decode JSON without losing numbers; jsontext.go scans JSON without copying; run.go reads and writes runs;
// text.go cleans texts; mask.go masks secrets in command lines.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/gpuprof/gpuprof/internal/outside"
)

// decodeJSON is json.Unmarshal with stricter numbers and clean strings (CleanText). The error names the field
// ("step.runs[0][17]") if a number is null (which encoding/json reads as 0), NaN, infinite, a text or out of range. A
// Number and a pointer may be null. If decoding needs more memory than room has, nothing is decoded and the error is
// outside.TooLarge.
func decodeJSON(text []byte, v any, room *outside.Room) error {
	looked := text
	if !json.Valid(text) {
		if looked = NullNumbers(text); !json.Valid(looked) {
			return json.Unmarshal(text, v) // its error names the damaged position
		}
	}
	if err := newJSONCheck(room, true).checkValue(looked, reflect.TypeOf(v)); err != nil {
		return err
	}
	err := json.Unmarshal(text, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && len(wrong.Value) > 60 {
		wrong.Value = wrong.Value[:60] + "…" // a number may have a million digits
	}
	if err == nil {
		CleanStrings(v)
	}
	return err
}

// NullNumbers replaces the words NaN and Infinity, which several programs write, by null, except in strings.
func NullNumbers(text []byte) []byte {
	if !bytes.Contains(text, []byte("NaN")) && !bytes.Contains(text, []byte("Inf")) && !bytes.Contains(text, []byte("nan")) && !bytes.Contains(text, []byte("inf")) {
		return text
	}
	more := 0 // bytes by which null is longer
	for _, w := range []string{"NaN", "Inf", "nan", "inf"} {
		more += bytes.Count(text, []byte(w))
	}
	out := make([]byte, 0, len(text)+more)
	quoted := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		if quoted {
			out = append(out, c)
			if c == '\\' && i+1 < len(text) {
				i++
				out = append(out, text[i])
			} else if c == '"' {
				quoted = false
			}
			continue
		}
		quoted = c == '"'
		if n := noNumber(text[i:]); n > 0 {
			out = append(out, "null"...)
			i += n - 1
			continue
		}
		out = append(out, c)
	}
	return out
}

// noNumber returns the length of a word such as NaN or Infinity at the start of text; 0 without one.
func noNumber(text []byte) int {
	switch text[0] {
	case '-', '+', 'I', 'N', 'i', 'n':
	default:
		return 0
	}
	for _, w := range []string{"-Infinity", "+Infinity", "Infinity", "-NaN", "NaN", "-nan", "nan", "-inf", "+inf", "inf", "-Inf", "+Inf", "Inf"} {
		if bytes.HasPrefix(text, []byte(w)) {
			return len(w)
		}
	}
	return 0
}
