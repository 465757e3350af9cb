package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Axis is one --set flag: a knob and its values.
type Axis struct {
	Knob   string
	Values []string
}

// ParseSets parses knob=value[,value…] flags, without checking that the knobs exist. A value may contain '=' (a file
// name).
func ParseSets(flags []string) ([]Axis, error) {
	var axes []Axis
	given := map[string]bool{}
	for _, f := range flags {
		knob, list, ok := strings.Cut(f, "=")
		if !ok || knob == "" {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading --set %s: expected knob=value", f).WithFix("write --set KNOB=VALUE, see gpuprof explain list knobs")
		}
		if given[knob] {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading --set %s: knob %s is set twice", f, knob).WithFix("give its values in one flag, --set %s=A,B", knob)
		}
		values := strings.Split(list, ",")
		if slices.Contains(values, "") {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading --set %s: a value is empty", f).WithFix("write --set %s=A,B without a spare comma", knob)
		}
		given[knob] = true
		axes = append(axes, Axis{knob, values})
	}
	return axes, nil
}

// OneSetting refuses a sweep, since two builds are compared at one setting.
func OneSetting(flags []string) error {
	axes, err := ParseSets(flags)
	if err != nil {
		return err
	}
	for _, ax := range axes {
		if len(ax.Values) > 1 {
			return gpuprof.Errorf(gpuprof.ErrUsage, "reading --set %s=%s: builds are compared at one setting, and this is a sweep", ax.Knob, strings.Join(ax.Values, ",")).
				WithFix("give one value, --set %s=%s", ax.Knob, ax.Values[0])
		}
	}
	return nil
}

// combineAxes returns every combination of the axes' values; the values of the last axis vary fastest.
func combineAxes(axes []Axis) []gpuprof.Settings {
	points := []gpuprof.Settings{{}}
	for _, ax := range axes {
		var next []gpuprof.Settings
		for _, p := range points {
			for _, v := range ax.Values {
				s := maps.Clone(p)
				s[ax.Knob] = v
				next = append(next, s)
			}
		}
		points = next
	}
	return points
}

// refuseRepeated refuses a sweep that would measure one setting twice, such as batch=8,08. knobs has the complete
// settings of each point of the sweep. The error names the knob.
func refuseRepeated(axes []Axis, knobs []gpuprof.Settings) error {
	seen := map[string]bool{}
	for _, set := range knobs {
		point := Describe(set)
		if seen[point] {
			for _, ax := range axes {
				if len(ax.Values) > 1 {
					return gpuprof.Errorf(gpuprof.ErrUsage, "reading --set %s=%s: the sweep holds one setting twice", ax.Knob, strings.Join(ax.Values, ",")).WithFix("give each value once")
				}
			}
		}
		seen[point] = true
	}
	return nil
}

// Describe formats a point of a sweep as knob=value words, for progress and errors.
func Describe(s gpuprof.Settings) string {
	parts := make([]string, 0, len(s))
	for _, k := range slices.Sorted(maps.Keys(s)) {
		parts = append(parts, k+"="+s[k])
	}
	return strings.Join(parts, " ")
}
