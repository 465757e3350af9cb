package tune

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
)

// The verdicts on a claim, by the measured effect in relation to the guide's.
const (
	ClaimConfirmed = "confirmed"
	ClaimSmaller   = "smaller"
	ClaimNone      = "none"
	ClaimOpposite  = "opposite"
	ClaimOpen      = "inconclusive"
	// Further verdicts on claims about the user's own program.
	ClaimHarmful       = "harmful"             // the setting changes the training
	ClaimNotMeasurable = "not measurable here" // the claim needs a GPU, for example
	ClaimNotHere       = "not applicable"
	ClaimFailed        = "failed"
)

// Promise is a claim of a tuning guide to compare with a measured speedup.
type Promise struct {
	ID, Guide, Claim, Figure string
	// Speedup is the least speedup that the tuning guide promises, such as 1.2; 0 if it gives no figure for time.
	Speedup float64
	// Placebo marks a claim that its setting has no effect, Null a comparison of two equal sides.
	Placebo, Null bool
}

// claimMargin is the largest effect, in either direction, that counts as none.
const claimMargin = 0.02

const moreTime = "; give more time with --budget"

// Judge compares the interval of a measured speedup with the promise. "No effect" is a verdict only if the interval is
// within claimMargin of 1.
func (p Promise) Judge(ci [2]float64) (verdict, reason string) {
	want := p.Speedup
	switch {
	case ci[0] >= 1-claimMargin && ci[1] <= 1+claimMargin && p.Placebo:
		return ClaimNone, "within 2 % either way, as expected"
	case ci[0] >= 1-claimMargin && ci[1] <= 1+claimMargin:
		return ClaimNone, "within 2 % either way"
	case p.Null && (ci[0] > 1 || ci[1] < 1):
		return ClaimOpposite, "both sides are equal, so the method is off by this much here, and the other rows may " +
			"be too; measure again on an idle machine"
	case ci[1] < 1:
		return ClaimOpposite, "the recommended setting is slower here"
	case ci[0] > 1 && want > 0 && ci[1] < want:
		return ClaimSmaller, fmt.Sprintf("the guide promises x%.3g", want)
	case ci[0] > 1:
		return ClaimConfirmed, ""
	case p.Placebo:
		return ClaimOpen, "the interval holds no effect, as expected, but more than 2 % either way too" + moreTime
	case want > 0 && ci[1] < want:
		return ClaimOpen, fmt.Sprintf("less than the x%.3g that the guide promises, but the interval is too wide to say "+
			"that there is no effect", want) + moreTime
	}
	if want == 0 {
		return ClaimOpen, "the interval holds no effect, but more than 2 % beside it too" + moreTime
	}
	return ClaimOpen, fmt.Sprintf("the interval holds both no effect and the x%.3g that the guide promises", want) + moreTime
}

// ClaimTone returns how good the verdict on a tuning guide's claim is, for its colour in terminal, page and comment.
func ClaimTone(verdict string) gpuprof.Tone {
	switch verdict {
	case ClaimConfirmed:
		return gpuprof.ToneGood
	case ClaimOpposite, ClaimHarmful, ClaimFailed:
		return gpuprof.ToneBad
	case ClaimSmaller, ClaimNone:
		return gpuprof.TonePlain
	}
	return gpuprof.ToneUnsure
}

// FiniteOrZero replaces values that JSON cannot hold by 0.
func FiniteOrZero(v float64) float64 {
	if !gpuprof.IsFinite(v) {
		return 0
	}
	return v
}
