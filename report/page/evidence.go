package page

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// unit is an ending of evidence keys and the format of their figures.
type unit struct {
	ending string
	text   func(float64) string
}

// unitTable lists units by the ending of a key, longer endings first.
func unitTable() []unit {
	return []unit{
		{"_bytes_per_s", func(v float64) string { return gpuprof.FormatSI(v, "B/s") }},
		{"_flops_per_s", func(v float64) string { return gpuprof.FormatSI(v, "flop/s") }},
		{"_ns", func(v float64) string { return gpuprof.FormatSeconds(v * 1e-9) }},
		{"_s", gpuprof.FormatSeconds},
		{"_bytes", func(v float64) string { return gpuprof.FormatSI(v, "B") }},
		{"_share", view.Percent},
		{"_percent", func(v float64) string { return view.Percent(v / 100) }},
		{"_hz", func(v float64) string { return gpuprof.FormatSI(v, "Hz") }},
	}
}

// evidenceOf returns a figure of a finding's evidence as label and text: "idle after", "1.20 ms". The key determines
// the unit, by an ending in unitTable or by bytes_ or share_ at the front.
func evidenceOf(key string, v any) (label, text string) {
	words := func(s string) string { return strings.ReplaceAll(s, "_", " ") }
	x, ok := parseNumber(v)
	if !ok {
		return words(key), fmt.Sprint(v)
	}
	if !gpuprof.IsFinite(x) {
		return words(key), "unknown"
	}
	for _, u := range unitTable() {
		if name, has := strings.CutSuffix(key, u.ending); has && name != "" {
			return words(name), u.text(x)
		}
	}
	switch {
	case strings.HasPrefix(key, "bytes_"):
		return words(key), gpuprof.FormatSI(x, "B")
	case strings.HasPrefix(key, "share_"):
		return words(key), view.Percent(x)
	}
	return words(key), view.Value(x)
}

func parseNumber(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// evidenceLines formats a finding's evidence, sorted by key.
func evidenceLines(evidence map[string]any) (out []Line) {
	for _, key := range slices.Sorted(maps.Keys(evidence)) {
		label, text := evidenceOf(key, evidence[key])
		out = append(out, Line{Label: label, Value: text})
	}
	return out
}

// evidenceText formats evidence on one line: "exposed 41.0 us, sync points 1".
func evidenceText(evidence map[string]any) string {
	var parts []string
	for _, l := range evidenceLines(evidence) {
		parts = append(parts, l.Label+" "+l.Value)
	}
	return strings.Join(parts, ", ")
}
