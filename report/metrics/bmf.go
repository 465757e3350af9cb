package metrics

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// bmfValue is a figure with the least and the largest median of a process (bencher.dev, "Bencher Metric Format").
type bmfValue struct {
	Value float64 `json:"value"`
	Low   float64 `json:"lower_value"`
	High  float64 `json:"upper_value"`
}

// WriteBMF writes the figures of runs in Bencher's Metric Format.
func WriteBMF(w io.Writer, runs []*gpuprof.Run) error {
	figures, err := runFigures(runs)
	if err != nil {
		return err
	}
	return writeBMF(w, figures)
}

// WriteComparisonBMF writes the figures of a comparison's new side in Bencher's Metric Format.
func WriteComparisonBMF(w io.Writer, c *compare.Comparison) error {
	figures, err := comparisonFigures(c)
	if err != nil {
		return err
	}
	return writeBMF(w, figures)
}

// writeBMF writes the figures. Every benchmark's name begins with gpuprof/, by which gpuprof recognizes its own files:
// the format has no comments.
func writeBMF(w io.Writer, figures []figure) error {
	out := map[string]map[string]bmfValue{}
	for _, f := range figures {
		parts := []string{"gpuprof"}
		if f.benchmark != "" {
			parts = append(parts, f.benchmark)
		}
		if f.metric != "step" {
			parts = append(parts, f.metric)
		}
		name := strings.Join(parts, "/")
		if out[name] == nil {
			out[name] = map[string]bmfValue{}
		}
		slug, scale := measureOf(f.unit)
		out[name][slug] = bmfValue{f.value * scale, f.low * scale, f.high * scale}
	}
	text, err := json.MarshalIndent(out, "", " ")
	if err == nil {
		_, err = w.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("writing metrics for Bencher: %w", err)
	}
	return nil
}

// measureOf returns Bencher's slug of a unit, and the factor to Bencher's unit, which is ns for latency.
func measureOf(unit string) (slug string, scale float64) {
	switch {
	case unit == "s":
		return "latency", 1e9
	case strings.HasSuffix(unit, "/s"):
		return "throughput", 1
	}
	switch unit {
	case "B":
		return "bytes", 1
	case "J":
		return "joules", 1
	case "count":
		return "count", 1
	}
	slug = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, unit)
	return cmp.Or(strings.Trim(slug, "-"), "value"), 1
}
