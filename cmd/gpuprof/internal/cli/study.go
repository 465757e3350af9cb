package cli

import (
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// Study is the result of analyze: one analysis, or a comparison of two.
type Study struct {
	Analysis   *analyze.Analysis
	Indexes    []*analyze.Index
	Comparison *analyze.Comparison
	Before     []*analyze.Index // of a comparison; indexes are those after
	Scratch    *child.Scratch   // nil for whole traces
	Part       string           // the file with the part that was cut out, "" for whole traces
}

// Document is the versioned document of either.
func (s *Study) Document() any {
	if s.Comparison != nil {
		return s.Comparison
	}
	return s.Analysis
}

// Close removes the temporary file.
func (s *Study) Close() {
	if s.Scratch != nil {
		s.Scratch.Close()
	}
}
