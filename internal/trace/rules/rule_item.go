package rules

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// manyReads is the least number of reads of single values per step that make a finding without a device.
const manyReads = 100

// readsValue matches an expression that reads one value of a tensor.
var readsValue = regexp.MustCompile(`\.item\(\)|\b(float|int|bool)\(`)

// findItem: item(), float(t), int(t), bool(t) of a tensor on the device. The operator counts only if it encloses a
// synchronization call or a copy to the host on its own thread: item() of a CPU tensor waits for nothing. It claims
// the starved time that the wait causes (see starvedByBlocking).
func (c *ruleContext) findItem() []analyze.Found {
	own := func(s *stall) bool { return s.by == ownedByItem }
	owners := c.listOwners(ownedByItem)
	reads := len(owners)
	if reads == 0 {
		return c.findManyReads()
	}
	sites := c.newSites("read")
	for _, op := range owners {
		sites.addHost(op, c.t.Host[op].Dur())
	}
	all := len(c.listReads())
	_, host, when := c.sumHostTime(own)
	cl := c.claimHost(c.starvedBecauseOf(own))
	f := c.newFinding(cl, fmt.Sprintf("%s of single values from the device (.item() and the like) make the program wait %s", analyze.Plural(reads, "read", "reads"), c.formatPerStep(when)))
	f.Evidence["reads"] = reads
	f.Evidence["reads_step"] = float64(reads) / float64(c.steps)
	f.Evidence["reads_without_wait"] = max(0, all-reads)
	f.Evidence["host_ns"] = host
	f.Sites = sites.topSites()
	f.PyTorch = "gather the values in one tensor and read it once (torch.stack(values).tolist()), and keep conditions on the device (torch.where)"
	if c.isTraining() {
		f.PyTorch = "gather what you log in one tensor and read it every N steps (losses.append(loss.detach()); torch.stack(losses).tolist()), and keep conditions on the device (torch.where)"
	}
	f.Caveats = append(f.Caveats, waitCaveat)
	return []analyze.Found{f}
}

// listReads returns the spans of all reads of single values in the steady steps.
func (c *ruleContext) listReads() (out []model.Span) {
	for i := range c.t.Host {
		if h := &c.t.Host[i]; c.nameHasMark(h.Name, markItem) && c.x.InSteady(h.Start) {
			out = append(out, model.Span{Start: h.Start, End: h.End})
		}
	}
	return out
}

// findManyReads: without a device a read waits for nothing, but each costs a call of Python and of an operator. The
// samples give the time of the line, since profiling lengthens such short operators most.
func (c *ruleContext) findManyReads() []analyze.Found {
	if c.host == nil || len(c.devices) > 0 {
		return nil
	}
	spans := c.listReads()
	reads := int64(len(spans)) / c.steps
	line, text, share, count := c.findReadingLine()
	if reads < manyReads || 100*share < outsidePercent || count < outsideSamples {
		return nil
	}
	c.readsAt = line
	free := model.UnionOf(spans).Or(c.hostOutside).Minus(c.claimedHost)
	got := free.First(min(int64(share*float64(c.host.Step()))*c.steps, free.Total()))
	c.hostOutside = c.hostOutside.Minus(got)
	at := line + " `" + text + "`"
	f := c.newFinding(claim{got.Total(), got, -1}, fmt.Sprintf("the program reads %d values per step one at a time, at %s", reads, at))
	f.Evidence["reads"], f.Evidence["reads_step"] = len(spans), float64(len(spans))/float64(c.steps)
	f.Evidence["samples"], f.Evidence["sampled_share"] = count, share
	f.Sites = []gpuprof.Site{{Where: at, NS: f.ClaimNS}}
	f.PyTorch = "read all values at once (x.tolist()), or compute with whole tensors (sum, where)"
	f.Caveats = append(f.Caveats, fmt.Sprintf("%s (%d of %d samples at this line)", c.describeSampledTime(), count, c.host.Samples))
	return []analyze.Found{f}
}

// findReadingLine returns the line of the user's code that reads single values in most samples, its expression, its share
// of the sampled time and the number of its samples; "" without one.
func (c *ruleContext) findReadingLine() (line, text string, share float64, count int) {
	by, texts := map[string]float64{}, map[string]string{}
	readingLine := func(frames []model.HostFrame) (string, string) {
		reads := ""
		for i := len(frames) - 1; i >= 0; i-- {
			f := &frames[i]
			if f.Library {
				continue
			}
			if reads == "" {
				if reads = f.Text; !readsValue.MatchString(reads) {
					return "", ""
				}
			}
			if !strings.HasSuffix(f.Function, "comp>") && !strings.HasSuffix(f.Function, "<genexpr>") {
				return analyze.FrameName(*f), reads
			}
		}
		return "", ""
	}
	c.sumSamples(func(st *model.HostStack, frames []model.HostFrame) bool {
		if where, reads := readingLine(frames); where != "" {
			by[where] += st.S
			texts[where] = reads
		}
		return false
	})
	for where, s := range by {
		if s > by[line] || s == by[line] && where < line {
			line = where
		}
	}
	share, count = c.sumSamples(func(_ *model.HostStack, frames []model.HostFrame) bool {
		where, _ := readingLine(frames)
		return where != "" && where == line
	})
	return line, texts[line], share, count
}
