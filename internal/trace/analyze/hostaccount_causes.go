package analyze

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// The kinds of causes outside operators.
const (
	CauseCPU        = "on CPU"
	CauseBlocked    = "blocked"
	CauseLock       = "waiting for the GIL"
	CauseCheckpoint = "checkpoint"
	CauseLogging    = "logging"
	CauseWorkers    = "start of workers"
	CauseCompiler   = "compilation"
	causeFramework  = "PyTorch's own Python"
	causeOthers     = "waiting for other threads or processes of the program"
)

// HostCause is a place of the program that takes time outside operators.
type HostCause struct {
	Kind  string  `json:"kind"`
	Where string  `json:"where"`           // "train.py:41 in step", a line of the user's code
	Text  string  `json:"text,omitempty"`  // source text of the line
	Inner string  `json:"inner,omitempty"` // frame below the line with most of the time
	NS    int64   `json:"ns"`              // in a step without profiling (HostAccount.Step)
	Share float64 `json:"share"`           // of all sampled time
	Count int     `json:"samples"`
	// SampledNS is the time in the mean sampled step (0 without steps). It exceeds ns if recorded steps had less of the
	// cause.
	SampledNS int64 `json:"sampled_ns,omitempty"`
	// Rare marks a cause that occurs in some steps only: it makes the mean sampled step longer than the usual step.
	Rare bool `json:"rare,omitempty"`
	// Anywhere marks a cause that also takes time within operators.
	Anywhere bool `json:"anywhere,omitempty"`
}

// leastOutsideShare: a line is reported as one cause, instead of the lines that it calls, if at least this share of its
// time is outside operators.
const leastOutsideShare = 0.8

// callNode is a line of user code in the tree of calls inside a step, with the time of the line and of its callees. The
// tree starts below the lines that contain the whole step (sampleClasses.stepRoots).
type callNode struct {
	frame          model.HostFrame
	kids           []*callNode
	total, outside float64             // all time and time outside operators, s, including called lines
	kinds          map[string]*causeAt // time outside operators by kind of cause, including called lines
	selfKinds      map[string]*causeAt // time outside operators by kind of cause, without called lines of user code
}

func newCallNode(f model.HostFrame) *callNode {
	return &callNode{frame: f, kinds: map[string]*causeAt{}, selfKinds: map[string]*causeAt{}}
}

// causeAt is the time of one kind of cause outside operators at one line. A line that computes and then waits has two.
type causeAt struct {
	kind    string
	frame   model.HostFrame
	outside float64                     // time outside operators, s
	count   int                         // number of samples
	inner   map[model.HostFrame]float64 // outside by the innermost frame of the stack, s
	calls   bool                        // the line calls functions of the user's code
}

func addCause(kinds map[string]*causeAt, at causeAt, leaf model.HostFrame) {
	c := kinds[at.kind]
	if c == nil {
		c = &causeAt{kind: at.kind, frame: at.frame, inner: map[model.HostFrame]float64{}}
		kinds[at.kind] = c
	}
	c.outside, c.count = c.outside+at.outside, c.count+at.count
	c.inner[leaf] += at.outside
}

func (n *callNode) findChild(f model.HostFrame) *callNode {
	for _, k := range n.kids {
		if frameKey(k.frame) == frameKey(f) {
			return k
		}
	}
	k := newCallNode(f)
	n.kids = append(n.kids, k)
	return k
}

// frameKey reduces a frame to its line: frames on the same line have equal keys.
func frameKey(f model.HostFrame) model.HostFrame {
	return model.HostFrame{File: f.File, Function: f.Function, Line: f.Line}
}

func (o *sampleClasses) buildCallTree() *callNode {
	root := newCallNode(model.HostFrame{})
	for i := range o.s.Stacks {
		st := &o.s.Stacks[i]
		lines := o.userLines(st)
		if len(lines) == 0 {
			continue
		}
		n := root
		leaf := o.s.Frames[st.Frames[len(st.Frames)-1]]
		for k, f := range lines {
			n = n.findChild(f)
			n.total += st.S
			if o.kinds[i] == causeFramework {
				continue
			}
			if o.outside[i] <= 0 {
				continue
			}
			n.outside += o.outside[i]
			at := causeAt{kind: o.kinds[i], frame: f, outside: o.outside[i], count: st.Count}
			addCause(n.kinds, at, leaf)
			if k == len(lines)-1 {
				addCause(n.selfKinds, at, leaf)
			}
		}
	}
	return root
}

// userLines returns the lines of user code in a stack, outermost first. It leaves out the outer lines that run whole
// steps (HostSamples.Borders). If all lines do, it returns the innermost line.
func (o *sampleClasses) userLines(st *model.HostStack) []model.HostFrame {
	var lines []model.HostFrame
	for _, i := range st.Frames {
		if f := o.s.Frames[i]; !f.Library && !strings.HasSuffix(f.Function, "comp>") && !strings.HasSuffix(f.Function, "<genexpr>") {
			lines = append(lines, f)
		}
	}
	if len(lines) == 0 { // an installed program consists of library frames only
		for _, i := range st.Frames {
			if f := o.s.Frames[i]; !strings.HasPrefix(f.File, "torch/") && !strings.HasPrefix(f.File, "<") {
				lines = append(lines, f)
			}
		}
	}
	for k, f := range lines {
		if !o.stepRoots[frameKey(f)] {
			return lines[k:]
		}
	}
	return lines[max(len(lines)-1, 0):]
}

// listCauses lists the causes of time outside operators, the longest first. If nearly all time of a line is outside
// operators, the line is a cause with all its callees, else the lines that it calls are. Each kind of wait or work in a
// line is a separate cause, because it needs another change. Neighbouring lines of one kind are merged, unless they
// call functions of the user's code.
func (o *sampleClasses) listCauses(a *HostAccount) []HostCause {
	var found []*causeAt
	var collect func(n *callNode)
	collect = func(n *callNode) {
		if n.outside <= 0 {
			return
		}
		if n.outside >= leastOutsideShare*n.total || len(n.kids) == 0 {
			for _, c := range n.kinds {
				c.calls = len(n.kids) > 0
			}
			found = slices.AppendSeq(found, maps.Values(n.kinds))
			return
		}
		found = slices.AppendSeq(found, maps.Values(n.selfKinds))
		for _, k := range n.kids {
			collect(k)
		}
	}
	for _, k := range o.buildCallTree().kids {
		collect(k)
	}
	var out []HostCause
	scale := o.outsideScale(a)
	for _, c := range mergeNeighbours(found) {
		out = append(out, c.toHostCause(a, o.total, scale))
	}
	slices.SortStableFunc(out, func(p, q HostCause) int {
		return cmp.Or(cmp.Compare(q.NS, p.NS), cmp.Compare(p.Where, q.Where), cmp.Compare(p.Kind, q.Kind))
	})
	return out[:min(len(out), mostCauses)]
}

const mostCauses = 20

// mergeNeighbours merges the causes of consecutive lines that have the same function and kind and call none of the
// user's functions. The line with the most time names the merged cause.
func mergeNeighbours(found []*causeAt) []*causeAt {
	slices.SortStableFunc(found, func(a, b *causeAt) int {
		f, g := &a.frame, &b.frame
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(f.File, g.File), cmp.Compare(f.Function, g.Function), cmp.Compare(f.Line, g.Line))
	})
	var out []*causeAt
	last, most := 0, 0.0 // the last line of the last element of out, and the time of the line that names the element
	for _, n := range found {
		if k := len(out) - 1; k >= 0 && out[k].isNextTo(n, last) {
			m := out[k]
			switch {
			case n.frame.Line == last:
				for f, s := range n.inner {
					m.inner[f] += s
				}
			case n.outside > most:
				m.frame, m.inner, most = n.frame, n.inner, n.outside
			}
			m.outside, m.count, m.calls = m.outside+n.outside, m.count+n.count, m.calls || n.calls
		} else {
			out, most = append(out, n), n.outside
		}
		last = n.frame.Line
	}
	return out
}

// isNextTo reports whether cause n can be merged into cause m, whose last line has the number last.
func (m *causeAt) isNextTo(n *causeAt, last int) bool {
	if m.kind != n.kind || m.frame.File != n.frame.File || m.frame.Function != n.frame.Function {
		return false
	}
	return n.frame.Line == last || n.frame.Line == last+1 && !m.calls && !n.calls
}

// mostScale limits outsideScale: a larger factor means that the trace lacks operators.
const mostScale = 2

// outsideScale returns the factor, from 1 to mostScale, by which stack samples underestimate the time outside
// operators, compared with the clocks and the trace. Samples underestimate the time because the sampler needs the GIL,
// which Python code releases only after the switch interval.
func (o *sampleClasses) outsideScale(a *HostAccount) float64 {
	sum := 0.0
	for _, s := range o.outside {
		sum += s
	}
	if sum <= 0 || o.total <= 0 || a.Steps == 0 {
		return 1
	}
	return min(max(float64(a.Outside())/float64(a.Step())/(sum/o.total), 1), mostScale)
}

// rareFactor: a cause may be rare if its time in the mean sampled step is more than rareFactor times its time in a
// usual step.
const rareFactor = 2

func (m *causeAt) toHostCause(a *HostAccount, total, scale float64) HostCause {
	c := HostCause{Kind: m.kind, Where: FrameName(m.frame), Text: m.frame.Text, Share: m.outside / total, Count: m.count}
	c.NS = int64(min(c.Share*scale, 1) * float64(a.Step()))
	c.SampledNS = int64(c.Share * float64(a.sampledNS))
	c.Rare = c.SampledNS > rareFactor*c.NS && 2*(a.sampledNS-a.Step()) > c.SampledNS
	var best model.HostFrame
	most := -1.0
	for f, s := range m.inner {
		if s > most || s == most && FrameName(f) < FrameName(best) {
			best, most = f, s
		}
	}
	if frameKey(best) != frameKey(m.frame) {
		c.Inner = FrameName(best)
		if best.Text != "" {
			c.Inner += " `" + best.Text + "`"
		}
	}
	return c
}

// FrameName formats a frame for sentences.
func FrameName(f model.HostFrame) string {
	file := f.File
	if !f.Library {
		file = path.Base(strings.ReplaceAll(file, `\`, "/"))
	}
	name := f.Function
	if name == "<module>" || name == "" {
		return fmt.Sprintf("%s:%d", file, f.Line)
	}
	return fmt.Sprintf("%s:%d in %s", file, f.Line, name[strings.LastIndexByte(name, '.')+1:])
}
