package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/baseline"
)

func storedFit(r *gpuprof.Run, dir string) ([]*compare.Result, error) {
	store, err := openStore(dir)
	if err != nil {
		return nil, err
	}
	b, err := store.Find(baseline.FingerprintOf(r))
	if err != nil {
		return nil, err
	}
	return b.Results(), nil
}

// storedOld reads --baseline before anything is measured; nil for none and for auto.
func storedOld(a *app, path string) (*oldSide, error) {
	if path == "" || path == "auto" {
		return nil, nil
	}
	return readOld(a, path)
}

// against compares what run measured with --baseline. What cannot be compared
// is an error; the others are compared all the same.
func (s *session) against(runs []*gpuprof.Run) ([]*compare.Comparison, error) {
	if s.Baseline == "" {
		return nil, nil
	}
	out := make([]*compare.Comparison, len(runs))
	var errs []error
	for i, r := range runs {
		c, err := s.againstOne(r)
		if err != nil {
			err = fmt.Errorf("comparing with --baseline %s: %w (the run itself is kept)", s.Baseline, err)
		}
		out[i], errs = c, append(errs, err)
	}
	return out, errors.Join(errs...)
}

func (s *session) againstOne(r *gpuprof.Run) (*compare.Comparison, error) {
	now, err := compare.FromRun(r)
	if err != nil {
		return nil, err
	}
	now.Source, now.Warnings = "this run", nil // they stand above, with the run
	o := compare.Options{Seed: s.Seed, Tool: tool()}
	if s.old != nil {
		return s.old.against(now, o)
	}
	sessions, err := storedFit(r, s.BaselineDir)
	if err != nil {
		return nil, err
	}
	return compareStored(sessions, now, o)
}

// addFindings puts what would close the gap among the runs' findings, unless
// one of them names that knob for that stage already: the time is claimed once.
func addFindings(runs []*gpuprof.Run, comparisons []*compare.Comparison) {
	for i, c := range comparisons {
		if c == nil {
			continue
		}
		r := runs[i]
		for _, f := range c.Findings {
			said := func(has gpuprof.Finding) bool { return has.Stage == f.Stage && has.Knob == f.Knob }
			if !slices.ContainsFunc(r.Findings, said) {
				r.Findings = append(r.Findings, f)
			}
		}
	}
}

// showAll prints the runs and, below them, how they compare. Where standard
// output is a document of its own, the comparison goes to standard error and
// what it found into the document.
func (s *session) showAll(runs []*gpuprof.Run, comparisons []*compare.Comparison) error {
	a := s.app
	w, format, o := a.stdout, s.Format, screen{width: a.width(), color: a.color(), quiet: a.quiet}
	below := format == "table" || format == "markdown"
	if !below {
		addFindings(runs, comparisons)
		w, format, o = a.stderr, "table", screen{quiet: a.quiet}
	}
	errs := []error{outputTable().run.show(a, s.Format, runs)}
	for _, c := range comparisons {
		if c != nil {
			_, err := io.WriteString(w, "\n")
			errs = append(errs, err, outputTable().comparison.write(w, format, c, o))
		}
	}
	if below { // said below the run's own findings, and not twice
		addFindings(runs, comparisons)
	}
	return errors.Join(errs...)
}
