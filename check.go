package gpuprof

import (
	"fmt"
	"math"
)

// Check is the comparison of one stage with its reference.
type Check struct {
	Stage string `json:"stage"`
	// RelativeError is ||out-ref|| / ||ref||; null when not a number.
	RelativeError Number  `json:"relative_error"`
	Tolerance     float64 `json:"tolerance"`
	Pass          bool    `json:"pass"`
	Rows          string  `json:"rows,omitempty"` // "all 512" or "66 of 3000"
	// Virtual reports a check of a mean in virtual time against theory. Its error is the statistical error of a finite
	// simulation, and does not depend on the device's arithmetic.
	Virtual bool `json:"virtual,omitempty"`
}

// CheckReport is the result of gpuprof run --check: Cases for test vectors of another program, else Stages.
type CheckReport struct {
	Head
	Workload string       `json:"workload"`
	Preset   string       `json:"preset,omitempty"`
	Device   string       `json:"device"`
	Cases    []CaseResult `json:"cases,omitempty"`
	Stages   []Check      `json:"stages,omitempty"`
}

// Failed returns the number of failed comparisons and of all comparisons.
func (r *CheckReport) Failed() (failed, all int) {
	for _, c := range r.Cases {
		if !c.Pass {
			failed++
		}
	}
	for _, c := range r.Stages {
		if !c.Pass {
			failed++
		}
	}
	return failed, len(r.Cases) + len(r.Stages)
}

// CaseResult is the comparison of one vector case.
type CaseResult struct {
	Kind          string  `json:"kind"`
	Index         int     `json:"index"`
	Precision     string  `json:"precision"` // "float32" or "float64"
	RelativeError Number  `json:"relative_error"`
	Tolerance     float64 `json:"tolerance"`
	Pass          bool    `json:"pass"`
}

// Answer reports whether all comparisons agree with their references, and names the worst.
func (r *CheckReport) Answer() Answer {
	failed, all := r.Failed()
	name, off := r.worst()
	switch {
	case all == 0:
		return Answer{Verdict: "nothing checked", Tone: ToneUnsure, Sentence: "No result was compared with a reference."}
	case failed > 0:
		return Answer{Verdict: "failed", Tone: ToneBad, Sentence: fmt.Sprintf("%d of %d comparisons with the reference disagree; the worst is %s: %s.", failed, all, name, off)}
	case all == 1:
		return Answer{Verdict: "passed", Tone: ToneGood, Sentence: fmt.Sprintf("%s agrees with its reference: %s.", name, off)}
	}
	return Answer{Verdict: "passed", Tone: ToneGood, Sentence: fmt.Sprintf("All %d comparisons with the reference agree; the nearest to its tolerance is %s: %s.", all, name, off)}
}

// worst returns the comparison with the largest ratio of error to tolerance; NaN is larger than any number.
func (r *CheckReport) worst() (name, off string) {
	most := math.Inf(-1)
	take := func(who string, e Number, tolerance float64) {
		over := float64(e) / tolerance
		if math.IsNaN(over) {
			over = math.Inf(1)
		}
		if over > most {
			most, name = over, who
			off = fmt.Sprintf("relative error %.2g, tolerance %.2g", float64(e), tolerance)
			if math.IsNaN(float64(e)) {
				off = fmt.Sprintf("the result is not a number, tolerance %.2g", tolerance)
			}
		}
	}
	for _, c := range r.Stages {
		take(c.Stage, c.RelativeError, c.Tolerance)
	}
	for _, c := range r.Cases {
		take(fmt.Sprintf("%s, case %d", c.Kind, c.Index), c.RelativeError, c.Tolerance)
	}
	return name, off
}
