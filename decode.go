package gpuprof

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// DecodeJSON is json.Unmarshal that lets no number go missing: null, NaN, an
// infinity, a text or a value out of range where v has a number is an error that
// names the field ("step.runs[0][17]"). encoding/json reads null as 0. A Number and
// what a pointer points to may be null. What would take more than DecodedMemory is
// a TooLarge, before anything is decoded. Every string is cleaned (CleanText).
func DecodeJSON(text []byte, v any) error { return decodeJSON(text, v, NewRoom()) }

func decodeJSON(text []byte, v any, room *Room) error {
	looked := text
	if !json.Valid(text) {
		if looked = NullNumbers(text); !json.Valid(looked) {
			return json.Unmarshal(text, v) // and it says where the text breaks
		}
	}
	if err := newJSONCheck(room, true).value(looked, reflect.TypeOf(v)); err != nil {
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

// noNumber is the length of a word that stands for no number, 0 for none.
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

// checkSigns refuses times, rates and counts below zero, by name.
func (r *Run) checkSigns() error {
	series := map[string]*Series{"step": r.Step, "bare_step": r.BareStep, "probed_step": r.ProbedStep, "energy_step_j": r.EnergyStep}
	if r.Throughput != nil {
		series["throughput.series"] = r.Throughput.Series
	}
	for i := range r.Stages {
		if s := &r.Stages[i]; s.Parent == "step" {
			series[fmt.Sprintf("stages[%d] (%s).exposed", i, s.Name)] = s.Exposed
		}
	}
	for _, field := range slices.Sorted(maps.Keys(series)) {
		if series[field] == nil {
			continue
		}
		for p, samples := range series[field].Runs {
			for i, v := range samples {
				if v < 0 {
					return fmt.Errorf("%s.runs[%d][%d] is %g, below 0", field, p, i, v)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Counters)) {
		if v := r.Counters[name]; v < 0 {
			return fmt.Errorf("counters.%s is %g, below 0", name, v)
		}
	}
	return nil
}
