package tuneprogram

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// Claim is a speedup that a tuning guide promises, with the settings that test it on the user's program.
type Claim struct {
	tune.Promise
	Settings []string // setting names (knob=value) or knobs
	Reversed bool     // the settings undo what the guide recommends
}

// claimPairs limits the pairs of runs per setting.
const claimPairs = 6

// nullClaim returns a claim about a setting without effect. Its measured interval shows the error of the method.
func nullClaim() Claim {
	return Claim{Promise: tune.Promise{ID: "a/a", Guide: "none", Claim: "no change: the error of the method itself",
		Figure: "x1", Placebo: true, Null: true}, Settings: []string{"a/a"}}
}

// RunClaims measures the claims' settings that apply to this program, and the values of --try. It recommends nothing.
func RunClaims(ctx context.Context, o Options, claims []Claim) (*tune.Result, error) {
	e := newEngine(ctx, o)
	e.out.Head = document.NewHead(document.Claims, o.Tool)
	claims = append([]Claim{nullClaim()}, claims...)
	err := e.prepareSearch()
	if err == nil {
		e.keepClaimed(claims)
		err = e.screenClaims()
	}
	r := e.finishResult(err)
	r.Unit, r.Conclusion = "speedup", tune.Conclusion{}
	for _, c := range claims {
		r.Claims = append(r.Claims, e.claimRows(c)...)
	}
	for _, row := range e.rows {
		if row.Change == Users {
			own := Claim{Promise: tune.Promise{ID: row.Name(), Guide: "--try", Claim: row.Line}}
			r.Claims = append(r.Claims, e.claimRow(own, row))
		}
	}
	return r, err
}

// keepClaimed drops the settings that neither a claim nor --try names, and puts the setting without effect first.
func (e *engine) keepClaimed(claims []Claim) {
	e.rows = slices.DeleteFunc(e.rows, func(r *row) bool {
		return r.Change != Users && !slices.ContainsFunc(claims, func(c Claim) bool { return c.testsSetting(r.Setting) })
	})
	e.rows = append([]*row{{Setting: Setting{Knob: "a/a", From: "as it is", Value: "as it is"}}}, e.rows...)
}

func (c Claim) testsSetting(s Setting) bool {
	return slices.ContainsFunc(c.Settings, func(name string) bool { return isNamed(s, name) })
}

// screenClaims measures all settings in rounds: a short budget then reduces the pairs per setting, not the number of
// settings. A setting that changes the training is measured too, because a claim row reports speed and losses.
func (e *engine) screenClaims() error {
	for range claimPairs {
		before := e.plain[len(e.plain)-1]
		for _, r := range e.rows {
			if r.failed != "" || r.stopped != "" || !e.fitsBudget(1, 1, Set{r.Setting}) {
				continue
			}
			after, err := e.measureBetween(r, before)
			if errors.Is(err, errStarved) {
				return nil
			}
			if err != nil {
				return err
			}
			before = after
		}
	}
	return nil
}

// claimRows returns one row per setting of the claim that applies, or one row with the reason why none applies.
func (e *engine) claimRows(c Claim) (out []tune.ClaimRow) {
	tested := slices.DeleteFunc(slices.Clone(e.rows), func(r *row) bool { return !c.testsSetting(r.Setting) })
	for _, r := range tested {
		one := e.claimRow(c, r)
		if len(tested) > 1 {
			one.ID += " " + r.Name()
		}
		out = append(out, one)
	}
	if len(out) > 0 {
		return out
	}
	none := tune.ClaimRow{ID: c.ID, Guide: c.Guide, Claim: c.Claim, Figure: c.Figure, AB: strings.Join(c.Settings, ", "),
		Verdict: tune.ClaimNotHere, Reason: "the search ended before the program was seen"}
	var reasons []string
	for _, l := range e.p.Left {
		knob, _, _ := strings.Cut(l.Setting, "=")
		if slices.Contains(c.Settings, knob) || slices.Contains(c.Settings, l.Setting) || l.Setting == wholeSettings {
			reasons = append(reasons, l.Reason)
		}
	}
	slices.Sort(reasons)
	if len(reasons) > 0 {
		none.Reason = strings.Join(slices.Compact(reasons), "; ")
	}
	if strings.Contains(none.Reason, "GPU") && e.p.Device != "cuda" {
		none.Verdict, none.Reason = tune.ClaimNotMeasurable, "it needs a GPU: "+none.Reason
	}
	return []tune.ClaimRow{none}
}

func (e *engine) claimRow(c Claim, r *row) tune.ClaimRow {
	out := tune.ClaimRow{ID: c.ID, Guide: c.Guide, Claim: c.Claim, Figure: c.Figure,
		AB: fmt.Sprintf("%s: %s -> %s", r.Knob, r.From, r.Value), Details: r.claimDetails()}
	gains := slices.Clone(r.gains)
	if c.Reversed {
		for i := range gains {
			gains[i] = -gains[i]
		}
	}
	ratio, ci := estimateRatio(gains)
	switch {
	case r.failed != "":
		out.Verdict, out.Reason = tune.ClaimFailed, r.failed
		return out
	case r.stopped != "" && ci == [2]float64{}:
		out.Verdict, out.Reason = tune.ClaimOpen, r.stopped
		return out
	case ci == [2]float64{}:
		out.Verdict, out.Reason = tune.ClaimOpen, fmt.Sprintf("the budget had room for %s; give more with --budget",
			gpuprof.Plural(len(gains), "pair"))
		return out
	}
	out.Measured, out.CI95 = ratio, ci
	out.Verdict, out.Reason = c.Judge(ci)
	if r.worse != "" {
		out.Verdict, out.Reason = tune.ClaimHarmful, r.worse
	}
	return out
}

func (r *row) claimDetails() (out []string) {
	if n := len(r.gains); n > 0 {
		out = append(out, fmt.Sprintf("%s of fresh processes in turns", gpuprof.Plural(n, "pair")))
	}
	if r.losses != nil {
		out = append(out, "losses: "+r.losses.Text())
	}
	if cpu := tune.FiniteOrZero(math.Exp(stat.Mean(r.cpu, nil))); len(r.cpu) > 0 && cpu > 0 {
		out = append(out, fmt.Sprintf("CPU time of the main process x%.2f", cpu))
	}
	if r.Slow && len(r.startup) > 0 {
		out = append(out, fmt.Sprintf("%s more before the first step; %s, %s",
			gpuprof.FormatSeconds(stat.Mean(r.startup, nil)), gpuprof.Plural(r.graphs[0], "graph"),
			gpuprof.Plural(r.graphs[1], "graph break")))
	}
	return out
}
