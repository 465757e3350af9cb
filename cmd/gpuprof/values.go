package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gpuprof/gpuprof"
)

func listKinds() []string {
	return []string{"workloads", "knobs", "presets", "devices", "baselines", "rules", "warnings", "columns", "terms"}
}

// twoEnds says that a text names a range.
func twoEnds(text string) bool {
	good, bad, ok := strings.Cut(text, "..")
	return ok && good != "" && bad != "" && !strings.HasPrefix(bad, ".") && !strings.HasPrefix(text, "-")
}

// choicesOf are the values that a flag or argument takes: its `choices`, or the formats
// that a kind of document prints; nil for any.
func choicesOf(d documents, tag *kong.Tag) []string {
	if tag.Has("formats") {
		prints, _ := d.formats()
		return prints[tag.Get("formats")]
	}
	if tag.Has("choices") {
		return strings.Split(tag.Get("choices"), ",")
	}
	return nil
}

// knownPlot refuses an unknown --plot.
func knownPlot(a *app, kind string) error {
	if kind == "" || slices.Contains(a.plots, kind) {
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "drawing plot %s: there is no such plot", kind).WithFix("the plots are %s%s", strings.Join(a.plots, ", "), gpuprof.DidYouMean(kind, a.plots))
}
