package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/report/runfile"
)

// TestOutputTable: a kind prints only formats that it has, and no format of a file is
// without a document.
func TestOutputTable(t *testing.T) {
	table := outputTable()
	has := map[string]map[string]bool{}
	add := func(kind, format string) {
		if has[kind] == nil {
			has[kind] = map[string]bool{}
		}
		has[kind][format] = true
	}
	for kind, formats := range map[string][]string{
		"run":         formatsOf(table.run),
		"comparison":  formatsOf(table.comparison),
		"tuning":      formatsOf(table.tuning),
		"analysis":    formatsOf(table.analysis),
		"health":      formatsOf(table.health),
		"explanation": formatsOf(table.explanation),
		"bisect":      formatsOf(table.bisect),
		"history":     formatsOf(table.history),
		"memory":      formatsOf(table.memory),
		"check":       formatsOf(table.check),
		"diagnosis":   formatsOf(table.diagnosis),
		"fleet":       formatsOf(table.fleet),
		"noise":       formatsOf(table.noise),
	} {
		for _, f := range formats {
			add(kind, f)
		}
	}
	prints, files := table.formats()
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

func formatsOf[D any](k kind[D]) []string { return slices.Collect(maps.Keys(k.writers)) }
