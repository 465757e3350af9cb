package analyze

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// leastNoise is the least share by which the mean of an unchanged program moves from recording to recording, however
// little its steps vary: clocks and temperature differ.
const leastNoise = 0.01

// measureDelivered measures the reduction of the claim's parts of the step. The interval is Welch's for the steps of
// both recordings, and never smaller than leastNoise of the parts.
func (f *FindingChange) measureDelivered(c *Comparison) {
	parts := slices.Concat(f.Parts, c.takingOver(f.Parts))
	before, after := stepSums(c.Old, parts), stepSums(c.New, parts)
	was, is := partsSum(c.Old, parts), partsSum(c.New, parts)
	f.DeliveredNS = was - is
	if c.Old.Step.Count > 0 && (len(before) < 2 || len(after) < 2) {
		return
	}
	half := max(welchHalf(before, after), leastNoise*float64(max(was, is)))
	low, high := f.DeliveredNS-int64(half), f.DeliveredNS+int64(half)
	f.LowNS, f.HighNS = &low, &high
}

// StepNoise returns half of the 95 % interval of the change of the mean step, ns, from the variation of the steps on
// both sides; ok is false with fewer than two steps on a side.
func (c *Comparison) StepNoise() (half int64, ok bool) {
	before, after := stepSums(c.Old, nil), stepSums(c.New, nil)
	if len(before) < 2 || len(after) < 2 || !c.Comparable() {
		return 0, false
	}
	return int64(max(welchHalf(before, after), leastNoise*float64(max(c.StepOldNS, c.StepNewNS)))), true
}

// NoiseText follows the change of the mean step if the noise of the steps hides it, "" otherwise.
func (c *Comparison) NoiseText() string {
	half, ok := c.StepNoise()
	switch {
	case c.Old.Step.Count == 0 || c.StepOldNS == c.StepNewNS:
		return ""
	case !ok:
		return "one step on a side does not tell that from noise"
	case abs(c.StepOldNS-c.StepNewNS) <= half:
		return fmt.Sprintf("within the noise of %d and %s (%s)", c.Old.Step.Count, Plural(c.New.Step.Count, "step", "steps"), gpuprof.FormatNS(half))
	}
	return ""
}

// takingOver lists classes of device work that appear after the change: kernels of another class, such as fused
// attention, replace the work that a claim is about.
func (c *Comparison) takingOver(parts []string) (classes []string) {
	old := c.Old.Step.Parts.Classes
	var work int64
	for _, p := range parts {
		work += old[model.Class(p)]
	}
	if work == 0 {
		return nil
	}
	for class, ns := range c.New.Step.Parts.Classes {
		appears := float64(old[class]) < ownPart*float64(ns)
		if appears && float64(ns) >= ownPart*float64(work) && !slices.Contains(parts, string(class)) {
			classes = append(classes, string(class))
		}
	}
	slices.Sort(classes)
	return classes
}

// partsSum returns the time of parts of the mean step, ns; the whole step without parts.
func partsSum(a *Analysis, parts []string) (ns int64) {
	if len(parts) == 0 {
		return a.Step.NS
	}
	all := partsOf(a)
	for _, p := range parts {
		ns += all[p]
	}
	return ns
}

// stepSums returns for each counted step the sum of the given parts, ns.
func stepSums(a *Analysis, parts []string) []float64 {
	var out []float64
	for i := range a.Steps {
		s := &a.Steps[i]
		if s.Dropped {
			continue
		}
		out = append(out, float64(s.sumOf(parts)))
	}
	return out
}

func (s *StepTime) sumOf(parts []string) (ns int64) {
	if len(parts) == 0 {
		return s.DurNS
	}
	idle := map[string]int64{
		"starved": s.StarvedNS, "queued": s.QueuedNS, "unknown": s.UnknownNS,
		"outside": s.DurNS - s.BusyNS - s.StarvedNS - s.QueuedNS - s.UnknownNS,
	}
	for _, p := range parts {
		ns += idle[p]
	}
	for class, v := range s.Classes {
		if slices.Contains(parts, string(class)) {
			ns += v
		}
	}
	return ns
}

// welchHalf returns half of the 95 % interval of the difference of two means, with unequal variances (Welch,
// Biometrika 34, 1947). One slow step moves a mean, so the deviation must not be a robust one.
func welchHalf(a, b []float64) float64 {
	errorOf := func(x []float64) (squared, free float64) {
		n := float64(len(x))
		return stat.Variance(x, nil) / n, n - 1
	}
	if len(a) < 2 || len(b) < 2 {
		return 0 // recordings without steps: one window each
	}
	va, na := errorOf(a)
	vb, nb := errorOf(b)
	if va+vb == 0 {
		return 0
	}
	free := (va + vb) * (va + vb) / (va*va/na + vb*vb/nb)
	return stats.TQuantile(free, 0.975) * math.Sqrt(va+vb)
}
