package cli

import (
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// Study is the document of gpuprof analyze: an analysis, or a comparison of two.
type Study struct {
	Analysis   *analyze.Analysis
	Indexes    []*analyze.Index
	Comparison *analyze.Comparison
	Before     []*analyze.Index // of a comparison's old side; indexes has the new side's
	Scratch    *child.Scratch   // temporary file of a part; nil for whole traces
	Part       string           // the file with the part that was cut out, "" for whole traces
}

// Document returns the analysis or the comparison.
func (s *Study) Document() any {
	if s.Comparison != nil {
		return s.Comparison
	}
	return s.Analysis
}

// Close removes the study's temporary folder, if there is one.
func (s *Study) Close() {
	if s.Scratch != nil {
		s.Scratch.Close()
	}
}
