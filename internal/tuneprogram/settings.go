package tuneprogram

import (
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Change is a setting's effect on the numbers of the training.
type Change int

// The effects, from the least to the most.
const (
	Exact    Change = iota // none: losses may differ only as two plain runs differ
	Rounding               // another order of operations or precision: losses must stay within --max-error
	Users                  // a value of the user's own: losses are reported and never refuse the setting
)

// Setting is one value of one knob.
type Setting struct {
	Knob, From, Value string
	Hook              map[string]any    // keys for the hook's configuration
	Env               []string          // NAME=VALUE
	Args              map[string]string // replaces {NAME} in the command
	Change            Change
	Line              string // line of code with the same effect in the program
	// Slow settings cost many seconds once in each process.
	Slow bool
}

// Name is the setting's name in the table, --only and --skip.
func (s Setting) Name() string { return s.Knob + "=" + s.Value }

// choice names what the setting chooses: its knob, or for fused and foreach the implementation of the optimizer, of
// which PyTorch takes one.
func (s Setting) choice() string {
	if s.Knob == "fused" || s.Knob == "foreach" {
		return "optimizer"
	}
	return s.Knob
}

// Set holds settings that are applied together, at most one per choice.
type Set []Setting

// Key identifies a set, whatever the order of its settings; "" is the unchanged program.
func (s Set) Key() string {
	names := make([]string, len(s))
	for i, one := range s {
		names[i] = one.Name()
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// Knobs maps each knob to its value.
func (s Set) Knobs() gpuprof.Settings {
	out := gpuprof.Settings{}
	for _, one := range s {
		out[one.Knob] = one.Value
	}
	return out
}

// Lines returns the lines of code with the same effect.
func (s Set) Lines() (out []string) {
	for _, one := range s {
		if one.Line != "" {
			out = append(out, one.Line)
		}
	}
	return out
}

// addSetting returns the set with one more setting, which replaces another value of the same choice.
func (s Set) addSetting(one Setting) Set { return append(s.dropChoice(one), one) }

// dropChoice returns the set without the setting of the same choice as one.
func (s Set) dropChoice(one Setting) Set {
	return slices.DeleteFunc(slices.Clone(s), func(has Setting) bool { return has.choice() == one.choice() })
}

func (s Set) hasChoice(one Setting) bool {
	return slices.ContainsFunc(s, func(has Setting) bool { return has.choice() == one.choice() })
}

// hookSettings merges the hook keys of all settings and joins lists under the same key.
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

// mostChange returns the largest effect that any setting may have on the numbers.
func (s Set) mostChange() (most Change) {
	for _, one := range s {
		most = max(most, one.Change)
	}
	return most
}

func (s Set) isSlow() bool { return slices.ContainsFunc(s, func(one Setting) bool { return one.Slow }) }

// compilesModel reports whether the model is compiled, and thus draws other random numbers.
func (s Set) compilesModel() bool { return s.hookSettings()["compile"] != nil }
