package input

import (
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/baseline"
	"github.com/gpuprof/gpuprof/internal/compare/results"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/advise"
)

// OldSide is the old side of a comparison: one result, or the sessions of a stored baseline.
type OldSide struct {
	result   *compare.Result
	Sessions []*compare.Result
}

// Rate returns the request rate, 1/s, with which the old side was measured; 0 if it served no requests.
func (s *OldSide) Rate() float64 {
	for _, r := range append(slices.Clone(s.Sessions), s.result) {
		if r != nil && r.Rate() > 0 {
			return r.Rate()
		}
	}
	return 0
}

// ReadOld reads a result file, a trace, or a stored baseline given by its path.
func ReadOld(a *cli.App, path string) (*OldSide, error) {
	in, err := OpenFile(a.Ctx, path)
	if err != nil {
		return nil, results.Failed(path, err)
	}
	defer in.Close()
	if !in.IsTrace {
		text, err := in.readDocument()
		if err != nil {
			return nil, results.Failed(path, err)
		}
		if document.HeadOf(text).Kind == document.Baseline {
			b, err := baseline.Parse(text, path)
			if err != nil {
				return nil, err
			}
			return &OldSide{Sessions: b.Results()}, nil
		}
	}
	r, err := in.Result(a)
	if err != nil {
		return nil, err
	}
	return &OldSide{result: r}, nil
}

// Against compares a new result with the old side. It adds findings that name a change of settings which would remove
// the difference.
func (s *OldSide) Against(a *cli.App, now *compare.Result, o compare.Options) (*compare.Comparison, error) {
	var c *compare.Comparison
	var err error
	if s.Sessions != nil {
		c, err = compare.CompareStored(s.Sessions, now, o)
	} else {
		c, err = compare.Compare(s.result, now, o)
	}
	if err != nil {
		return nil, err
	}
	old := s.result
	if n := len(s.Sessions); n > 0 {
		old = s.Sessions[n-1]
	}
	return c.With(againstBaseline(a, c, old, now), nil), nil
}

// againstBaseline returns findings that name a change of settings which would remove the difference between old and
// now. Their commands omit settings that the preset has already.
func againstBaseline(a *cli.App, c *compare.Comparison, old, now *compare.Result) []gpuprof.Finding {
	o := advise.Options{}
	if w, err := a.FindWorkload(now.Workload, "compare"); err == nil {
		o.Workload = w
		if base, err := workloads.Resolve(w, now.Preset, nil); err == nil {
			o.Base = base
		}
	}
	return advise.AgainstBaseline(c, old, now, o)
}
