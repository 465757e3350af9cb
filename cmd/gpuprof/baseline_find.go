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

// withFindings gives the runs with what would close the gap among their findings,
// unless one of them names that knob for that stage already: the time is claimed once.
func withFindings(runs []*gpuprof.Run, comparisons []*compare.Comparison) []*gpuprof.Run {
	out := slices.Clone(runs)
	for i, c := range comparisons {
		if c == nil {
			continue
		}
		for _, f := range c.Findings {
			said := func(has gpuprof.Finding) bool { return has.Stage == f.Stage && has.Knob == f.Knob }
			if !slices.ContainsFunc(out[i].Findings, said) {
				out[i] = out[i].WithFindings(f)
			}
		}
	}
	return out
}

// showAll prints the runs and, below them, how they compare. Where standard
// output is a document of its own, the comparison goes to standard error and
// what it found into the document: complete are the runs with that.
func (s *session) showAll(runs, complete []*gpuprof.Run, comparisons []*compare.Comparison) error {
	a := s.app
	w, format, o := a.stdout, s.Format, a.screen()
	below := format == "table" || format == "markdown"
	if !below {
		runs = complete
		w, format, o = a.stderr, "table", screen{lines: a.screen().lines, quiet: a.quiet}
	}
	errs := []error{outputTable().run.show(a, s.Format, runs)}
	for _, c := range comparisons {
		if c != nil {
			_, err := io.WriteString(w, "\n")
			errs = append(errs, err, outputTable().comparison.write(w, format, c, o))
		}
	}
	return errors.Join(errs...)
}
