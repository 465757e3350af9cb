package tuneprogram

import (
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Change is the effect that a setting may have on the numbers of the training.
type Change int

// The changes.
const (
	Exact    Change = iota // none: the losses must be those that two plain runs give each other
	Rounding               // another order of operations or precision: the losses must stay within --max-error
	Users                  // a value of the user's own: the losses are told, and refuse nothing
)

// Setting is a row of the table: one value of one knob.
type Setting struct {
	Knob, From, Value string
	Hook              map[string]any    // keys of the hook's settings
	Env               []string          // NAME=VALUE
	Args              map[string]string // words in place of {NAME} in the command
	Change            Change
	Line              string // of code, that does the same in the program
	// Slow settings cost many seconds once in each process.
	Slow bool
}

// Name is the setting as --only and --skip and the table have it.
func (s Setting) Name() string { return s.Knob + "=" + s.Value }

// Set is settings that are applied together, each of another knob.
type Set []Setting

// Key names a set; "" is the unchanged program.
func (s Set) Key() string {
	names := make([]string, len(s))
	for i, one := range s {
		names[i] = one.Name()
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// Knobs are the values by knob.
func (s Set) Knobs() gpuprof.Settings {
	out := gpuprof.Settings{}
	for _, one := range s {
		out[one.Knob] = one.Value
	}
	return out
}

// Lines are the lines of code that do the same.
func (s Set) Lines() (out []string) {
	for _, one := range s {
		if one.Line != "" {
			out = append(out, one.Line)
		}
	}
	return out
}

// addSetting is the set and one more setting, in place of another value of the same knob.
func (s Set) addSetting(one Setting) Set { return append(s.dropKnob(one.Knob), one) }

func (s Set) dropKnob(knob string) Set {
	return slices.DeleteFunc(slices.Clone(s), func(has Setting) bool { return has.Knob == knob })
}

func (s Set) hasKnob(knob string) bool {
	return slices.ContainsFunc(s, func(has Setting) bool { return has.Knob == knob })
}

// hookSettings merges the hook's keys; lists are joined.
func (s Set) hookSettings() map[string]any {
	out := map[string]any{}
	for _, one := range s {
		for k, v := range one.Hook {
			if list, ok := v.([]string); ok {
				had, _ := out[k].([]string)
				v = append(slices.Clone(had), list...)
			}
			out[k] = v
		}
	}
	return out
}

func (s Set) environment() (out []string) {
	for _, one := range s {
		out = append(out, one.Env...)
	}
	return out
}

func (s Set) arguments() map[string]string {
	out := map[string]string{}
	for _, one := range s {
		maps.Copy(out, one.Args)
	}
	return out
}

// mostChange is the most that any of the settings may do to the numbers.
func (s Set) mostChange() (most Change) {
	for _, one := range s {
		most = max(most, one.Change)
	}
	return most
}

func (s Set) isSlow() bool { return slices.ContainsFunc(s, func(one Setting) bool { return one.Slow }) }

// compilesModel reports whether the model is compiled, which gives it random numbers of its own.
func (s Set) compilesModel() bool { return s.hookSettings()["compile"] != nil }
