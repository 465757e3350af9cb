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

// leastNoise is the least share by which the mean step of an unchanged program differs between recordings, even if its
// steps do not vary: clocks and temperature differ.
const leastNoise = 0.01

// measureDelivered measures by how much the classes and idle states of the claim became shorter. It computes Welch's
// 95 % interval from the steps of both recordings; half its width is at least leastNoise times the parts' time.
func (f *FindingChange) measureDelivered(c *Comparison) {
	parts := slices.Concat(f.Parts, c.listReplacements(f.Parts))
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

// StepNoise returns half of the width of the 95 % interval of the change of the mean step, ns. It follows from the
// variation of the steps on both sides; ok is false with fewer than two steps on a side.
func (c *Comparison) StepNoise() (half int64, ok bool) {
	before, after := stepSums(c.Old, nil), stepSums(c.New, nil)
	if len(before) < 2 || len(after) < 2 || !c.Comparable() {
		return 0, false
	}
	return int64(max(welchHalf(before, after), leastNoise*float64(max(c.StepOldNS, c.StepNewNS)))), true
}

// NoiseText returns a remark if noise hides the change of the mean step or one side has a single step, else "".
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

// listReplacements lists the classes of kernels that appear only after the change, where parts are the classes of a
// claim. They may replace the claimed work: fused attention replaces matrix products and a softmax.
func (c *Comparison) listReplacements(parts []string) (classes []string) {
	old := c.Old.Step.Parts.Classes
	var work int64
	for _, p := range parts {
		work += old[model.Class(p)]
	}
	if work == 0 {
		return nil
	}
	for class, ns := range c.New.Step.Parts.Classes {
		appears := float64(old[class]) < leastPartShare*float64(ns)
		if appears && float64(ns) >= leastPartShare*float64(work) && !slices.Contains(parts, string(class)) {
			classes = append(classes, string(class))
		}
	}
	slices.Sort(classes)
	return classes
}

// partsSum returns the time of the given parts in the mean step, ns; of the whole step if parts is empty.
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

// stepSums returns the sum of the given parts for each counted step, ns.
func stepSums(a *Analysis, parts []string) []float64 {
	var out []float64
	for i := range a.Steps {
		s := &a.Steps[i]
		if s.Dropped {
			continue
		}
		out = append(out, float64(s.sumParts(parts)))
	}
	return out
}

func (s *StepTime) sumParts(parts []string) (ns int64) {
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

// welchHalf returns half of the width of the 95 % interval of the difference of two means with unequal variances
// (Welch, Biometrika 34, 1947). It uses the plain standard deviation, because one slow step moves the mean too.
func welchHalf(a, b []float64) float64 {
	errorOf := func(x []float64) (squared, degrees float64) {
		n := float64(len(x))
		return stat.Variance(x, nil) / n, n - 1
	}
	if len(a) < 2 || len(b) < 2 {
		return 0 // without steps each side has one window
	}
	va, na := errorOf(a)
	vb, nb := errorOf(b)
	if va+vb == 0 {
		return 0
	}
	degrees := (va + vb) * (va + vb) / (va*va/na + vb*vb/nb)
	return stats.TQuantile(degrees, 0.975) * math.Sqrt(va+vb)
}
