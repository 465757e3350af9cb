package gpuprof

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// DecodeJSON is json.Unmarshal that lets no number go missing: null, NaN, an
// infinity, a text or a value out of range where v has a number is an error that
// names the field ("step.runs[0][17]"). encoding/json reads null as 0. A Number and
// what a pointer points to may be null.
func DecodeJSON(text []byte, v any) error {
	err := json.Unmarshal(text, v)
	if err != nil {
		text = NullNumbers(text)
	}
	if named := checkNumbers(text, reflect.TypeOf(v), ""); named != nil {
		return named
	}
	return err
}

// checkNumbers walks a JSON value beside the type that it is decoded into. What is
// wrong with it otherwise is json.Unmarshal's to say.
func checkNumbers(raw json.RawMessage, t reflect.Type, path string) error {
	raw = bytes.TrimSpace(raw)
	null := string(raw) == "null"
	switch {
	case t == reflect.TypeFor[Number]():
		if null {
			return nil
		}
		return checkNumber(raw, path)
	case t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		if null {
			return nil
		}
		return checkNumbers(raw, t.Elem(), path)
	case reflect.Struct:
		return checkStruct(raw, t, path)
	case reflect.Map:
		return checkMap(raw, t.Elem(), path)
	case reflect.Slice, reflect.Array:
		return checkList(raw, t.Elem(), path)
	case reflect.Interface:
		if len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9') {
			return checkNumber(raw, path)
		}
		return nil
	case reflect.String, reflect.Bool:
		return nil
	}
	return checkNumber(raw, path)
}

// checkNumber is where the walk ends.
func checkNumber(raw []byte, path string) error {
	if len(raw) == 0 {
		return nil
	}
	switch c := raw[0]; {
	case c == 'n':
		return fmt.Errorf("%s is null, NaN or infinite, and has to be a number", path)
	case c != '-' && (c < '0' || c > '9'):
		return fmt.Errorf("%s is %.40s, and has to be a number", path, raw)
	}
	if _, err := strconv.ParseFloat(string(raw), 64); errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("%s is %.40s, which is out of range", path, raw)
	}
	return nil
}

func checkStruct(raw []byte, t reflect.Type, path string) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return nil
	}
	fields := map[string]reflect.Type{} // by name in lower case, as encoding/json finds them
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" || !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		fields[strings.ToLower(name)] = f.Type
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if f, ok := fields[strings.ToLower(key)]; ok {
			if err := checkNumbers(members[key], f, strings.TrimPrefix(path+"."+key, ".")); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkMap(raw []byte, elem reflect.Type, path string) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if err := checkNumbers(members[key], elem, strings.TrimPrefix(path+"."+key, ".")); err != nil {
			return err
		}
	}
	return nil
}

func checkList(raw []byte, elem reflect.Type, path string) error {
	var items []json.RawMessage
	switch elem.Kind() {
	case reflect.Uint8, reflect.String, reflect.Bool:
		return nil
	case reflect.Float64, reflect.Int, reflect.Int64:
		// Most samples are here: one look is enough where there is nothing to name.
		if !bytes.ContainsAny(raw, `n"`) && !hugeExponent(raw) {
			return nil
		}
	}
	if json.Unmarshal(raw, &items) != nil {
		return nil
	}
	for i, item := range items {
		if err := checkNumbers(item, elem, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

// hugeExponent says that a list of numbers may hold one out of range: an exponent
// of three digits, or no exponent and some three hundred digits, which nothing
// writes.
func hugeExponent(raw []byte) bool {
	for {
		i := bytes.IndexAny(raw, "eE")
		if i < 0 {
			return false
		}
		raw = bytes.TrimLeft(raw[i+1:], "+-")
		if len(raw) > 2 && raw[2] >= '0' && raw[2] <= '9' && raw[1] >= '0' && raw[1] <= '9' {
			return true
		}
	}
}

// NullNumbers replaces the words NaN and Infinity, which several programs write
// where JSON has no number for them, with null. Text in quotes stays.
func NullNumbers(text []byte) []byte {
	if !bytes.Contains(text, []byte("NaN")) && !bytes.Contains(text, []byte("Inf")) && !bytes.Contains(text, []byte("nan")) && !bytes.Contains(text, []byte("inf")) {
		return text
	}
	out := make([]byte, 0, len(text))
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
