package advise

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof"
)

const (
	// leastShare is the least share of a step for a finding: the default threshold of compare and gate.
	leastShare = 0.05
	// steadyShare is the share of the step that the time of a finding's stages must reach in at least three of four steps.
	steadyShare = 0.8 * leastShare
	// mostScale limits the factor by which claims are scaled: the upper end of the step's confidence interval, divided
	// by the median. A run with a wider interval is noise.
	mostScale = 1.05
	// leastSamples is the least number of samples for an interval of the median; fewer prove nothing.
	leastSamples = 10
	// longKernel is the duration in seconds above which a host kernel is worth splitting over all threads.
	longKernel = 50e-6
)

// Stages that every run has.
const (
	stStep   = gpuprof.StageStep
	stLaunch = gpuprof.StageLaunch
	stGap    = gpuprof.StageGap
)

// runContext is a run prepared for the rules: each stage's exposed time, and the part not yet claimed by a finding.
type runContext struct {
	*program
	run  *gpuprof.Run
	all  []*gpuprof.Run // runs of the sweep, including run
	o    Options
	rule string

	step float64 // seconds; 0 if the run has too few samples for advice
	// scale is the factor from a stage's exposed time to the largest time that it can take of the reported step.
	// Exposed times are medians over steps with probes, if the run has such steps. The reported step has no probes
	// then, and may be as long as the upper end of its confidence interval.
	scale    float64
	promised float64 // sum of the seconds that findings claim
	// rows holds the stages' exposed times by sample or, if a step's work repeats every k steps, means of k samples.
	names []string
	rows  [][]float64

	whole  map[string]float64 // exposed seconds by stage
	left   map[string]float64 // unclaimed exposed seconds by stage
	budget float64            // unclaimed seconds of the step
	// tried has, by knob, the values for which a sweep measured no gain; settled has the knobs for which it measured
	// a gain. No bound is estimated for either.
	tried   map[string]map[string]bool
	settled map[string]bool
}

func newRunContext(r *gpuprof.Run, all []*gpuprof.Run, o Options) *runContext {
	s := &runContext{program: programOf(o.Workload), run: r, all: all, o: o, whole: map[string]float64{}, left: map[string]float64{}, tried: map[string]map[string]bool{}, settled: map[string]bool{}}
	if r.Step.N() < leastSamples || !positive(r.Step.Median) || r.Throughput == nil || r.Throughput.Series == nil {
		return s
	}
	s.collectRows()
	if len(s.rows) < 2 {
		return s
	}
	s.step, s.budget, s.scale = r.Step.Median, r.Step.Median, 1
	if p := r.ProbedStep; p != nil && positive(p.Median) {
		s.scale = max(1, s.step/p.Median)
	}
	if hi := r.Step.CI95[1]; positive(hi) {
		s.scale *= min(max(1, hi/s.step), mostScale)
	} else { // without an interval the step's range is unknown
		s.scale *= mostScale
	}
	for _, n := range s.names {
		s.whole[n] = s.typical(weights{n: 1})
		s.left[n] = s.whole[n]
	}
	return s
}

func (s *runContext) collectRows() {
	periods := cmp.Or(s.run.ProbedStep, s.run.Step)
	var series []*gpuprof.Series
	for i := range s.run.Stages {
		st := &s.run.Stages[i]
		if st.Parent != stStep || st.Exposed == nil || slices.Contains(s.names, st.Name) {
			continue
		}
		if len(st.Exposed.Runs) != len(periods.Runs) {
			return
		}
		s.names, series = append(s.names, st.Name), append(series, st.Exposed)
	}
	k := s.cycle()
	for p, samples := range periods.Runs {
		for _, x := range series {
			if len(x.Runs[p]) != len(samples) {
				s.rows = nil
				return
			}
		}
		for at := 0; at+k <= len(samples); at += k {
			row, whole := make([]float64, len(series)), true
			for c, x := range series {
				row[c] = stat.Mean(x.Runs[p][at:at+k], nil)
				whole = whole && row[c] >= 0 && !math.IsInf(row[c], 0)
			}
			if whole { // no NaN
				s.rows = append(s.rows, row)
			}
		}
	}
}

// cycle returns the number of steps to average over: the period that the knobs declare for a step's work.
func (s *runContext) cycle() int {
	_, k := s.repeatPeriod("")
	// With two batches in flight, a slow caller waits in one step and launches in the next: steps alternate.
	k += k % 2
	// Fewer than four rows give no quartile.
	return max(1, min(k, s.run.Step.N()/4))
}

// repeatPeriod returns the knob with the longest repetition period, and the period in steps. With a stage it
// considers only the knobs that act on this stage.
func (s *runContext) repeatPeriod(stage string) (knob string, steps int) {
	steps = 1
	for _, k := range s.knobs {
		if k.Repeats == nil || stage != "" && !slices.Contains(k.Acts, stage) {
			continue
		}
		if n := k.Repeats(s.run.Knobs); knob == "" || n > steps {
			knob, steps = k.Name, max(n, steps)
		}
	}
	return knob, steps
}

// weights maps stages to the share of their exposed time, 0 to 1, that a rule is about.
type weights map[string]float64

// typical returns the median over the steps of the weighted sum of a step's seconds in the stages of w. A few disturbed
// steps do not change it.
func (s *runContext) typical(w weights) float64 {
	x := s.sortedSums(w)
	if len(x) == 0 {
		return 0
	}
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// lowerQuartile returns the lower quartile over the steps of the weighted sum of a step's seconds in the stages of w.
// Time that only some steps lose has its cause in the machine, not in the program.
func (s *runContext) lowerQuartile(w weights) float64 {
	x := s.sortedSums(w)
	if len(x) == 0 {
		return 0
	}
	return x[len(x)/4]
}

func (s *runContext) sortedSums(w weights) []float64 {
	x := make([]float64, len(s.rows))
	for i := range s.rows {
		x[i] = s.weightedSum(i, w)
	}
	slices.Sort(x)
	return x
}

func (s *runContext) weightedSum(row int, w weights) float64 {
	sum := 0.0
	for c, n := range s.names {
		sum += w[n] * s.rows[row][c]
	}
	return sum
}

// advice is a finding before it has claimed time.
type advice struct {
	stage    string
	knob, to string
	also     []string // further knobs to change with it, as name=value
	of       weights  // share of each stage's exposed time that the finding explains
	want     float64  // seconds; cut to the time in of
	evidence map[string]any
	command  string // if not the sweep of knob
	pytorch  string // if not the knob's own line
	unknown  string // why the run cannot bound the knob's gain: the finding then claims no time
}

// offer claims an advice's time and returns the finding, if most steps have enough of it and no measurement
// disagrees.
func (s *runContext) offer(a advice) []gpuprof.Finding {
	if _, there := s.run.Knobs[a.knob]; a.knob != "" && !there {
		return nil // the workload lacks this knob
	}
	if s.step == 0 || !positive(a.want) || s.tried[a.knob][a.to] || s.settled[a.knob] || s.lowerQuartile(a.of) < steadyShare*s.step {
		return nil
	}
	got, taken := s.claimTime(a.want, a.of)
	rest := (s.typical(s.stageWeights()) - got) / s.scale // the time that remains
	claim := min(got*s.scale, max(got, s.step-rest), s.step-s.promised)
	if claim < leastShare*s.step {
		s.giveBack(got, taken)
		return nil
	}
	if a.unknown != "" { // the time is taken anyway, so that no vaguer rule claims it
		a.evidence["exposed_s"], a.evidence["nothing_claimed"] = got, a.unknown
		claim = 0
	}
	s.promised += claim
	return []gpuprof.Finding{s.finding(a, claim)}
}

func (s *runContext) stageWeights() weights {
	of := weights{}
	for _, n := range s.names {
		of[n] = 1
	}
	return of
}

// unclaimed returns the seconds of a stage's weighted time that no finding has claimed yet.
func (s *runContext) unclaimed(stage string, weight float64) float64 {
	return min(s.left[stage], weight*s.whole[stage])
}

// claimTime claims time of the stages, at most want seconds, from each stage in proportion to the unclaimed part of
// its weighted time. It returns the seconds claimed in total and by stage.
func (s *runContext) claimTime(want float64, of weights) (got float64, taken map[string]float64) {
	total := 0.0
	taken = map[string]float64{}
	for _, n := range s.names { // in a fixed order: sums of floats depend on it
		total += s.unclaimed(n, of[n])
	}
	got = min(want, total, s.budget)
	if !positive(got) {
		return 0, taken
	}
	for n, w := range of {
		taken[n] = got * s.unclaimed(n, w) / total
		s.left[n] -= taken[n]
	}
	s.budget -= got
	return got, taken
}

// giveBack undoes a claimTime that led to no finding.
func (s *runContext) giveBack(got float64, taken map[string]float64) {
	for n, v := range taken {
		s.left[n] += v
	}
	s.budget += got
}

func (s *runContext) finding(a advice, claim float64) gpuprof.Finding {
	f := gpuprof.Finding{
		Rule: s.rule, Stage: a.stage, Knob: a.knob, From: s.run.Knobs[a.knob], To: a.to, ClaimS: claim,
		Evidence: a.evidence, Command: a.command, PyTorch: a.pytorch,
	}
	if f.Evidence == nil {
		f.Evidence = map[string]any{}
	}
	// JSON cannot represent NaN and infinities, which are no evidence anyway.
	maps.DeleteFunc(f.Evidence, func(_ string, v any) bool {
		x, ok := v.(float64)
		return ok && !gpuprof.IsFinite(x)
	})
	if claim > 0 {
		f.Evidence["share_of_step"] = claim / s.step
	}
	if f.Command == "" {
		f.Command = s.sweepCommand(append([]string{a.knob + "=" + a.to}, a.also...)...)
	}
	if f.PyTorch == "" {
		f.PyTorch = s.adviceFor(a.knob, a.to)
	}
	return f
}

func (s *runContext) cuda() bool { return s.run.Device.Kind == "cuda" }

// exposed returns a stage's exposed seconds per step, 0 for a missing stage.
func (s *runContext) exposed(stage string) float64 { return s.typical(weights{stage: 1}) }

// hostTime returns the caller's seconds per step in a stage.
func (s *runContext) hostTime(stage string) float64 {
	if st := s.run.Stage(stage); st != nil && st.Host != nil && positive(st.Host.Median) {
		return st.Host.Median
	}
	return 0
}

func (s *runContext) stepStages() iter.Seq[*gpuprof.StageResult] {
	return func(yield func(*gpuprof.StageResult) bool) {
		for i := range s.run.Stages {
			if st := &s.run.Stages[i]; st.Parent == stStep && !yield(st) {
				return
			}
		}
	}
}

// timedStages iterates over the stages of a step that have a device time.
func (s *runContext) timedStages() iter.Seq[*gpuprof.StageResult] {
	return func(yield func(*gpuprof.StageResult) bool) {
		for st := range s.stepStages() {
			if st.Device != nil && positive(st.Device.Median) && !yield(st) {
				return
			}
		}
	}
}

func (s *runContext) kernelsOf(stage string) []*gpuprof.StageResult {
	var out []*gpuprof.StageResult
	for i := range s.run.Stages {
		if k := &s.run.Stages[i]; k.Parent == stage && stage != stStep && k.Device != nil && positive(k.Device.Median) {
			out = append(out, k)
		}
	}
	return out
}

// cpus returns the number of CPUs that the run could use: the machine's, or its quota.
func (s *runContext) cpus() float64 {
	d := &s.run.Device
	if d.CPUQuota > 0 {
		return min(d.CPUQuota, float64(d.CPUCores))
	}
	return float64(d.CPUCores)
}

// overlapShare returns the share of the caller's own work that can be hidden by overlapping it with the device.
// Kernels of the host device run on the CPUs that the caller needs: if they use all n, one thread's work still takes
// 1/n of its time.
func (s *runContext) overlapShare() float64 {
	n := s.cpus()
	if s.cuda() || n <= 0 || float64(s.run.Device.Cores) < n || s.meanKernel() < longKernel {
		return 1
	}
	return 1 - 1/n
}

// meanKernel returns the mean device time of a launch, in seconds.
func (s *runContext) meanKernel() float64 {
	device, launches := 0.0, s.run.Counters["launches"]
	for st := range s.stepStages() {
		if st.Device != nil && st.Counters["launches"] > 0 {
			device += st.Device.Median
		}
	}
	if launches <= 0 {
		return 0
	}
	return device / launches
}

func positive(v float64) bool { return v > 0 && !math.IsInf(v, 0) }

// figure returns a number in Run.Input, or 0; decoded JSON holds floats.
func (s *runContext) figure(name string) float64 {
	switch v := s.run.Input[name].(type) {
	case float64:
		return v
	case int:
		return float64(v)
	case int64:
		return float64(v)
	}
	return 0
}
