package cli

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gpuprof/gpuprof"
)

// ListKinds are the lists that gpuprof explain list takes.
func ListKinds() []string {
	return []string{"workloads", "knobs", "presets", "devices", "baselines", "rules", "warnings", "columns", "terms"}
}

// TwoEnds reports whether a text is a range, such as 1..4.
func TwoEnds(text string) bool {
	good, bad, ok := strings.Cut(text, "..")
	return ok && good != "" && bad != "" && !strings.HasPrefix(bad, ".") && !strings.HasPrefix(text, "-")
}

// ChoicesOf are the values that a flag or argument takes: its `choices`, or the formats
// that a kind of document prints; nil for any.
func ChoicesOf(d Documents, tag *kong.Tag) []string {
	if tag.Has("formats") {
		prints, _ := d.Formats()
		return prints[tag.Get("formats")]
	}
	if tag.Has("choices") {
		return strings.Split(tag.Get("choices"), ",")
	}
	return nil
}

// KnownPlot refuses an unknown --plot.
func KnownPlot(a *App, kind string) error {
	if kind == "" || slices.Contains(a.Plots, kind) {
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "drawing plot %s: there is no such plot", kind).WithFix("the plots are %s%s", strings.Join(a.Plots, ", "), gpuprof.DidYouMean(kind, a.Plots))
}
