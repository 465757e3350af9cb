package cli

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gpuprof/gpuprof"
)

// ListKinds lists the arguments of gpuprof explain list.
func ListKinds() []string {
	return []string{"workloads", "knobs", "presets", "devices", "baselines", "rules", "warnings", "columns", "terms"}
}

// TwoEnds reports whether a text is a range of git revisions, such as v1..v4.
func TwoEnds(text string) bool {
	good, bad, ok := strings.Cut(text, "..")
	return ok && good != "" && bad != "" && !strings.HasPrefix(bad, ".") && !strings.HasPrefix(text, "-")
}

// ChoicesOf returns the valid values of a flag or argument, from its `choices` tag or a document's formats; nil if any
// value is valid.
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

// KnownPlot returns ErrUsage if no plot has the name kind; the empty name is valid.
func KnownPlot(a *App, kind string) error {
	if kind == "" || slices.Contains(a.Plots, kind) {
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "drawing plot %s: there is no such plot", kind).WithFix("the plots are %s%s", strings.Join(a.Plots, ", "), gpuprof.DidYouMean(kind, a.Plots))
}
