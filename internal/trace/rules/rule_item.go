package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// manyReads is the least number of reads of single values per step for a finding in a recording without a device.
const manyReads = 100

// convertsValue matches an expression that may read one value of a tensor.
var convertsValue = lazyregexp.New(`\b(float|int|bool)\(`)

// findItem reports item(), float(t), int(t) or bool(t) of a device tensor. The operator counts only if it contains a
// synchronization call or a copy to the host, because item() of a CPU tensor waits for nothing. The finding claims the
// device's idle time that would vanish without these waits (see starvedByBlocking).
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

// listReads returns the spans of all reads of single values in the steps that are not dropped.
func (c *ruleContext) listReads() (out []model.Span) {
	for i := range c.t.Host {
		if h := &c.t.Host[i]; c.nameHasMark(h.Name, markItem) && c.x.InSteady(h.Start) {
			out = append(out, model.Span{Start: h.Start, End: h.End})
		}
	}
	return out
}

// findManyReads reports many reads of single values in a recording without a device. A read then waits for nothing, but
// each costs a call of Python and of an operator. The time comes from stack samples, because profiling lengthens short
// operators most.
func (c *ruleContext) findManyReads() []analyze.Found {
	if c.host == nil || len(c.devices) > 0 {
		return nil
	}
	spans := c.listReads()
	reads := int64(len(spans)) / c.steps
	if reads < manyReads {
		return nil
	}
	lines := c.findReadingLines()
	if 100*lines.share < outsidePercent || lines.count < outsideSamples {
		return nil
	}
	c.reading = lines.lines
	free := model.UnionOf(spans).Or(c.hostOutside).Minus(c.claimedHost)
	got := free.First(min(int64(lines.share*float64(c.host.Step()))*c.steps, free.Total()))
	c.hostOutside = c.hostOutside.Minus(got)
	at := lines.at + " `" + lines.text + "`"
	f := c.newFinding(claim{got.Total(), got, -1}, fmt.Sprintf("the program reads %d values per step one at a time, at %s", reads, at))
	f.Evidence["reads"], f.Evidence["reads_step"] = len(spans), float64(len(spans))/float64(c.steps)
	f.Evidence["samples"], f.Evidence["sampled_share"] = lines.count, lines.share
	f.Sites = []gpuprof.Site{{Where: at, NS: f.ClaimNS}}
	f.PyTorch = "read all values at once (x.tolist()), or compute with whole tensors (sum, where)"
	f.Caveats = append(f.Caveats, fmt.Sprintf("%s (%d of %d samples at this loop)", c.describeSampledTime(), lines.count, c.host.Samples))
	return []analyze.Found{f}
}

// readingLines are the lines of one function that read single values of tensors or iterate over tensors.
type readingLines struct {
	at, text string          // one of the lines, and its expression
	lines    map[string]bool // the lines, by FrameName
	share    float64         // share of the sampled time at these lines
	count    int             // number of samples at these lines
}

// findReadingLines returns the lines that read single values in one function: the function with the most sampled time
// at item() or in iterations over a tensor. Lines of this function with float(), int() or bool() count as well. Without
// samples at item() or in iterations the result has no lines.
func (c *ruleContext) findReadingLines() (out readingLines) {
	by, at, texts := map[string]float64{}, map[string]map[string]bool{}, map[string]string{}
	c.sumSamples(func(st *model.HostStack, frames []model.HostFrame) bool {
		line, text, iterates := findUserLine(frames)
		item := strings.Contains(text, ".item()")
		if line == nil || !item && !iterates && !convertsValue.MatchString(text) {
			return false
		}
		f, name := line.File+" "+line.Function, analyze.FrameName(*line)
		if at[f] == nil {
			at[f] = map[string]bool{}
		}
		at[f][name] = true
		if item || iterates {
			by[f] += st.S
		}
		if item || texts[name] == "" {
			texts[name] = text
		}
		return false
	})
	most := 0.0
	for _, f := range slices.Sorted(maps.Keys(by)) {
		if by[f] > most {
			most, out.lines = by[f], at[f]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(out.lines)) {
		if out.at == "" || strings.Contains(texts[name], ".item()") {
			out.at, out.text = name, texts[name]
		}
	}
	out.share, out.count = c.sumSamples(func(_ *model.HostStack, frames []model.HostFrame) bool {
		line, _, _ := findUserLine(frames)
		return line != nil && out.lines[analyze.FrameName(*line)]
	})
	return out
}

// findUserLine returns the innermost line of the user's code outside comprehensions, nil without one. text is the
// innermost expression of the user's code; iterates reports whether the line iterates over a tensor.
func findUserLine(frames []model.HostFrame) (line *model.HostFrame, text string, iterates bool) {
	for i := len(frames) - 1; i >= 0; i-- {
		f := &frames[i]
		if f.Library {
			iterates = iterates || f.File == "torch/_tensor.py" && strings.HasSuffix(f.Function, "__iter__")
			continue
		}
		text = cmp.Or(text, f.Text)
		if !strings.HasSuffix(f.Function, "comp>") && !strings.HasSuffix(f.Function, "<genexpr>") {
			return f, text, iterates
		}
	}
	return nil, text, iterates
}
