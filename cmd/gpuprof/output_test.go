package main

import (
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
	for f := range table.run.writers {
		add("run", f)
	}
	for f := range table.comparison.writers {
		add("comparison", f)
	}
	for f := range table.tuning.writers {
		add("tuning", f)
	}
	for f := range table.analysis.writers {
		add("analysis", f)
	}
	for f := range table.health.writers {
		add("health", f)
	}
	for f := range table.explanation.writers {
		add("explanation", f)
	}
	for f := range table.bisect.writers {
		add("bisect", f)
	}
	for f := range table.history.writers {
		add("history", f)
	}
	for f := range table.memory.writers {
		add("memory", f)
	}
	for f := range table.check.writers {
		add("check", f)
	}
	for f := range table.diagnosis.writers {
		add("diagnosis", f)
	}
	for f := range table.fleet.writers {
		add("fleet", f)
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
		written := false
		for kind, ext := range files {
			written = written || slices.Contains(ext, f.Ext) && has[kind][f.Name]
		}
		if !written {
			t.Errorf("no document is written as %s", f.Ext)
		}
	}
}
