package advise

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
)

// measured: another run of the sweep differs in one tuning knob only and is
// clearly faster. The gain is the measured one. It also notes which settings
// were seen not to help, so that no rule suggests them.
func (s *scene) measured() []gpuprof.Finding {
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
	// The knob that gains most claims first.
	knobs := slices.SortedFunc(maps.Keys(best), func(a, b string) int {
		return cmp.Or(cmp.Compare(best[b].Throughput.Series.Median, best[a].Throughput.Series.Median), cmp.Compare(a, b))
	})
	for _, knob := range knobs {
		out = append(out, s.measuredGain(knob, best[knob])...)
	}
	return out
}

func (s *scene) measuredGain(knob string, other *gpuprof.Run) []gpuprof.Finding {
	here, there := s.run.Throughput.Series, other.Throughput.Series
	gain := s.gainOver(other)
	if gain < leastShare*s.step {
		return nil
	}
	of, stage := s.declined(other)
	if s.typical(of) < gain { // medians of stages need not add up to that of the step
		of = s.everything()
	}
	got, taken := s.take(gain, of)
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

// gainOver is what b takes less for the work of one step of the run, in seconds: by
// the rates of whole blocks or by the median steps, whichever says less, because
// a burst of other work moves the one and steps that alternate the other.
func (s *scene) gainOver(b *gpuprof.Run) float64 {
	work := s.workOf(s.run)
	blocks := work/s.run.Throughput.Series.Median - work/b.Throughput.Series.Median
	return min(blocks, s.run.Step.Median-b.Step.Median*work/s.workOf(b))
}

// slowerThan says that a is faster than the run beyond both intervals, and that
// three of four steps of a are faster than three of four of the run. The runs of a
// sweep are taken one after the other, so that the intervals, each from within a
// process, do not cover what the machine did between them.
func (s *scene) slowerThan(a *gpuprof.Run) bool {
	if !(a.Throughput.Series.CI95[0] > s.run.Throughput.Series.CI95[1]) { // also where either has none
		return false
	}
	scale := s.workOf(s.run) / s.workOf(a)
	return quartile(a, 3)*scale < quartile(s.run, 1)
}

// quartile is the first or third quartile of a run's steps, in seconds.
func quartile(r *gpuprof.Run, which int) float64 {
	x := slices.Sorted(slices.Values(slices.Concat(r.Step.Runs...)))
	return x[min(len(x)-1, which*len(x)/4)]
}

// declined is the part of each stage's exposed time that the other run does
// without, for the same work, and the stage that lost most.
func (s *scene) declined(other *gpuprof.Run) (of weights, stage string) {
	of = weights{}
	scale, most := s.workOf(s.run)/s.workOf(other), 0.0
	there := newScene(other, nil, s.o)
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

// workOf is the work of one step in the unit of the throughput.
func (s *scene) workOf(r *gpuprof.Run) float64 {
	// Throughput is the work of a step over the periods of whole blocks; where
	// knobs scale it they say how much that is up to a factor.
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

// measuredWell says that a run is whole enough to be evidence for another.
func measuredWell(r *gpuprof.Run) bool {
	return r.Status == gpuprof.Complete && r.Step.N() >= leastSamples && positive(r.Step.Median) &&
		r.Throughput != nil && r.Throughput.Series.N() > 0 && positive(r.Throughput.Series.Median)
}

// differsOnlyIn is the one tuning knob that two runs differ in, "" when they
// differ in none, in several or in what they compute.
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
