package rules

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// A place outside operators is a finding from this share of the sampled time on, in percent,
	outsidePercent = 5
	// and from this many samples on.
	outsideSamples = 5
	// A rule names so many places at most, each in a finding of its own.
	outsidePlaces = 3
)

// hostWords are the sentence and the change for a kind of cause.
type hostWords struct{ what, change string }

func wordsOfCause(kind string) hostWords {
	const beside = "in a thread beside the steps"
	switch kind {
	case analyze.CauseBlocked:
		return hostWords{"the program is blocked outside any operator at %s", "take the wait out of the step: leave it out, do it once before the loop, or wait " + beside}
	case analyze.CauseLock:
		return hostWords{"the program waits for Python's global interpreter lock, which other threads of it hold, at %s", "move what the other threads compute in Python into processes (multiprocessing)"}
	case analyze.CauseCheckpoint:
		return hostWords{"the step waits until a checkpoint is written at %s", "write it " + beside + " from a copy (torch.distributed.checkpoint.async_save), or less often"}
	case analyze.CauseLogging:
		return hostWords{"the step waits until its log is written at %s", "log every n-th step, or hand the records to a thread (logging.handlers.QueueHandler)"}
	}
	return hostWords{"the program computes outside any operator at %s", "compute it for whole arrays (torch, NumPy), once before the loop, or in workers of a data loader"}
}

// outsideOperators: Python or other code outside any operator takes a part of the step.
func (c *ruleContext) outsideOperators() []analyze.Found {
	return c.outsideOf(analyze.CauseCPU, analyze.CauseBlocked, analyze.CauseLock)
}

// checkpointWrite: the step waits while a checkpoint is written.
func (c *ruleContext) checkpointWrite() []analyze.Found {
	return c.outsideOf(analyze.CauseCheckpoint)
}

// logging: the step waits while the program writes its log.
func (c *ruleContext) logging() []analyze.Found { return c.outsideOf(analyze.CauseLogging) }

// outsideOf has a finding for each large place of some kinds. With a device the host's time costs
// what the device waits for, which host-bound claims and names.
func (c *ruleContext) outsideOf(kinds ...string) []analyze.Found {
	if c.host == nil || len(c.devices) > 0 {
		return nil
	}
	var out []analyze.Found
	waits := c.blockedLeft()
	for i := range c.host.Causes {
		cause := &c.host.Causes[i]
		if !slices.Contains(kinds, cause.Kind) || 100*cause.Share < outsidePercent || cause.Count < outsideSamples || len(out) == outsidePlaces {
			continue
		}
		ns := cause.NS
		if cause.Kind == analyze.CauseBlocked {
			ns = min(ns, waits)
			waits -= ns
		}
		if 100*ns < outsidePercent*c.host.Step() {
			continue
		}
		out = append(out, c.outsideAt(cause, ns))
	}
	return out
}

// blockedLeft is how long the thread was blocked outside operators in the mean step, by its clocks: what the samples
// of blocked lines may claim together. Without clocks nothing bounds them.
func (c *ruleContext) blockedLeft() int64 {
	if c.host.Part(analyze.HostOutside) > 0 {
		return math.MaxInt64
	}
	return c.host.Part(analyze.HostBlocked) + c.host.Part(analyze.HostBlockedDelay)
}

// outsideAt is the finding about one place that takes ns of the mean step.
func (c *ruleContext) outsideAt(cause *analyze.HostCause, ns int64) analyze.Found {
	words := wordsOfCause(cause.Kind)
	at := cause.Where
	if cause.Text != "" {
		at += " `" + cause.Text + "`"
	}
	what := fmt.Sprintf(words.what, at)
	if cause.Inner != "" {
		what += ", most of it in " + cause.Inner
	}
	f := c.finding(c.claimOutside(ns*c.steps), what)
	f.Evidence["samples"] = cause.Count
	f.Evidence["sampled_share"] = cause.Share
	f.Evidence["outside_ns"] = c.host.Outside() * c.steps
	f.Sites = []gpuprof.Site{{Where: at, NS: f.ClaimNS}}
	f.PyTorch = words.change
	f.Caveats = append(f.Caveats, fmt.Sprintf("sampled in %s after the recorded ones (%d of %d samples)", c.sampledSteps(), cause.Count, c.host.Samples))
	if cause.Kind == analyze.CauseCPU {
		f.Caveats = append(f.Caveats, "work that moves to another thread or process takes as long there: the claim needs a free CPU")
	}
	return f
}

func (c *ruleContext) sampledSteps() string {
	if c.host.Sampled == 0 {
		return "a stretch of time"
	}
	return analyze.Plural(c.host.Sampled, "step", "steps")
}

// claimOutside claims a time outside the events of the host thread that no finding has claimed, where it lies
// in the trace unknown.
func (c *ruleContext) claimOutside(ns int64) claim {
	free := c.hostOutside
	got := free.First(min(ns, free.Total()))
	c.hostOutside = free.Minus(got)
	return claim{got.Total(), got, -1}
}

// hostPlace is the place of the program with most of the time outside operators, "" unknown: the name for code
// that the trace has no event for.
func (c *ruleContext) hostPlace() string {
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

// sampledIn is the part of the samples whose stack satisfies ok, and their number.
func (c *ruleContext) sampledIn(ok func(st *model.HostStack, frames []model.HostFrame) bool) (share float64, count int) {
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
