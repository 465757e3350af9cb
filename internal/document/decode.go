// Package document has the code common to all files that gpuprof writes: the envelope with the kind and the schema
// version of a file, the one decoder, and the cleaning of texts of other origin. A text is cleaned when it is
// decoded, not when it is shown, and the memory for decoding is counted before it is allocated.
//
// The package reads top down: kinds.go lists the kinds of document, envelope.go reads
// which one a file is and refuses the others, decode.go and check.go decode JSON with
// no number missing, jsontext.go goes over a JSON text without copying it, run.go
// reads and writes runs. text.go cleans, mask.go takes secrets out of command lines.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/gpuprof/gpuprof/internal/outside"
)

// decodeJSON is json.Unmarshal that lets no number go missing: null, NaN, an
// infinity, a text or a value out of range where v has a number is an error that
// names the field ("step.runs[0][17]"). encoding/json reads null as 0. A Number and
// what a pointer points to may be null. What would take more than room is an
// outside.TooLarge, before anything is decoded. Every string is cleaned (CleanText).
func decodeJSON(text []byte, v any, room *outside.Room) error {
	looked := text
	if !json.Valid(text) {
		if looked = NullNumbers(text); !json.Valid(looked) {
			return json.Unmarshal(text, v) // and it says where the text breaks
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

// NullNumbers replaces the words NaN and Infinity, which several programs write
// where JSON has no number for them, with null. Text in quotes stays.
func NullNumbers(text []byte) []byte {
	if !bytes.Contains(text, []byte("NaN")) && !bytes.Contains(text, []byte("Inf")) && !bytes.Contains(text, []byte("nan")) && !bytes.Contains(text, []byte("inf")) {
		return text
	}
	more := 0 // by which null is longer
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

// noNumber returns the length of a word such as NaN or Infinity at the start of text, 0 for none.
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
