package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/report/runfile"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// measureProcesses measures one point of the sweep in several processes, one
// after the other, and merges what they measured. A process that fails does
// not take the others' samples with it; a failed check ends the series, since
// every process would fail it.
func (s *session) measureProcesses(point int, bar *progress) (*gpuprof.Run, error) {
	scratch, err := child.NewScratch("runs")
	if err != nil {
		return nil, gpuprof.Errorf(nil, "making a folder for the processes' results: %w", err).WithFix("check TMPDIR")
	}
	defer scratch.Close()
	var runs []*gpuprof.Run
	var errs []error
	began := time.Now()
	for k := range s.Runs {
		stop := bar.every(time.Second, func(spent time.Duration) measure.Progress { return s.progressOf(k, time.Since(began), spent) })
		run, err := s.oneProcess(point, filepath.Join(scratch.Dir, strconv.Itoa(k)+".json"))
		stop()
		if err != nil {
			errs = append(errs, fmt.Errorf("process %d of %d: %w", k+1, s.Runs, err))
		}
		if run != nil {
			runs = append(runs, run)
			if q := run.Requests; q != nil && s.rate(point) == 0 { // the others take the rate of the first
				s.plans[point].Rate = q.Rate
				if q.OnSchedule != nil {
					s.plans[point].Rate = q.OnSchedule.Rate
				}
			}
		}
		if s.app.ctx.Err() != nil || run != nil && run.Status == gpuprof.Invalid {
			break
		}
	}
	return mergeProcesses(runs, errs)
}

// progressOf is the state of a row of processes, of which k are done since the beginning and the
// next has run for a while: the time left is by those done, before the first by --max-time.
func (s *session) progressOf(k int, since, spent time.Duration) measure.Progress {
	each, bound := s.MaxTime, "at most "
	if k > 0 {
		each, bound = (since-spent)/time.Duration(k), "about "
	}
	at := measure.Progress{Phase: fmt.Sprintf("process %d of %d", k+1, s.Runs), Total: float64(s.Runs)}
	if each >= noTimeLimit { // as many samples as were asked for
		at.Done = float64(k)
		return at
	}
	at.Done = float64(k) + min(float64(spent)/float64(each), 0.99)
	left := max(each-spent, 0) + each*time.Duration(s.Runs-k-1)
	at.Note = bound + left.Round(time.Second).String() + " left"
	return at
}

// mergeProcesses joins the runs of one point; processes that are missing make
// the result partial.
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
		partial.Status, partial.Reason = gpuprof.Partial, sentence(errs[0])
		run = &partial
	}
	return run, errors.Join(errs...)
}

// oneProcess runs this same program again for one run and reads its file.
func (s *session) oneProcess(point int, file string) (*gpuprof.Run, error) {
	exe, err := ownProgram()
	if err != nil {
		return nil, err
	}
	_, words, runErr := child.Command{Args: append([]string{exe}, s.processArgs(point, file)...), Name: os.Args[0]}.Run(s.app.ctx)
	if s.app.ctx.Err() != nil {
		runErr = errInterrupted
	} else if runErr != nil {
		runErr = processError(runErr, words)
	}
	if _, err := os.Stat(file); err != nil {
		return nil, runErr
	}
	read, err := runfile.ReadOwn(file)
	if err != nil {
		return nil, errors.Join(runErr, err)
	}
	return read[0], runErr
}

// ownProgram is the file of this program, which is to be run again.
func ownProgram() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", gpuprof.Errorf(nil, "finding gpuprof's own program: %w", err).WithFix("start it by its path")
	}
	return exe, nil
}

// rate is the requests per second that every process of a point takes, 0 where each goes by
// its settings. A search has no plans: its processes are measured one by one.
func (s *session) rate(point int) float64 {
	if point >= len(s.plans) {
		return 0
	}
	return s.plans[point].Rate
}

// requestRate is the flag that puts a process under a rate, whatever its settings say.
func requestRate(rate float64) []string {
	return []string{"--request-rate", strconv.FormatFloat(rate, 'g', -1, 64)}
}

// processArgs repeats the command line for one process and one point.
func (s *session) processArgs(point int, file string) []string {
	args := append(s.settingArgs(point, s.aim.device.Name), "--min-time", s.MinTime.String(), "--max-time", s.MaxTime.String(),
		"--warmup", s.Warmup, "--samples", strconv.Itoa(s.Samples), "--process-out", file)
	if s.NoEnergy {
		args = append(args, "--no-energy")
	}
	if rate := s.rate(point); rate > 0 {
		args = append(args, requestRate(rate)...)
	}
	return args
}

// settingArgs are what is measured at one point, on a device.
func (s *session) settingArgs(point int, device string) []string {
	args := []string{"run", s.aim.workload.Name(), "--device", device, "--preset", s.aim.preset,
		"--seed", strconv.FormatUint(s.Seed, 10), "--mode", s.Mode}
	set := s.aim.set[point]
	for _, k := range slices.Sorted(maps.Keys(set)) {
		args = append(args, "--set", k+"="+set[k])
	}
	return args
}

// processError turns a process's exit code and last words into an error of
// the same kind.
func processError(err error, text string) error {
	text = strings.TrimPrefix(sentenceOf(text), "gpuprof: ")
	// With --format json it is an object.
	var said struct{ Error complaint }
	if json.Unmarshal([]byte(text), &said) == nil && said.Error.Message != "" {
		text = said.Error.Message
		if said.Error.Fix != "" {
			text += "; " + said.Error.Fix
		}
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return gpuprof.Errorf(nil, "starting gpuprof again: %w", err).WithFix("use --runs 1")
	}
	text = cmp.Or(text, fmt.Sprintf("ended with %s; try --runs 1 to see why", exit.ProcessState))
	switch exit.ExitCode() {
	case exitUsage:
		return gpuprof.Errorf(gpuprof.ErrUsage, "%s", text)
	case exitInterrupted:
		return fmt.Errorf("%s%w", text, silent{context.Canceled})
	}
	return errors.New(text)
}

// silent carries an error's kind without its words.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }
