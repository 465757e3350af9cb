package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gpuprof/gpuprof"
)

// Effect is an estimate of the logarithm of a ratio with its error: (Theta - true value) / SE has Student's t
// distribution with Nu degrees of freedom (Nu = +Inf: the normal distribution). An effect from ranks uses their exact
// distribution for tests and bounds; its SE serves for planning only.
type Effect struct {
	Theta float64 // log(B/A); 0.05 is about 5 % more
	SE    float64 // standard error of Theta
	Nu    float64
	// Bias >= 0 is a possible systematic error of Theta, such as a drift, which tests and bounds allow for.
	Bias  float64
	ranks *rankTest
}

// OK reports whether the effect can be tested: Theta is finite, SE finite and not negative, and Nu at least 1.
func (e Effect) OK() bool {
	return !math.IsNaN(e.Theta) && !math.IsInf(e.Theta, 0) && e.SE >= 0 && !math.IsInf(e.SE, 0) && e.Nu >= 1
}

// Negate returns the effect with the sides swapped.
func (e Effect) Negate() Effect { return Effect{-e.Theta, e.SE, e.Nu, e.Bias, e.ranks.negate()} }

// PNotAbove returns the p-value of the one-sided null hypothesis "the true effect is at most bound": small if the
// effect is above bound. (Student 1908; the non-inferiority test of Schuirmann 1987.) NaN if the effect is not OK.
func (e Effect) PNotAbove(bound float64) float64 {
	bound += e.Bias
	switch {
	case !e.OK():
		return math.NaN()
	case e.ranks != nil:
		return e.ranks.pNotAbove(bound)
	case e.SE > 0:
		return tSurvival(e.Nu, (e.Theta-bound)/e.SE)
	case e.Theta > bound: // SE is 0: every run of a side gave the same figure
		return 0
	}
	return 1
}

// Upper returns the one-sided upper confidence bound at a level such as 0.975.
func (e Effect) Upper(level float64) float64 {
	if e.ranks != nil {
		return e.ranks.quantile(level) + e.Bias
	}
	return e.Theta + TQuantile(e.Nu, level)*e.SE + e.Bias
}

// Lower returns the one-sided lower confidence bound at a level such as 0.975.
func (e Effect) Lower(level float64) float64 {
	if e.ranks != nil {
		return e.ranks.quantile(1-level) - e.Bias
	}
	return e.Theta - TQuantile(e.Nu, level)*e.SE - e.Bias
}

// ratio converts the effect to a ratio with its 95 % interval; ok is false if it is not OK.
func (e Effect) ratio() (r gpuprof.Ratio, ok bool) {
	if !e.OK() {
		return gpuprof.Ratio{}, false
	}
	return gpuprof.Ratio{Ratio: math.Exp(e.Theta), CI95: [2]float64{math.Exp(e.Lower(0.975)), math.Exp(e.Upper(0.975))}}, true
}

// MDE returns the minimum detectable effect: the least true effect that a one-sided test of "at most bound" at
// level alpha detects with the given power under this noise.
//
//	bound + (t(1-alpha) + t(power)) SE + Bias
//
// (Bloom, Evaluation Review 19, 1995.) It depends on the data's noise only, not on the estimated effect, so it is no
// "observed power".
func (e Effect) MDE(bound, alpha, power float64) float64 {
	return bound + (TQuantile(e.Nu, 1-alpha)+TQuantile(e.Nu, power))*e.SE + e.Bias
}

// normalLike is the number of degrees of freedom from which Student's t counts as normal: the quantiles differ by a
// millionth there. With more, the incomplete beta function of distuv.StudentsT loses digits (TestStudentOfLibrary).
const normalLike = 1e6

// student returns Student's t distribution with nu > 0 degrees of freedom; +Inf is the normal distribution.
func student(nu float64) interface {
	Quantile(p float64) float64
	Survival(t float64) float64
} {
	if nu >= normalLike {
		return distuv.UnitNormal
	}
	return distuv.StudentsT{Sigma: 1, Nu: nu}
}

// TQuantile returns the quantile at p of Student's t with nu degrees of freedom; +Inf is the normal distribution.
func TQuantile(nu, p float64) float64 { return student(nu).Quantile(p) }

func tSurvival(nu, t float64) float64 { return student(nu).Survival(t) }
