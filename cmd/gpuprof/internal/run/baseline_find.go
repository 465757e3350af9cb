package run

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/input"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/baseline"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// findOld reads the results to compare with (--baseline) before the measurement. If "auto" finds no stored baseline for
// the settings, it notes that, and the run is measured without one.
func (s *session) findOld() (err error) {
	s.olds = make([]*input.OldSide, len(s.plans))
	if s.Baseline == "" {
		return nil
	}
	if s.Baseline != "auto" {
		old, err := input.ReadOld(s.app, s.Baseline)
		for i := range s.olds {
			s.olds[i] = old
		}
		return err
	}
	for i, p := range s.plans {
		sessions, err := input.StoredFit(measure.Outline(s.aim.Info, p), s.BaselineDir)
		switch {
		case errors.Is(err, baseline.ErrNone):
			reason, fix := gpuprof.FixOf(err)
			s.app.Note("%s; the run is measured without one (to compare the next ones with it, %s)", reason, fix)
		case err != nil:
			return err
		default:
			s.olds[i] = &input.OldSide{Sessions: sessions}
		}
	}
	return nil
}

// compareBaselines compares each run with the result of --baseline. A run that cannot be compared adds an error and has
// a nil comparison.
func (s *session) compareBaselines(runs []*gpuprof.Run) ([]*compare.Comparison, error) {
	out := make([]*compare.Comparison, len(runs))
	if len(s.olds) == 0 { // no --baseline
		return out, nil
	}
	var errs []error
	for i, r := range runs {
		old := s.olds[s.of[i]]
		if old == nil {
			continue
		}
		c, err := s.againstOne(r, old)
		if err != nil {
			err = fmt.Errorf("comparing with --baseline %s: %w (the run itself is kept)", s.Baseline, err)
		}
		out[i], errs = c, append(errs, err)
	}
	return out, errors.Join(errs...)
}

func (s *session) againstOne(r *gpuprof.Run, old *input.OldSide) (*compare.Comparison, error) {
	now, err := compare.FromRun(r)
	if err != nil {
		return nil, err
	}
	now.Source, now.Warnings = "this run", nil // the warnings are printed with the run
	o := compare.Options{Seed: s.Seed, Tool: s.app.Tool}
	if err := (&judge.Flags{}).Learn(s.app, now, &o); err != nil {
		return nil, err
	}
	return old.Against(s.app, now, o)
}

// addFindings adds the findings of the comparisons to the runs. It omits a finding if the run already has one about the
// same stage and knob, because both would claim the same time.
func addFindings(runs []*gpuprof.Run, comparisons []*compare.Comparison) []*gpuprof.Run {
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

// showAll prints the runs and, below them, the comparisons. In formats other than table and markdown, it prints
// complete, the runs that include the comparisons' findings, and writes the comparisons to standard error.
func (s *session) showAll(runs, complete []*gpuprof.Run, comparisons []*compare.Comparison) error {
	a := s.app
	w, format, o := a.Stdout, s.Format, a.Screen()
	below := format == "table" || format == "markdown"
	if !below {
		runs = complete
		w, format, o = a.Stderr, "table", cli.Screen{Lines: a.Screen().Lines, Quiet: a.Quiet}
	}
	errs := []error{a.Documents.Run.Show(a, s.Format, runs)}
	for _, c := range comparisons {
		if c != nil {
			_, err := io.WriteString(w, "\n")
			errs = append(errs, err, a.Documents.Comparison.Write(w, format, c, o))
		}
	}
	return errors.Join(errs...)
}
