package cli

import (
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// Study is the document of gpuprof analyze: an analysis of traces, or a comparison of two.
type Study struct {
	Analysis   *analyze.Analysis
	Indexes    []*analyze.Index
	Comparison *analyze.Comparison
	Before     []*analyze.Index // of the old traces of a comparison; Indexes has the new ones
	Scratch    *child.Scratch   // temporary folder with Part; nil for whole traces
	Part       string           // file with the part that --steps or --window cut out; "" for whole traces
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
