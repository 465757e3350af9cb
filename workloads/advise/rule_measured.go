package advise

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
)

// findMeasuredGains reports another run of the sweep that differs in only one tuning knob and is clearly faster; the
// gain is measured. It also records the settings that measured no gain, so that no rule suggests them.
func (s *runContext) findMeasuredGains() []gpuprof.Finding {
	if s.step == 0 {
		return nil
	}
	best := map[string]*gpuprof.Run{}
	for _, r := range s.all {
		if r == nil || r == s.run || !measuredWell(r) {
			continue
		}
		knob := differsOnlyIn(s.run, r)
		if knob == "" {
			continue
		}
		if s.tried[knob] == nil {
			s.tried[knob] = map[string]bool{}
		}
		s.tried[knob][r.Knobs[knob]] = s.gainOver(r) < leastShare*s.step
		if !s.slowerThan(r) {
			continue
		}
		if b := best[knob]; b == nil || r.Throughput.Series.Median > b.Throughput.Series.Median {
			best[knob] = r
		}
	}
	var out []gpuprof.Finding
	// The knob with the largest gain claims time first.
	knobs := slices.SortedFunc(maps.Keys(best), func(a, b string) int {
		return cmp.Or(cmp.Compare(best[b].Throughput.Series.Median, best[a].Throughput.Series.Median), cmp.Compare(a, b))
	})
	for _, knob := range knobs {
		out = append(out, s.measuredGain(knob, best[knob])...)
	}
	return out
}

func (s *runContext) measuredGain(knob string, other *gpuprof.Run) []gpuprof.Finding {
	here, there := s.run.Throughput.Series, other.Throughput.Series
	gain := s.gainOver(other)
	if gain < leastShare*s.step {
		return nil
	}
	of, stage := s.declinedStages(other)
	if s.typical(of) < gain { // medians of stages need not add up to the step's
		of = s.stageWeights()
	}
	got, taken := s.claimTime(gain, of)
	if got < leastShare*s.step {
		s.giveBack(got, taken)
		return nil
	}
	rule, to := s.rule, other.Knobs[knob]
	s.rule = s.ruleOf(knob, to)
	defer func() { s.rule = rule }()
	s.settled[knob] = true
	s.promised += got
	line := cmp.Or(s.adviceFor(knob, to), "against the usual advice, as measured here: the equivalent of "+knob+"="+to+" stands for")
	return []gpuprof.Finding{s.finding(advice{stage: stage, knob: knob, to: to, pytorch: line, evidence: map[string]any{
		"measured_gain_s": gain, "throughput": here.Median, "throughput_there": there.Median, "ratio": there.Median / here.Median,
		"ratio_at_least": there.CI95[0] / here.CI95[1],
	}}, got)}
}

// gainOver returns the seconds that b saves on the work of one step of the run: by the rates of whole blocks or by
// the median steps, whichever saves less. A burst of other work changes the rates, and alternating steps change the
// median.
func (s *runContext) gainOver(b *gpuprof.Run) float64 {
	work := s.workOf(s.run)
	blocks := work/s.run.Throughput.Series.Median - work/b.Throughput.Series.Median
	return min(blocks, s.run.Step.Median-b.Step.Median*work/s.workOf(b))
}

// slowerThan reports whether run a is faster by two tests. The intervals of the throughput do not overlap. For the
// same work, the upper quartile of a's steps is below the lower quartile of this run's. The second test is needed
// because the runs of a sweep follow each other in time. Their intervals come from one process each and do not include
// changes of the machine between the runs.
func (s *runContext) slowerThan(a *gpuprof.Run) bool {
	if !(a.Throughput.Series.CI95[0] > s.run.Throughput.Series.CI95[1]) { // false if either has no interval
		return false
	}
	scale := s.workOf(s.run) / s.workOf(a)
	return stepQuartile(a, 3)*scale < stepQuartile(s.run, 1)
}

func stepQuartile(r *gpuprof.Run, which int) float64 {
	x := slices.Sorted(slices.Values(slices.Concat(r.Step.Runs...)))
	return x[min(len(x)-1, which*len(x)/4)]
}

// declinedStages returns the share of each stage's exposed time that the other run saves for the same work, and the
// stage with the largest saving in seconds.
func (s *runContext) declinedStages(other *gpuprof.Run) (of weights, stage string) {
	of = weights{}
	scale, most := s.workOf(s.run)/s.workOf(other), 0.0
	there := newRunContext(other, nil, s.o)
	for _, n := range s.names {
		here := s.exposed(n)
		if d := here - scale*there.exposed(n); d > 0 {
			of[n] = d / here
			if d > most {
				stage, most = n, d
			}
		}
	}
	return of, stage
}

// workOf returns the work of one step in the unit of the throughput.
func (s *runContext) workOf(r *gpuprof.Run) float64 {
	// If knobs scale the work of a step, their product is the work, except for a constant factor. Otherwise the work
	// is the throughput times the step time.
	work, scaled := 1.0, false
	for _, k := range s.knobs {
		if n := r.Knobs.Int(k.Name); k.Scales && n > 0 {
			work *= float64(n)
			scaled = true
		}
	}
	if scaled {
		return work
	}
	return r.Throughput.Series.Median * r.Step.Median
}

// measuredWell reports whether a run is complete enough to serve as evidence for another.
func measuredWell(r *gpuprof.Run) bool {
	return r.Status == gpuprof.Complete && r.Step.N() >= leastSamples && positive(r.Step.Median) &&
		r.Throughput != nil && r.Throughput.Series.N() > 0 && positive(r.Throughput.Series.Median)
}

// differsOnlyIn returns the one tuning knob in which two runs of the same computation differ, else "".
func differsOnlyIn(a, b *gpuprof.Run) string {
	if a.Workload != b.Workload || a.Preset != b.Preset || a.Mode != b.Mode || a.Seed != b.Seed || a.Device.Name != b.Device.Name ||
		len(a.Knobs) != len(b.Knobs) {
		return ""
	}
	found := ""
	for knob, value := range a.Knobs {
		if b.Knobs[knob] == value {
			continue
		}
		if found != "" || slices.Contains(a.ModelKnobs, knob) {
			return ""
		}
		found = knob
	}
	return found
}
