package main

import (
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/trace"
)

// study is what analyze found out: one analysis, or a comparison of two.
type study struct {
	analysis   *trace.Analysis
	indexes    []*trace.Index
	comparison *trace.Comparison
	before     []*trace.Index // of a comparison; indexes are those after
	scratch    *child.Scratch // nil for whole traces
	part       string         // the file with the part that was cut out, "" for whole traces
}

// document is the versioned document of either.
func (s *study) document() any {
	if s.comparison != nil {
		return s.comparison
	}
	return s.analysis
}

// close removes the temporary file.
func (s *study) close() {
	if s.scratch != nil {
		s.scratch.Close()
	}
}
