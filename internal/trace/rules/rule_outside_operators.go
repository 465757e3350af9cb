package rules

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// outsidePercent is the least share of the sampled time, %, that a line of code outside operators must take for a
	// finding.
	outsidePercent = 5
	// outsideSamples is the least number of samples at a line of code outside operators for a finding.
	outsideSamples = 5
	// outsidePlaces limits the number of findings that a rule makes, one for each line of code.
	outsidePlaces = 3
)

// causeAdvice holds the title of a finding (what, with a verb for the place) and the advised change for a kind of
// cause.
type causeAdvice struct{ what, change string }

func adviceForCause(kind string) causeAdvice {
	const beside = "in a thread beside the steps"
	switch kind {
	case analyze.CauseBlocked:
		return causeAdvice{"the program is blocked outside any operator at %s", "take the wait out of the step: leave it out, do it once before the loop, or wait " + beside}
	case analyze.CauseLock:
		return causeAdvice{"the program waits for Python's global interpreter lock, which other threads of it hold, at %s", "move what the other threads compute in Python into processes (multiprocessing)"}
	case analyze.CauseCompiler:
		return causeAdvice{"the program compiles at %s", "compile once before the loop: a function made in each step (jax.jit of a new lambda), other shapes and other static arguments compile again"}
	case analyze.CauseCheckpoint:
		return causeAdvice{"the step waits until a checkpoint is written at %s", "write it " + beside + " from a copy (torch.distributed.checkpoint.async_save), or less often"}
	case analyze.CauseLogging:
		return causeAdvice{"the step waits until its log is written at %s", "log every n-th step, or hand the records to a thread (logging.handlers.QueueHandler)"}
	}
	return causeAdvice{"the program computes outside any operator at %s", "compute it for whole arrays (torch, NumPy), once before the loop, or in workers of a data loader"}
}

// findOutsideOperators reports Python or other code outside any operator that takes a considerable part of the step.
func (c *ruleContext) findOutsideOperators() []analyze.Found {
	return c.findOutsideCauses(analyze.CauseCPU, analyze.CauseBlocked, analyze.CauseLock, analyze.CauseCompiler)
}

// findCheckpointWrite reports that the step waits while a checkpoint is written.
func (c *ruleContext) findCheckpointWrite() []analyze.Found {
	return c.findOutsideCauses(analyze.CauseCheckpoint)
}

func (c *ruleContext) findLogging() []analyze.Found { return c.findOutsideCauses(analyze.CauseLogging) }

// findOutsideCauses makes a finding for each line of the program that takes much host time outside operators, for the
// given kinds of causes. It applies only to recordings without a device. With a device, host time matters only if the
// device waits, and the rule host-bound claims these waits.
func (c *ruleContext) findOutsideCauses(kinds ...string) []analyze.Found {
	if c.host == nil || len(c.devices) > 0 {
		return nil
	}
	var out []analyze.Found
	waits, busy := c.getBlockedTime(), c.getBusyPart()
	for i := range c.host.Causes {
		cause := &c.host.Causes[i]
		if c.reading[cause.Where] {
			continue // the finding of findManyReads has this line already
		}
		if !slices.Contains(kinds, cause.Kind) || 100*cause.Share < outsidePercent || cause.Count < outsideSamples || len(out) == outsidePlaces {
			continue
		}
		if cause.Rare {
			out = append(out, c.describeRareCause(cause))
			continue
		}
		ns := cause.NS
		switch cause.Kind {
		case analyze.CauseBlocked:
			ns = min(ns, waits)
			waits -= ns
		case analyze.CauseCPU:
			ns = int64(busy * float64(ns))
		}
		if 100*ns < outsidePercent*c.host.Step() {
			continue
		}
		out = append(out, c.describeOutsideCause(cause, ns))
	}
	return out
}

// getBlockedTime returns the time, ns, in which the thread clocks show the host thread blocked outside operators in the
// mean step. It limits the claims of all blocked lines together. Without clocks it returns the largest integer.
func (c *ruleContext) getBlockedTime() int64 {
	if c.host.Part(analyze.HostOutside) > 0 {
		return math.MaxInt64
	}
	woken := int64(0) // waiting for a CPU after a blocking call counts as blocked time
	if c.host.RunDelayNS > 0 {
		after := float64(c.host.RunDelayNS-c.host.PreemptedNS) / float64(c.host.RunDelayNS)
		woken = int64(float64(c.host.Part(analyze.HostDelay)) * after)
	}
	return c.host.Part(analyze.HostBlocked) + c.host.Part(analyze.HostBlockedDelay) + woken
}

// getBusyPart returns the share of the sampled time at computing lines in which the thread had a CPU, at most 1. The
// rest of this time the thread waited for a CPU, which samples do not distinguish. Without clocks the share is 1.
func (c *ruleContext) getBusyPart() float64 {
	var sum int64
	for i := range c.host.Causes {
		if k := &c.host.Causes[i]; k.Kind == analyze.CauseCPU && !k.Rare {
			sum += k.NS
		}
	}
	if c.host.Part(analyze.HostOutside) > 0 || sum == 0 {
		return 1
	}
	return min(float64(c.host.Part(analyze.HostOnCPU))/float64(sum), 1)
}

// describeOutsideCause makes the finding about one place that takes ns of the mean step.
func (c *ruleContext) describeOutsideCause(cause *analyze.HostCause, ns int64) analyze.Found {
	cl := c.claimOutside(ns * c.steps)
	if cause.Anywhere {
		cl.spans = c.x.Steady.First(ns * c.steps)
		cl.ns = cl.spans.Total()
	}
	f := c.newOutsideFinding(cl, cause, "")
	if cause.Kind == analyze.CauseCPU {
		f.Caveats = append(f.Caveats, "work that moves to another thread or process takes as long there: the claim needs a free CPU")
	}
	return f
}

// describeRareCause makes the finding about a place that takes time in some steps only. RareNS of the finding is the
// time in the mean sampled step. The finding claims no time of the recorded steps.
func (c *ruleContext) describeRareCause(cause *analyze.HostCause) analyze.Found {
	f := c.newOutsideFinding(claim{device: -1}, cause, fmt.Sprintf(", in some steps only: %s (%.0f %%) of the mean of %s after the recorded ones",
		gpuprof.FormatNS(cause.SampledNS), 100*cause.Share, analyze.Plural(c.host.Sampled, "step", "steps")))
	f.RareNS, f.RareShare = cause.SampledNS, cause.Share
	return f
}

// newOutsideFinding makes the finding about one place with the claim cl. size is text about the place's time that ends
// the title, "" for none.
func (c *ruleContext) newOutsideFinding(cl claim, cause *analyze.HostCause, size string) analyze.Found {
	words := adviceForCause(cause.Kind)
	if c.isPlain() {
		words = adviceWithoutSteps(cause.Kind, words)
	}
	at := cause.Where
	if cause.Text != "" {
		at += " `" + cause.Text + "`"
	}
	what := fmt.Sprintf(words.what, at)
	if cause.Inner != "" {
		what += ", most of it in " + cause.Inner
	}
	f := c.newFinding(cl, what+size)
	f.Evidence["samples"] = cause.Count
	f.Evidence["sampled_share"] = cause.Share
	f.Evidence["outside_ns"] = c.host.Outside() * c.steps
	f.Sites = []gpuprof.Site{{Where: at, NS: f.ClaimNS}}
	f.PyTorch = words.change
	f.AnyProgram = c.isPlain()
	f.Caveats = append(f.Caveats, fmt.Sprintf("%s (%d of %d samples)", c.describeSampledTime(), cause.Count, c.host.Samples))
	return f
}

// isPlain reports whether a Python program without torch was sampled: the trace has samples but no operators or steps.
func (c *ruleContext) isPlain() bool { return c.x.Recording.Program == analyze.Python }

func adviceWithoutSteps(kind string, of causeAdvice) causeAdvice {
	of.what = strings.Replace(of.what, " outside any operator", "", 1)
	switch kind {
	case analyze.CauseCPU:
		of.change = "compute it for whole arrays (NumPy), once instead of again, or in several processes (multiprocessing)"
	case analyze.CauseBlocked:
		of.change = "leave the wait out, do it once, or let it overlap with other work (threads, asyncio.gather)"
	}
	return of
}

func (c *ruleContext) describeSampledTime() string {
	switch {
	case c.isPlain():
		return "sampled in the recording window"
	case c.host.Sampled == 0:
		return "sampled in a stretch of time after the recorded one"
	}
	return "sampled in " + analyze.Plural(c.host.Sampled, "step", "steps") + " after the recorded ones"
}

// claimOutside claims up to ns of the unclaimed host time outside events. Samples do not give positions in the trace,
// so it takes the earliest unclaimed time.
func (c *ruleContext) claimOutside(ns int64) claim {
	free := c.hostOutside
	got := free.First(min(ns, free.Total()))
	c.hostOutside = free.Minus(got)
	return claim{got.Total(), got, -1}
}

// findHostPlace returns the line of code with the most sampled time outside operators, if it has at least half of this
// time; "" otherwise.
func (c *ruleContext) findHostPlace() string {
	if c.host == nil || len(c.host.Causes) == 0 {
		return ""
	}
	cause := &c.host.Causes[0]
	var all, here float64
	count := 0
	for i := range c.host.Causes {
		k := &c.host.Causes[i]
		if all += k.Share; k.Where == cause.Where {
			here, count = here+k.Share, count+k.Count
		}
	}
	if count < outsideSamples || 2*here < all {
		return ""
	}
	if cause.Text == "" {
		return cause.Where
	}
	return cause.Where + " `" + cause.Text + "`"
}

// sumSamples returns the share of the sampled time, and the number of samples, in stacks that ok accepts.
func (c *ruleContext) sumSamples(ok func(st *model.HostStack, frames []model.HostFrame) bool) (share float64, count int) {
	s := c.t.Sampled
	var in, all float64
	for i := range s.Stacks {
		st := &s.Stacks[i]
		all += st.S
		frames := make([]model.HostFrame, 0, len(st.Frames))
		for _, k := range st.Frames {
			frames = append(frames, s.Frames[k])
		}
		if ok(st, frames) {
			in += st.S
			count += st.Count
		}
	}
	if all == 0 {
		return 0, 0
	}
	return in / all, count
}
