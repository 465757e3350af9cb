package rules_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

// reduces is an all-reduce's transfer, us.
const reduces = 200

// rankOf is a rank of a data-parallel job whose steps take step us: it loads, computes, and is in an all-reduce for the rest.
// Its clock is ahead of that of rank 0 by ahead us.
func rankOf(n, ranks int, loads, computes, step, ahead int64) *model.Trace {
	s := act(4, func(s *scene) {
		if loads > 0 {
			s.loader(loads * us)
		}
		s.products(1, computes*us)
		s.in("c10d::allreduce_", func() { s.kernelOn(7, allReduce, (step-loads-computes)*us, 24) })
		s.wait("cudaStreamSynchronize")
	})
	t := s.trace()
	t.Rank, t.World = n, ranks
	for i := range t.Host {
		t.Host[i].Start, t.Host[i].End = t.Host[i].Start+ahead*us, t.Host[i].End+ahead*us
	}
	for i := range t.GPU {
		t.GPU[i].Start, t.GPU[i].End = t.GPU[i].Start+ahead*us, t.GPU[i].End+ahead*us
	}
	return t
}

func ofJob(t *testing.T, traces ...*model.Trace) *analyze.Analysis {
	t.Helper()
	a, err := summarise(t.Context(), traces, analyze.Options{Rules: rules.Rules, Waits: fleet.Waits, Job: rules.Job})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// claimedShare is the sum of the claims of a job by rule, each where it is largest, as a share of the step.
func claimedShare(a *analyze.Analysis) (sum float64) {
	most := map[string]float64{}
	for _, f := range a.Findings {
		most[f.Rule] = max(most[f.Rule], f.Share)
	}
	for _, share := range most {
		sum += share
	}
	return sum
}

// The rank the others wait for is the first finding, with its cause; it claims what the step is longer by, and communication
// claims the transfer alone.
func TestStraggler(t *testing.T) {
	for _, c := range []struct {
		name            string
		loads, computes int64
		ahead           int64
		cause           string
	}{
		{"its loader", 1900, 500, 0, "data loader"},
		{"its kernels", 0, 2500, 0, "gemm kernels take 2.00 ms longer"},
		{"clocks that differ by 41 minutes", 0, 2500, 41 * 60e6, "gemm kernels take 2.00 ms longer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			step := c.loads + c.computes + reduces
			a := ofJob(t, rankOf(0, 3, 0, 500, step, 0), rankOf(1, 3, c.loads, c.computes, step, c.ahead), rankOf(2, 3, 0, 500, step, 0))
			f := a.Findings[0]
			if f.Rule != gpuprof.RuleStraggler || !strings.Contains(f.Title, "rank 1 arrives last in ") || !strings.Contains(f.Title, c.cause) {
				t.Fatalf("%+v", a.Findings)
			}
			gain := float64(c.loads+c.computes-500) * 1e3
			if ratio := float64(f.StepNS) / gain; ratio < 0.99 || ratio > 1.35 {
				t.Errorf("it claims %d ns of each step, which is %.0f ns shorter without it", f.StepNS, gain)
			}
			if f.Evidence["last_in"] != f.Evidence["collectives"] {
				t.Errorf("%v", f.Evidence)
			}
			if strings.Contains(strings.Join(f.Caveats, "; "), "one step of each rank") {
				t.Errorf("several steps were recorded: %q", f.Caveats)
			}
			for _, f := range a.Findings {
				if f.Rule == gpuprof.RuleExposedComm && f.StepNS > reduces*us*11/10 {
					t.Errorf("communication claims %d ns, and its transfer takes %d", f.StepNS, reduces*us)
				}
			}
			if sum := claimedShare(a); sum > 1.001 {
				t.Errorf("the job claims %.2f of a step", sum)
			}
			if r := a.Ranks[1]; !r.Straggler || !strings.Contains(r.Cause, c.cause) || a.Ranks[0].Straggler || a.Ranks[0].Cause != "" {
				t.Errorf("%+v", a.Ranks)
			}
		})
	}
}

// Ranks without steps have no time per step.
func TestStragglerWithoutSteps(t *testing.T) {
	part := func(n int, computes int64) *model.Trace {
		in := rankOf(n, 2, 0, computes, 3200, 0)
		for i := range in.Host {
			if h := &in.Host[i]; h.Kind == model.Step {
				in.Names = append(in.Names, fmt.Sprintf("part %c", 'a'+i%26))
				h.Kind, h.Name = model.Annotation, model.NameID(len(in.Names)-1)
			}
		}
		return in
	}
	a := ofJob(t, part(0, 500), part(1, 3000))
	f := mustFind(t, a, gpuprof.RuleStraggler)
	if text := f.Title + strings.Join(f.Caveats, "; "); a.Step.Count > 0 || strings.Contains(text, "per step") || strings.Count(text, "in the recording window") < 2 {
		t.Errorf("%d steps: %s", a.Step.Count, text)
	}
}

// merged is one file of the ranks of a job, each a process with a device of its own, as a merger of traces writes it.
func merged(ranks ...*model.Trace) *model.Trace {
	out := &model.Trace{Path: "job.json", Format: model.Kineto, Rank: -1, Names: ranks[0].Names, Stacks: ranks[0].Stacks}
	for n, in := range ranks {
		lanes := uint32(len(out.Lanes))
		for _, l := range in.Lanes {
			l.Process = int32(n + 1)
			out.Lanes = append(out.Lanes, l)
		}
		d := in.Devices[0]
		d.ID = n
		out.Devices = append(out.Devices, d)
		for _, h := range in.Host {
			h.Lane += lanes
			out.Host = append(out.Host, h)
		}
		for _, g := range in.GPU {
			g.Process, g.Device, g.Launch = int32(n+1), uint16(n), -1
			out.GPU = append(out.GPU, g)
		}
	}
	out.Events = len(out.Host) + len(out.GPU)
	out.Finish()
	return out
}

// A recording of one step says so; one of several does not, whether its ranks lie in several files or in one.
func TestStragglerOfOneStep(t *testing.T) {
	rank := func(steps, n int, computes int64) *model.Trace {
		s := act(steps, func(s *scene) {
			s.products(1, computes*us)
			s.in("c10d::allreduce_", func() { s.kernelOn(7, allReduce, (2700-computes)*us, 24) })
			s.wait("cudaStreamSynchronize")
		})
		in := s.trace()
		in.Rank, in.World = n, 3
		return in
	}
	job := func(steps int) []*model.Trace {
		return []*model.Trace{rank(steps, 0, 500), rank(steps, 1, 2500), rank(steps, 2, 500)}
	}
	for name, c := range map[string]struct {
		of  []*model.Trace
		one bool
	}{
		"one step":                {job(1), true},
		"three steps":             {job(3), false},
		"three steps in one file": {[]*model.Trace{merged(job(3)...)}, false},
	} {
		a := ofJob(t, c.of...)
		f := find(a, gpuprof.RuleStraggler)
		if f == nil || strings.Contains(strings.Join(f.Caveats, "; "), "one step of each rank") != c.one {
			t.Errorf("%s: %+v, steps %+v", name, a.Findings, a.Step)
		}
	}
}

// Equal ranks have no straggler, nor has a job in which every rank is late in turn.
func TestNoStraggler(t *testing.T) {
	equal := ofJob(t, rankOf(0, 3, 0, 500, 700, 0), rankOf(1, 3, 0, 510, 700, 0), rankOf(2, 3, 0, 505, 700, 0))
	alone := ofJob(t, rankOf(1, 3, 0, 2500, 2700, 0))
	for name, a := range map[string]*analyze.Analysis{"equal ranks": equal, "one rank alone": alone} {
		for _, f := range a.Findings {
			if f.Rule == gpuprof.RuleStraggler {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

// However slow its ranks are, a job claims one step at most.
func TestClaimsOfAJob(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 7))
	found := 0
	for range 60 {
		n := 2 + r.IntN(4)
		loads, computes := make([]int64, n), make([]int64, n)
		step := int64(0)
		for i := range n {
			loads[i], computes[i] = int64(r.IntN(2))*int64(r.IntN(3000)), 100+int64(r.IntN(2000))
			step = max(step, loads[i]+computes[i]+reduces)
		}
		var traces []*model.Trace
		for i := range n {
			traces = append(traces, rankOf(i, n, loads[i], computes[i], step, int64(r.IntN(1e6))))
		}
		a := ofJob(t, traces...)
		if sum := claimedShare(a); sum > 1.001 {
			t.Errorf("loads %v us, computes %v us: %.3f of a step are claimed", loads, computes, sum)
		}
		for _, f := range a.Findings {
			if f.Rule != gpuprof.RuleStraggler {
				continue
			}
			found++
			at := f.Evidence["rank"].(int)
			for i := range n {
				if loads[i]+computes[i] > loads[at]+computes[at] {
					t.Errorf("loads %v us, computes %v us: %s", loads, computes, f.Title)
				}
			}
		}
		for _, f := range a.Findings {
			if n := strings.Count(f.Title, analyze.Costs); n > 1 || n == 1 && !strings.Contains(f.Title, analyze.Costs+gpuprof.FormatNS(f.StepNS)) {
				t.Errorf("%s claims %d ns", f.Title, f.StepNS)
			}
		}
	}
	if found < 30 {
		t.Error(fmt.Sprint(found, " stragglers in 60 jobs"))
	}
}

// In simulated jobs the claim is no less than what the step is shorter by without the slow rank, and at most 1.35 times that.
func TestStragglersClaim(t *testing.T) {
	for name, plant := range map[string]func(*tracetest.Job){
		"slow kernels": func(j *tracetest.Job) { j.Slow = map[int]float64{2: 1.3} },
		"late host":    func(j *tracetest.Job) { j.Late = map[int]int64{2: 3_000_000} },
		"noisy":        func(j *tracetest.Job) { j.Noise, j.EndJitterNS, j.Slow = 0.05, 60_000, map[int]float64{2: 1.3} },
		"clocks apart": func(j *tracetest.Job) { j.Offset, j.Slow = map[int]int64{2: 7e9, 1: -3e9}, map[int]float64{2: 1.3} },
		"nothing told": func(j *tracetest.Job) { j.Silent, j.Slow = true, map[int]float64{2: 1.3} },
		"two ranks":    func(j *tracetest.Job) { j.Ranks, j.Slow = 2, map[int]float64{1: 1.3} },
	} {
		t.Run(name, func(t *testing.T) {
			j := tracetest.Job{Ranks: 4, Steps: 8, Layers: 12, Buckets: 4, Seed: 3, LayerNS: 400_000, ReduceNS: 300_000, Noise: 0.01, EndJitterNS: 5_000}
			plant(&j)
			without := j
			without.Slow, without.Late = nil, nil
			slow, healthy := j.Run(), without.Run()
			var traces []*model.Trace
			for rank := range j.Ranks {
				var text bytes.Buffer
				if err := slow.Write(&text, rank); err != nil {
					t.Fatal(err)
				}
				in, err := kineto.Read(t.Context(), &text, "trace.json", 0)
				if err != nil {
					t.Fatal(err)
				}
				traces = append(traces, in)
			}
			a, err := analyze.SummariseIndexes(t.Context(), indexed(t, traces), analyze.Options{Rules: rules.Rules, Waits: fleet.Waits, Job: rules.Job})
			if err != nil {
				t.Fatal(err)
			}
			f := a.Findings[0]
			if f.Rule != gpuprof.RuleStraggler || f.Evidence["rank"] != min(2, j.Ranks-1) {
				t.Fatalf("%+v, %+v", f, a.Ranks)
			}
			if ratio := float64(f.StepNS) / 1e9 / (slow.StepS - healthy.StepS); ratio < 1 || ratio > 1.35 {
				t.Errorf("it claims %.3f times the gain: %s", ratio, f.Title)
			}
			if sum := claimedShare(a); sum > 1.001 {
				t.Errorf("the job claims %.2f of a step", sum)
			}
		})
	}
}

func indexed(t *testing.T, traces []*model.Trace) (out []*analyze.Index) {
	t.Helper()
	for _, in := range traces {
		x, err := analyze.NewIndex(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, x)
	}
	return out
}

// partsOf is a rank that computes for some us before each of the all-reduces of a step, in each of which the last rank's
// transfer ends 200 us after its arrival.
func partsOf(n int, computes [][][]int64) *model.Trace {
	step := 0
	s := act(len(computes), func(s *scene) {
		for part := range computes[step] {
			most := int64(0)
			for _, us := range computes[step][part] {
				most = max(most, us)
			}
			own := computes[step][part][n]
			s.products(1, own*us)
			s.in("c10d::allreduce_", func() { s.kernelOn(7, allReduce, (most-own+reduces)*us, 24) })
			s.wait("cudaStreamSynchronize")
		}
		step++
	})
	t := s.trace()
	t.Rank, t.World = n, len(computes[0][0])
	return t
}

// Two ranks that are late in turn, or each for a collective of its own, are named with their shares; ranks of a job that are all late
// in turn are not.
func TestTwoStragglers(t *testing.T) {
	const usual, late = 500, 1500
	turns := func(ranks int, of func(step int) int) (out [][][]int64) {
		for step := range 9 {
			row := slices.Repeat([]int64{usual}, ranks)
			row[of(step)] = late
			out = append(out, [][]int64{row})
		}
		return out
	}
	for name, c := range map[string]struct {
		computes [][][]int64
		want     map[int]int // collectives in which a rank arrives last
	}{
		"two ranks in turn":          {turns(2, func(step int) int { return step % 2 }), map[int]int{0: 4, 1: 4}},
		"two of six in turn":         {turns(6, func(step int) int { return 1 + 3*(step%2) }), map[int]int{1: 4, 4: 4}},
		"all of six in turn":         {turns(6, func(step int) int { return step % 6 }), nil},
		"a collective for each rank": {slices.Repeat([][][]int64{{{usual, late, usual, usual}, {usual, usual, usual, late}}}, 5), map[int]int{1: 4, 3: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			var traces []*model.Trace
			for n := range c.computes[0][0] {
				traces = append(traces, partsOf(n, c.computes))
			}
			a := ofJob(t, traces...)
			got := map[int]int{}
			for _, f := range a.Findings {
				if f.Rule != gpuprof.RuleStraggler {
					continue
				}
				rank := f.Evidence["rank"].(int)
				got[rank] = f.Evidence["last_in"].(int)
				// half of the steps, or half of the collectives, are longer by 1,000 us for it
				gain := int64(late-usual) * us
				if len(c.computes[0]) == 1 {
					gain /= 2
				}
				if ratio := float64(f.StepNS) / float64(gain); ratio < 0.95 || ratio > 1.35 {
					t.Errorf("%s: the gain is %d ns", f.Title, gain)
				}
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("stragglers %v, want %v: %+v", got, c.want, a.Ranks)
			}
			if sum := claimedShare(a); sum > 1.001 {
				t.Errorf("the job claims %.2f of a step", sum)
			}
		})
	}
}
