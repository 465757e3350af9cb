package fleet

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// partOfStep is the smallest difference, as a share of the step, that explains a slow rank.
	partOfStep = 0.02
	// oneFactor is the largest relative difference between the slowdowns of kernel classes that counts as a single
	// slowdown.
	oneFactor = 0.25
)

// explainCause describes the largest difference of slow ranks from their siblings. The second result is false if no
// difference is large.
func (s *search) explainCause(lines []int) (string, bool) {
	at := lines[0]
	l := s.m.lines[at]
	var others []*timeline
	for i, o := range s.m.lines {
		if s.e.family[i] == s.e.family[at] && !slices.Contains(lines, i) && s.set[i] == nil {
			others = append(others, o)
		}
	}
	if len(others) == 0 {
		return "it takes longer than its siblings between collectives", false
	}
	middle := func(of func(*timeline) int64) float64 {
		return medianOf(others, func(o *timeline) float64 { return float64(of(o)) / float64(max(len(o.steps), 1)) })
	}
	per := float64(max(len(l.steps), 1))
	work := float64(l.work)/per - middle(func(o *timeline) int64 { return o.work })
	idle := float64(l.idle)/per - middle(func(o *timeline) int64 { return o.idle })
	least := partOfStep * s.step
	switch {
	case max(work, idle) < least:
		return "no part of its step is much longer than its siblings' in the mean: single steps are", false
	case idle > work && l.onHost:
		return fmt.Sprintf("it does nothing for %s per step longer than its siblings: it waits for its data, for another process or sleeps", gpuprof.FormatNS(int64(idle))), true
	case idle > work:
		return idleCause(l, others, idle), true
	case l.onHost:
		return fmt.Sprintf("its operators take %s per step longer than its siblings': more work, or a slower or shared CPU", gpuprof.FormatNS(int64(work))), true
	}
	return kernelCause(l, others, work, leastCost*s.step), true
}

// idleCause explains a device that idles longer than its siblings.
func idleCause(l *timeline, others []*timeline, idle float64) string {
	starved := medianOf(others, func(o *timeline) float64 { return float64(o.parts.StarvedNS) })
	queued := medianOf(others, func(o *timeline) float64 { return float64(o.parts.QueuedNS) })
	text := fmt.Sprintf("its device does nothing for %s per step longer than its siblings'", gpuprof.FormatNS(int64(idle)))
	if float64(l.parts.StarvedNS)-starved >= float64(l.parts.QueuedNS)-queued {
		return text + ": it waits for the host (its data loader, another process on the CPU, or a slower CPU)"
	}
	return text + ": work is launched and waits"
}

// kernelCause explains a device that computes longer than its siblings: all kernels are slower by one factor, or only
// the kernels of one class.
func kernelCause(l *timeline, others []*timeline, work, least float64) string {
	var most model.Class
	largest := 0.0
	var factors []float64
	for _, class := range slices.Sorted(maps.Keys(l.parts.Classes)) {
		usual, own := medianOf(others, func(o *timeline) float64 { return float64(o.parts.Classes[class]) }), float64(l.parts.Classes[class])
		if class.Communicates() {
			continue
		}
		if own-usual > largest {
			largest, most = own-usual, class
		}
		if own > least && usual > 0 {
			factors = append(factors, own/usual)
		}
	}
	if len(factors) > 1 && slices.Min(factors) > 1 && slices.Max(factors)-1 <= (slices.Min(factors)-1)*(1+oneFactor)+0.01 {
		return fmt.Sprintf("all its kernels take %.2f times as long as its siblings': its clocks are lower (power limit, heat), or its GPU is shared", math.Sqrt(slices.Min(factors)*slices.Max(factors)))
	}
	if most == "" {
		return fmt.Sprintf("its device computes for %s per step longer than its siblings'", gpuprof.FormatNS(int64(work)))
	}
	return fmt.Sprintf("its %s kernels take %s per step longer than its siblings': more work, or one kind of work is slower there", most, gpuprof.FormatNS(int64(largest)))
}
