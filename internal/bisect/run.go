package bisect

import (
	"errors"

	"github.com/gpuprof/gpuprof"
)

// Runner measures commits.
type Runner interface {
	// Quartet measures a commit against an older one, and returns the builds that it had to make. The error is *Unfit
	// if the commit cannot be measured; any other error ends the search.
	Quartet(commit, against int) (Quartet, []Build, error)
}

// Unfit is the error of a commit that cannot be measured: it does not build, or its program fails.
type Unfit struct {
	Commit  int
	Seconds float64 // time until the failure
	Cause   error
}

// Error implements error.
func (e *Unfit) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *Unfit) Unwrap() error { return e.Cause }

// Run measures until the search ends. It calls save after every quartet and every unmeasurable commit, so that the
// search can be resumed. If the runner or save fails, the state is the last saved one.
func (s *Search) Run(r Runner, save func() error) error {
	for {
		step, ok := s.Next()
		if !ok {
			s.Finish()
			return save()
		}
		s.Pending = &step
		if err := s.measure(r, step); err != nil {
			return err
		}
		if err := save(); err != nil {
			return err
		}
	}
}

func (s *Search) measure(r Runner, step Step) error {
	q, builds, err := r.Quartet(step.Commit, step.Against)
	s.Builds = append(s.Builds, builds...)
	if unfit, ok := errors.AsType[*Unfit](err); ok {
		s.Failed = append(s.Failed, Failure{Commit: unfit.Commit, Why: unfit.Error(), Seconds: unfit.Seconds})
		s.Pending = nil
		return nil
	}
	if err != nil {
		return err
	}
	s.Add(q)
	if step.Quartets--; step.Quartets > 0 {
		s.Pending = &step
	} else {
		s.Pending = nil
	}
	return nil
}

// Add appends a quartet, and the posterior after it.
func (s *Search) Add(q Quartet) {
	s.Quartet = append(s.Quartet, q)
	b := Belief{Commit: q.Commit, P: 1}
	if !s.Exact {
		b.P = gpuprof.Number(s.Posterior().UpTo(q.Commit))
	}
	s.After = append(s.After, b)
}

// Finish sets the outcome and the probability of every commit.
func (s *Search) Finish() {
	o := s.Conclude()
	s.Outcome, s.Pending, s.Status, s.Reason = &o, nil, gpuprof.Complete, ""
	s.Chances = s.Believed()
}

// Believed returns the probability of every commit after all quartets so far.
func (s *Search) Believed() []gpuprof.Number {
	out := make([]gpuprof.Number, s.N())
	if s.Exact {
		good, bad := s.knownBounds()
		for m := good + 1; m <= bad; m++ {
			out[m-1] = gpuprof.Number(1 / float64(bad-good))
		}
		return out
	}
	p := s.Posterior()
	for i := range out {
		out[i] = gpuprof.Number(max(p.Of(i, i+1), 0))
	}
	return out
}
