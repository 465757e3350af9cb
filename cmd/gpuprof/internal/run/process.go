package run

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// measureProcesses measures one point of the sweep in --runs processes, one after the other, and merges their runs. If
// a process fails, the samples of the others remain. A failed check of the workload ends the series, because it would
// fail in every process.
func (s *session) measureProcesses(point int, bar *cli.Progress) (*gpuprof.Run, error) {
	scratch, err := child.NewScratch("runs")
	if err != nil {
		return nil, gpuprof.Errorf(nil, "making a folder for the processes' results: %w", err).WithFix("check TMPDIR")
	}
	defer scratch.Close()
	var runs []*gpuprof.Run
	var errs []error
	began := time.Now()
	for k := range s.Runs {
		stop := bar.Every(time.Second, func(spent time.Duration) measure.Progress { return s.progressOf(k, time.Since(began), spent) })
		run, err := s.processRun(point).Measure(s.app.Ctx, filepath.Join(scratch.Dir, strconv.Itoa(k)+".json"))
		stop()
		if err != nil {
			errs = append(errs, fmt.Errorf("process %d of %d: %w", k+1, s.Runs, err))
		}
		if run != nil {
			runs = append(runs, run)
			if q := run.Requests; q != nil && s.plans[point].Rate == 0 { // the other processes use the first one's rate
				s.plans[point].Rate = q.Rate
				if q.OnSchedule != nil {
					s.plans[point].Rate = q.OnSchedule.Rate
				}
			}
		}
		if s.app.Ctx.Err() != nil || run != nil && run.Status == gpuprof.Invalid {
			break
		}
	}
	return mergeProcesses(runs, errs)
}

// progressOf estimates the remaining time during process number k. The estimate comes from the durations of the
// finished processes, or from --max-time during the first one. since is the time since the series began, spent the time
// since process k began.
func (s *session) progressOf(k int, since, spent time.Duration) measure.Progress {
	each, bound := s.MaxTime, "at most "
	if k > 0 {
		each, bound = (since-spent)/time.Duration(k), "about "
	}
	at := measure.Progress{Phase: fmt.Sprintf("process %d of %d", k+1, s.Runs), Total: float64(s.Runs)}
	if each >= noTimeLimit { // the number of samples, not the time, is the limit
		at.Done = float64(k)
		return at
	}
	at.Done = float64(k) + min(float64(spent)/float64(each), 0.99)
	left := max(each-spent, 0) + each*time.Duration(s.Runs-k-1)
	at.Note = bound + left.Round(time.Second).String() + " left"
	return at
}

// mergeProcesses merges the runs of one point of the sweep. If a process failed, the result is partial.
func mergeProcesses(runs []*gpuprof.Run, errs []error) (*gpuprof.Run, error) {
	if len(runs) == 0 {
		return nil, errors.Join(errs...)
	}
	run, err := measure.Merge(runs)
	if err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	if len(errs) > 0 && run.Status == gpuprof.Complete {
		partial := *run
		partial.Status, partial.Reason = gpuprof.Partial, cli.Sentence(errs[0])
		run = &partial
	}
	return run, errors.Join(errs...)
}

// processRun describes the measurement of one point of the sweep in another process.
func (s *session) processRun(point int) *cli.ProcessRun {
	r := &cli.ProcessRun{Workload: s.aim.Workload.Name(), Device: s.aim.Device.Name, Preset: s.aim.Preset, Set: s.aim.Set[point], Seed: s.Seed, Mode: s.Mode,
		Warmup: s.Warmup, MinTime: s.MinTime, MaxTime: s.MaxTime, Samples: s.Samples, NoEnergy: s.NoEnergy}
	if point < len(s.plans) {
		r.Rate = s.plans[point].Rate
	}
	return r
}
