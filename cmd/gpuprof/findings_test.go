//go:build !race

// Under the race detector one goroutine that judges recorded runs takes ten times as long.

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/workloads/advise"
)

// boundWithin limits the ratio of a bound to the measured gain. A bound may be below the gain by no more than the
// gain's interval.
const boundWithin = 1.35

// leastKnown is how many recorded gains must be above zero beyond their interval:
// all of the host's but three. Filled memory, launches one by one and the small
// batch are too small a part of a step, or too uneven, for it.
const leastKnown = 9

// Recorded runs of real workloads, each with one thing wrong: the rule names
// the stage and the knob, its bound is within a factor of the gain that was
// measured by turning that knob, its command can be run, and with the knob
// turned the rule is silent. Being recorded, they do not depend on how fast or
// how busy the machine is that runs the test.
func TestPlantedProblemsAreFound(t *testing.T) {
	known := 0
	for _, p := range problems() {
		t.Run(p.name, func(t *testing.T) {
			r := readRecording(t, p.name)
			if r == nil {
				t.Fatalf("%s is not recorded: run BenchmarkFindingBounds with -record", p.name)
			}
			found := r.findings(advise.Options{Base: p.base(t)})
			f := onlyOne(t, found, p.rule)
			if f.Stage != p.stage || f.Knob != p.knob || f.From != p.knobs(t, "")[p.knob] || f.To != p.to || f.PyTorch == "" {
				t.Errorf("found %+v", f)
			}
			if !strings.Contains(f.Command, " --set "+p.knob+"="+f.From+","+p.to) {
				t.Errorf("command %q", f.Command)
			}
			account(t, r.Runs[0], found)
			if p.sim != "" {
				if !r.Runs[0].Simulated() || len(r.GainsS) > 0 {
					t.Error("not a run of the simulated driver, or one with figures")
				}
			} else {
				gain, lo, hi := r.gain()
				if r.Runs[0].Simulated() || len(r.GainsS) < 6 {
					t.Errorf("%d pairs of runs are no interval", len(r.GainsS))
				}
				if _, says := f.Evidence["nothing_claimed"]; says != (f.ClaimS == 0) {
					t.Errorf("claims %g s with the evidence %v", f.ClaimS, f.Evidence)
				}
				if f.ClaimS > 0 && (f.ClaimS > boundWithin*gain || f.ClaimS < lo) {
					t.Errorf("the bound is %.2f us and the gain %.2f (%.2f to %.2f) us", f.ClaimS*1e6, gain*1e6, lo*1e6, hi*1e6)
				}
				if lo > 0 {
					known++
				}
			}
			for _, f := range advise.Findings([]*gpuprof.Run{r.Turned}, advise.Options{Workload: wired.workloadNamed(r.Turned.Workload)})[0] {
				if f.Rule == p.rule && f.Knob == p.knob {
					t.Errorf("with %s=%s: %+v", p.knob, p.to, f)
				}
			}
		})
	}
	// A wide interval proves little of a bound.
	if known < leastKnown {
		t.Errorf("of %d gains only is it known that they are above zero: record them anew on a machine that does nothing else", known)
	}
}

// The same problems beside other programs: a claim is no further off, or there is none.
// Beside them the gain itself is known by its interval only, which no claim may contradict.
func TestLoadedProblemsClaimWhatTheyGain(t *testing.T) {
	for _, p := range problems() {
		r := readLoaded(t, p.name)
		if r == nil {
			continue
		}
		gain, lo, hi := r.gain()
		for _, f := range r.findings(advise.Options{Base: p.base(t)}) {
			if f.Rule == p.rule && f.ClaimS > 0 && (f.ClaimS > boundWithin*hi || f.ClaimS < lo || r.known() && f.ClaimS > boundWithin*gain) {
				t.Errorf("%s: the bound is %.2f us and the gain %.2f (%.2f to %.2f) us", p.name, f.ClaimS*1e6, gain*1e6, lo*1e6, hi*1e6)
			}
		}
	}
}

// Recorded runs with nothing wrong: nothing is said of them.
func TestCleanRunsAreSilent(t *testing.T) {
	for _, p := range clean() {
		r := readRecording(t, "clean "+p.name)
		if r == nil {
			t.Errorf("%s is not recorded: run BenchmarkCleanRuns with -record", p.name)
			continue
		}
		if found := r.findings(advise.Options{}); len(found) > 0 {
			t.Errorf("%s: %+v", p.name, found)
		}
	}
}

func onlyOne(t *testing.T, found []gpuprof.Finding, rule string) gpuprof.Finding {
	t.Helper()
	var out []gpuprof.Finding
	for _, f := range found {
		if f.Rule == rule {
			out = append(out, f)
		}
	}
	if len(out) != 1 {
		t.Fatalf("%d findings of %s in %+v", len(out), rule, found)
	}
	return out[0]
}

// account wants bounds that add up to no more than the step, and commands that
// gpuprof takes.
func account(t *testing.T, r *gpuprof.Run, found []gpuprof.Finding) {
	t.Helper()
	sum := 0.0
	for _, f := range found {
		sum += f.ClaimS
		tryCommand(t, r, f.Command)
	}
	if sum > r.Step.Median*(1+1e-9) {
		t.Errorf("bounds add up to %g s of a step of %g s: %+v", sum, r.Step.Median, found)
	}
}

// tryCommand checks all of a command that can be checked without measuring.
func tryCommand(t testing.TB, r *gpuprof.Run, command string) {
	t.Helper()
	aim, err := commandAim(t.Context(), command)
	if err == nil && aim != nil && !r.Simulated() {
		err = aim.Refuse(&cli.App{Tables: wired.tables(), Ctx: t.Context(), Stdout: io.Discard, Stderr: io.Discard})
	}
	if err != nil {
		t.Errorf("%s: %v", command, err)
	}
}

// commandAim is what a printed command is about; nil where it is not run's.
func commandAim(ctx context.Context, command string) (*cli.Target, error) {
	words := shellWords(command)
	if len(words) < 2 || words[0] != "gpuprof" {
		return nil, fmt.Errorf("%q is no command of gpuprof", words)
	}
	a := &cli.App{Tables: wired.tables(), Ctx: ctx, Stdout: io.Discard, Stderr: io.Discard}
	var c grammar
	k, _, err := newParser(a, &c)
	if err != nil {
		return nil, err
	}
	if _, err := k.Parse(words[1:]); err != nil || words[1] != "run" {
		return nil, err
	}
	return c.Run.Resolve(a, "run")
}

// shellWords splits a command as a shell does that knows single quotes.
func shellWords(command string) []string {
	var words []string
	word, quoted := "", false
	for _, r := range command {
		switch {
		case r == '\'':
			quoted = !quoted
		case r == ' ' && !quoted:
			words, word = append(words, word), ""
		default:
			word += string(r)
		}
	}
	return append(words, word)
}
