package workloads

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Knob is one setting of a workload.
type Knob struct {
	Name    string
	Doc     string
	Default string
	// Values are the accepted names; values that Parse accepts are valid too.
	Values []string
	// Accept describes the values that Parse accepts, such as "integer >= 1".
	Accept string
	// Parse returns the canonical spelling of a value outside Values, or the violated rule, "must be at least 1".
	Parse func(string) (string, error)
	// NamesFile reports that a value outside Values is a path.
	NamesFile bool
	// Model knobs change the computed result; other knobs change only how it is computed. Tuning does not change model
	// knobs, and runs that differ in one are not comparable.
	Model bool

	// Scales reports that a step's work is proportional to the value.
	Scales bool
	// Repeats returns the number of steps after which the setting's work repeats; nil means 1. EveryKnob sets it.
	Repeats func(gpuprof.Settings) int
	// Try are the values that tune tries first. nil: tune tries Values; for a number that Parse accepts, also a quarter,
	// half, double and four times the current one. Empty: tune tries none.
	Try []string
	// Ungated gives, by value, the reason why a gate's figures would be meaningless with this value.
	Ungated map[string]string
	// TryUnderLoad replaces Try if the goal is the latency that callers see.
	TryUnderLoad []string
	// Acts are the stages whose time the knob can change; AllStages means any, nil means unknown.
	Acts []string
	// Answers are the remedies that the knob provides.
	Answers []Answer
	// Advice gives, by value, the meaning of the value in a PyTorch program, for a reader who is advised to use it;
	// values that are not recommended have none. PyTorch gives one line of code by value. AnyValue covers all other
	// values, with %s for the value.
	Advice, PyTorch map[string]string
}

// Choice returns a knob with a fixed list of values, the first of which is the default.
func Choice(name, doc string, values ...string) Knob {
	return Knob{Name: name, Doc: doc, Default: values[0], Values: values}
}

// IntKnob returns an integer knob in [lo, hi].
func IntKnob(name, doc string, def, lo, hi int) Knob {
	return Knob{
		Name: name, Doc: doc, Default: strconv.Itoa(def), Accept: fmt.Sprintf("integer from %d to %d", lo, hi),
		Parse: func(s string) (string, error) {
			v, err := strconv.Atoi(s)
			if err != nil {
				return "", fmt.Errorf("is not a whole number")
			}
			if v < lo || v > hi {
				return "", fmt.Errorf("is outside %d to %d", lo, hi)
			}
			return strconv.Itoa(v), nil
		},
	}
}

// FloatKnob returns a number knob in (lo, hi].
func FloatKnob(name, doc string, def, lo, hi float64) Knob {
	return Knob{
		Name: name, Doc: doc, Default: formatFloat(def), Accept: fmt.Sprintf("number above %g, at most %g", lo, hi),
		Parse: func(s string) (string, error) {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil || v != v {
				return "", fmt.Errorf("is not a number")
			}
			if v <= lo || v > hi {
				return "", fmt.Errorf("is not above %g and at most %g", lo, hi)
			}
			return formatFloat(v), nil
		},
	}
}

// CountKnob returns a knob with the default "all" or an integer of at least 1; Settings.Int reads "all" as 0.
func CountKnob(name, doc string) Knob {
	return Knob{Name: name, Doc: doc, Default: "all", Values: []string{"all"}, Accept: "integer >= 1", Parse: func(s string) (string, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return "", fmt.Errorf("is not a whole number of at least 1")
		}
		return strconv.Itoa(n), nil
	}}
}

// EveryKnob returns a knob for an action that only some steps do. A value is one of words, or "every:K" (or plain K)
// for every K-th step. If words contains "step", it replaces every:1. Settings.Every reads the value.
func EveryKnob(name, doc, def string, words ...string) Knob {
	every := func(s gpuprof.Settings) int { return s.Every(name) }
	return Knob{Name: name, Doc: doc, Default: def, Values: words, Accept: "every:K", Repeats: every, Parse: func(s string) (string, error) {
		n, err := strconv.Atoi(strings.TrimPrefix(s, "every:"))
		switch {
		case err != nil || n < 1:
			return "", fmt.Errorf("names no number of steps of at least 1")
		case n == 1 && slices.Contains(words, "step"):
			return "step", nil
		}
		return "every:" + strconv.Itoa(n), nil
	}}
}

// RefuseThreads returns an error if a device cannot provide the n CPU threads of the CountKnob "threads".
func RefuseThreads(d device.Info, n int) error {
	switch {
	case n > 0 && d.MaxThreads == 0:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting threads=%d on device %s: it has no CPU threads to limit", n, d.Name).WithFix("leave threads at all")
	case n > d.MaxThreads:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting threads=%d on device %s: it takes at most %d", n, d.Name, d.MaxThreads).WithFix("use fewer, or all")
	}
	return nil
}

func formatFloat(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// AsModel marks the knob as one that changes the computed result.
func (k Knob) AsModel() Knob { k.Model = true; return k }

// Canonical checks a value and returns its canonical spelling.
func (k Knob) Canonical(value string) (string, error) {
	if slices.Contains(k.Values, value) {
		return value, nil
	}
	if k.Parse != nil {
		v, err := k.Parse(value)
		if err == nil {
			return v, nil
		}
		return "", gpuprof.Errorf(gpuprof.ErrUsage, "setting knob %s: %q %w", k.Name, value, err).WithFix("%s", k.Usage())
	}
	return "", gpuprof.Errorf(gpuprof.ErrUsage, "setting knob %s: unknown value %q", k.Name, value).WithFix("%s%s", k.Usage(), gpuprof.DidYouMean(value, k.Values))
}

// Usage describes the accepted values, such as "use unfused, fused or csr".
func (k Knob) Usage() string {
	parts := slices.Clone(k.Values)
	if k.Accept != "" {
		parts = append(parts, k.Accept)
	}
	return "use " + gpuprof.WordList(parts, "or")
}

// Resolve completes a run's knob values: the workload's defaults, overridden by the preset's values, then by the
// user's. All are checked and canonical. Unknown names give an ErrUsage with the nearest valid ones.
func Resolve(w Workload, preset string, set gpuprof.Settings) (gpuprof.Settings, error) {
	out := gpuprof.Settings{}
	knobs := map[string]Knob{}
	for _, k := range w.Knobs() {
		knobs[k.Name] = k
		out[k.Name] = k.Default
	}
	p, err := FindPreset(w, preset)
	if err != nil {
		return nil, err
	}
	for _, layer := range []gpuprof.Settings{p.Set, set} {
		for _, name := range slices.Sorted(maps.Keys(layer)) {
			k, ok := knobs[name]
			if !ok {
				names := slices.Sorted(maps.Keys(knobs))
				return nil, gpuprof.Errorf(gpuprof.ErrUsage, "setting knob %s: workload %s has no such knob", name, w.Name()).WithFix("its knobs are %s%s", strings.Join(names, ", "), gpuprof.DidYouMean(name, names))
			}
			if out[name], err = k.Canonical(layer[name]); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// Read returns canonical settings as a struct. A field with the tag knob:"NAME" holds that knob; embedded structs are
// filled too. An int is the number, or the number of steps of an EveryKnob, and 0 for a word. A bool is true for "on",
// or with the tag knob:"NAME=VALUE" for that value. A string is the spelling. Missing settings are zero.
func Read[T any](set gpuprof.Settings) (out T) {
	readFields(set, reflect.ValueOf(&out).Elem())
	return out
}

func readFields(set gpuprof.Settings, to reflect.Value) {
	for i := range to.NumField() {
		f := to.Type().Field(i)
		name, value, _ := strings.Cut(f.Tag.Get("knob"), "=")
		switch kind := f.Type.Kind(); {
		case f.Anonymous && kind == reflect.Struct:
			readFields(set, to.Field(i))
		case name == "":
		case kind == reflect.Int:
			to.Field(i).SetInt(int64(set.Every(name)))
		case kind == reflect.Float64:
			to.Field(i).SetFloat(set.Float(name))
		case kind == reflect.Bool:
			to.Field(i).SetBool(set[name] == cmp.Or(value, "on"))
		case kind == reflect.String:
			to.Field(i).SetString(set[name])
		}
	}
}

// CountWaits returns an Answer.Waits that reads the settings as a T and needs no counters.
func CountWaits[T any](count func(T) float64) func(gpuprof.Settings, map[string]float64) float64 {
	return func(set gpuprof.Settings, _ map[string]float64) float64 { return count(Read[T](set)) }
}

// CountPerStep returns how many times per step an action happens that happens every n steps; n is 0 for never.
func CountPerStep(n int) float64 {
	if n == 0 {
		return 0
	}
	return 1 / float64(n)
}

// DefaultPreset returns the preset to use on a kind of device ("host" or "cuda") if the user names none.
func DefaultPreset(w Workload, kind string) string {
	all := w.Presets()
	for _, p := range all {
		if slices.Contains(p.DefaultOn, kind) {
			return p.Name
		}
	}
	if len(all) == 0 {
		return ""
	}
	return all[0].Name
}

// FindPreset looks a preset up by name.
func FindPreset(w Workload, name string) (Preset, error) {
	var names []string
	for _, p := range w.Presets() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Preset{}, gpuprof.Errorf(gpuprof.ErrUsage, "choosing preset %s: workload %s has no such preset", name, w.Name()).WithFix("its presets are %s%s", strings.Join(names, ", "), gpuprof.DidYouMean(name, names))
}
