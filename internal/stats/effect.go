package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Effect is an estimate of a logarithm of a ratio with what is known of its
// error: (Theta - true value) / SE has Student's t distribution with Nu degrees
// of freedom (Nu = +Inf: the normal distribution). One made from ranks tests and
// bounds by their exact distribution; its SE then serves for planning alone.
type Effect struct {
	Theta float64 // log(B/A); 0.05 is about 5 % more
	SE    float64 // standard error of Theta
	Nu    float64
	// Bias >= 0 is a possible systematic error of Theta, such as a drift: tests and bounds
	// allow for it in either direction.
	Bias  float64
	ranks *rankTest
}

// OK says that the effect can be tested: every field is a number, and there
// is at least one degree of freedom.
func (e Effect) OK() bool {
	return !math.IsNaN(e.Theta) && !math.IsInf(e.Theta, 0) && e.SE >= 0 && !math.IsInf(e.SE, 0) && e.Nu >= 1
}

// Negate is the effect with the sides swapped.
func (e Effect) Negate() Effect { return Effect{-e.Theta, e.SE, e.Nu, e.Bias, e.ranks.negate()} }

// PNotAbove is the p-value of the one-sided test of "the true effect is at
// most bound": small when the effect lies above it. (Student 1908; the
// non-inferiority test of Schuirmann 1987.) NaN when the effect is not OK.
func (e Effect) PNotAbove(bound float64) float64 {
	bound += e.Bias
	switch {
	case !e.OK():
		return math.NaN()
	case e.ranks != nil:
		return e.ranks.pNotAbove(bound)
	case e.SE > 0:
		return survival(e.Nu, (e.Theta-bound)/e.SE)
	case e.Theta > bound: // every run of a side gave the same figure
		return 0
	}
	return 1
}

// Upper is the one-sided upper confidence bound at a level such as 0.975.
func (e Effect) Upper(level float64) float64 {
	if e.ranks != nil {
		return e.ranks.quantile(level) + e.Bias
	}
	return e.Theta + TQuantile(e.Nu, level)*e.SE + e.Bias
}

// Lower is the one-sided lower confidence bound at a level such as 0.975.
func (e Effect) Lower(level float64) float64 {
	if e.ranks != nil {
		return e.ranks.quantile(1-level) - e.Bias
	}
	return e.Theta - TQuantile(e.Nu, level)*e.SE - e.Bias
}

// MDE is the minimum detectable effect: the least true effect which a
// one-sided test of "at most bound" at level alpha would find with the given
// power, were the data as noisy as these.
//
//	bound + (t(1-alpha) + t(power)) SE + Bias
//
// (Bloom, Evaluation Review 19, 1995.) It depends on the data's noise only, not
// on the effect that was seen, so it is no "observed power".
func (e Effect) MDE(bound, alpha, power float64) float64 {
	return bound + (TQuantile(e.Nu, 1-alpha)+TQuantile(e.Nu, power))*e.SE + e.Bias
}

// TQuantile is the point below which Student's t with nu degrees of freedom
// lies with probability p; nu = +Inf is the normal distribution.
func TQuantile(nu, p float64) float64 {
	if math.IsInf(nu, 1) {
		return distuv.UnitNormal.Quantile(p)
	}
	return studentQuantile(nu, p)
}

func survival(nu, t float64) float64 {
	if math.IsInf(nu, 1) {
		return distuv.UnitNormal.Survival(t)
	}
	return studentSurvival(nu, t)
}
