// Package runfile reads and writes files of runs and reports: it maps extensions to formats, refuses to overwrite other
// programs' files, and never leaves a partial file.
package runfile

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Format is a kind of output file.
type Format struct {
	Ext  string // with its dots: ".json.gz"
	Name string // name of the renderer: json html png svg pprof markdown table csv bench perfetto junit prometheus bmf openmetrics speedscope folded recording
	Doc  string
}

// Formats lists all formats, in the order of help texts.
func Formats() []Format {
	return []Format{
		{".json", "json", "the run itself, every sample"},
		{".json.gz", "json", "the same, gzip"},
		{".json.zst", "json", "the same, zstd"},
		{".html", "html", "self-contained report"},
		{".png", "png", "picture"},
		{".svg", "svg", "picture"},
		{".pb.gz", "pprof", "profile for go tool pprof"},
		{".md", "markdown", "report for a comment or a wiki"},
		{".txt", "table", "what the terminal shows"},
		{".csv", "csv", "a row for each metric of the step and of each stage"},
		{".bench", "bench", "Go benchmark format for benchstat"},
		{".bmf.json", "bmf", "figures in Bencher's Metric Format"},
		{".openmetrics", "openmetrics", "figures as OpenMetrics text"},
		{".xml", "junit", "verdict as JUnit XML"},
		{".prom", "prometheus", "metrics for Prometheus's node exporter"},
		{".perfetto.json.gz", "perfetto", "trace for ui.perfetto.dev"},
		{".perfetto.json", "perfetto", "the same, not compressed"},
		{".speedscope.json", "speedscope", "stacks for speedscope.app: sampled, or of memory"},
		{".folded", "folded", "the same for flamegraph.pl: a stack and its microseconds or bytes a line"},
		{".gpt", "recording", "a part of a recording of the CUDA recorder"},
	}
}

// FormatOf returns the format of a path's extension. For other extensions, ErrUsage lists the valid ones.
func FormatOf(path string) (Format, error) {
	name := strings.ToLower(filepath.Base(path))
	best := Format{}
	for _, f := range Formats() {
		if strings.HasSuffix(name, f.Ext) && len(f.Ext) > len(best.Ext) {
			best = f
		}
	}
	// A Perfetto, BMF or speedscope file has a name that ends like the name of a run.
	stem := strings.TrimSuffix(name, best.Ext)
	if best.Ext == "" || best.Name == "json" && (strings.HasSuffix(stem, ".perfetto") || strings.HasSuffix(stem, ".bmf") || strings.HasSuffix(stem, ".speedscope")) {
		return Format{}, gpuprof.Errorf(gpuprof.ErrUsage, "choosing the format of %s: the extension is not known", path).WithFix("use one of %s", listExtensions())
	}
	return best, nil
}

func listExtensions() string {
	var out []string
	for _, f := range Formats() {
		out = append(out, f.Ext)
	}
	return strings.Join(out, " ")
}

func isReadable(f Format) bool {
	return slices.Contains([]string{".json", ".json.gz", ".json.zst"}, f.Ext)
}
