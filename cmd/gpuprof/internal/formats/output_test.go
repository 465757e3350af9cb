package formats

import (
	"maps"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// TestOutputTable: a kind prints only formats that it has, and no format of a file is
// without a document.
func TestOutputTable(t *testing.T) {
	table := Documents(gpuprof.Tool{})
	has := map[string]map[string]bool{}
	add := func(kind, format string) {
		if has[kind] == nil {
			has[kind] = map[string]bool{}
		}
		has[kind][format] = true
	}
	for kind, formats := range map[string][]string{
		"run":         formatsOf(table.Run),
		"comparison":  formatsOf(table.Comparison),
		"tuning":      formatsOf(table.Tuning),
		"analysis":    formatsOf(table.Analysis),
		"health":      formatsOf(table.Health),
		"explanation": formatsOf(table.Explanation),
		"bisect":      formatsOf(table.Bisect),
		"history":     formatsOf(table.History),
		"memory":      formatsOf(table.Memory),
		"check":       formatsOf(table.Check),
		"diagnosis":   formatsOf(table.Diagnosis),
		"fleet":       formatsOf(table.Fleet),
		"noise":       formatsOf(table.Noise),
	} {
		for _, f := range formats {
			add(kind, f)
		}
	}
	prints, files := table.Formats()
	for kind, formats := range prints {
		for _, f := range formats {
			if !has[kind][f] {
				t.Errorf("%s prints %s and has no such writer", kind, f)
			}
		}
		if formats[0] != "table" {
			t.Errorf("%s prints %s where nothing is asked for", kind, formats[0])
		}
	}
	for _, f := range runfile.Formats() {
		written := f.Name == "recording" // of a part that analyze cuts out, see savedPart
		for kind, ext := range files {
			written = written || slices.Contains(ext, f.Ext) && has[kind][f.Name]
		}
		if !written {
			t.Errorf("no document is written as %s", f.Ext)
		}
	}
}

func formatsOf[D any](k cli.Kind[D]) []string { return slices.Collect(maps.Keys(k.Writers)) }
