package tune

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
)

// The verdicts of claims, by the ratio of the measured effect to the effect in the guide.
const (
	ClaimConfirmed = "confirmed"
	ClaimSmaller   = "smaller"
	ClaimNone      = "none"
	ClaimOpposite  = "opposite"
	ClaimOpen      = "inconclusive"
	// The further verdicts of claims on the user's own program.
	ClaimHarmful       = "harmful"             // it changes the training
	ClaimNotMeasurable = "not measurable here" // it needs a GPU, for example
	ClaimNotHere       = "not applicable"
	ClaimFailed        = "failed"
)

// Promise is a claim of a tuning guide, by which a measured speedup is judged.
type Promise struct {
	ID, Guide, Claim, Figure string
	// Speedup is the least ratio that the guide promises; 0: it gives no figure for time.
	Speedup float64
	// Placebo: nothing should change. Null: both sides are equal.
	Placebo, Null bool
}

// claimMargin is the effect that counts as none, either way.
const claimMargin = 0.02

const moreTime = "; give more time with --budget"

// Judge compares the interval of a speedup with the promise. No effect is a finding like any other: the interval must
// be narrow enough to show it.
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

// ClaimTone rates the news of a claim's verdict, on every surface.
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

// FiniteOrZero keeps figures that JSON cannot hold out of a result.
func FiniteOrZero(v float64) float64 {
	if !gpuprof.IsFinite(v) {
		return 0
	}
	return v
}
