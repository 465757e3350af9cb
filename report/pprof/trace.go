package pprof

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/report/internal/view"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// WriteTrace writes a gzip-compressed profile.proto of imported traces. Stacks follow the trace's nesting: Python
// frames if it has them, ranges, operators, the launching call, and the kernel. Device time and launches belong to the
// kernel. Host time belongs to the innermost event. tool is gpuprof's version.
func WriteTrace(w io.Writer, xs []*analyze.Index, tool string) error {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{
			{Type: "device_time", Unit: "nanoseconds"}, {Type: "host_time", Unit: "nanoseconds"}, {Type: "launches", Unit: "count"},
		},
		DefaultSampleType: "device_time",
		Comments:          []string{runfile.Marker + " " + view.Cut(tool, 40)},
	}
	b := &traceBuilder{p: p, functions: map[string]*profile.Function{}, locations: map[*profile.Function]*profile.Location{}}
	for _, x := range xs {
		b.add(x, len(xs) > 1)
		p.Comments = append(p.Comments, "trace "+view.Cut(x.T.Path, 200))
	}
	if !b.onDevice {
		p.DefaultSampleType = "host_time"
	}
	b.addSampled(xs)
	if err := p.CheckValid(); err != nil {
		return fmt.Errorf("building the profile: %w", err)
	}
	return p.Write(w)
}

type traceBuilder struct {
	p         *profile.Profile
	functions map[string]*profile.Function
	locations map[*profile.Function]*profile.Location
	onDevice  bool
}

// node is a stack: the caller's node and a name. Equal stacks share a node, so that the profile's size depends on the
// program and not on the length of the trace.
type node struct {
	parent int32 // -1: none
	name   model.NameID
	device int32 // for a kernel, the index of its device plus one; else 0
}

type stackValues struct{ device, host, launches int64 }

// A profile lists all frames of every stack. Frames deeper than deepFrames are folded into their enclosing frame. If a
// trace then still has more than mostFrames frames, those deeper than fewFrames are folded.
const (
	deepFrames = analyze.Deepest / 2
	mostFrames = 16 << 20
	fewFrames  = 64
)

// folded has the stacks of a trace with their figures.
type folded struct {
	nodes  []node
	sums   []stackValues
	depth  []int // by node
	ids    map[node]int32
	of     []int32 // node of each host event
	frames int     // of all stacks
}

func (f *folded) nodeID(n node) int32 {
	if k, ok := f.ids[n]; ok {
		return k
	}
	k, depth := int32(len(f.nodes)), 1
	if n.parent >= 0 {
		depth += f.depth[n.parent]
	}
	f.frames += depth
	f.ids[n], f.nodes, f.sums, f.depth = k, append(f.nodes, n), append(f.sums, stackValues{}), append(f.depth, depth)
	return k
}

// newFolded folds host events deeper than limit into their enclosing events.
func newFolded(x *analyze.Index, limit int) *folded {
	f := &folded{ids: map[node]int32{}, of: make([]int32, len(x.T.Host))}
	// Parents precede the events inside them. A single pass therefore resolves every stack.
	for i := range x.T.Host {
		h := &x.T.Host[i]
		up := int32(-1)
		if p := x.Parent(int32(i)); p >= 0 {
			up = f.of[p]
		}
		f.of[i] = up
		switch {
		case h.Kind == model.Step || h.Kind == model.Instant: // a frame per step would split every stack
			continue
		case up >= 0 && f.depth[up] >= limit:
			continue
		}
		k := f.nodeID(node{up, h.Name, 0})
		f.of[i] = k
		f.sums[k].host += h.Dur()
		if up >= 0 {
			f.sums[up].host -= h.Dur()
		}
	}
	return f
}

func (b *traceBuilder) add(x *analyze.Index, several bool) {
	f := newFolded(x, deepFrames)
	if f.frames > mostFrames {
		f = newFolded(x, fewFrames)
	}
	ids, of := f.nodeID, f.of
	for i := range x.T.GPU {
		g := &x.T.GPU[i]
		up := int32(-1)
		if g.Launch >= 0 {
			up = of[g.Launch]
		} else if op := x.EnclosingOp(int32(i)); op >= 0 {
			up = of[op]
		}
		k := ids(node{up, g.Name, int32(g.Device) + 1})
		f.sums[k].device += g.Dur()
		f.sums[k].launches++
		b.onDevice = true
	}
	var rank []string
	if several && x.T.Rank >= 0 {
		rank = []string{fmt.Sprint(x.T.Rank)}
	}
	for k := range f.nodes {
		b.addSample(x, f.nodes, int32(k), f.sums[k], rank)
	}
}

// addSampled adds the sampled stacks of the host threads as a further value: their time in the mean step. Samples come
// from later steps than the events, so that the values do not add up. Without samples there is no such value.
func (b *traceBuilder) addSampled(xs []*analyze.Index) {
	if !slices.ContainsFunc(xs, func(x *analyze.Index) bool { return len(sampledStacks(x)) > 0 }) {
		return
	}
	b.p.SampleType = append(b.p.SampleType, &profile.ValueType{Type: "sampled_time", Unit: "nanoseconds"})
	for _, s := range b.p.Sample {
		s.Value = append(s.Value, 0)
	}
	for _, x := range xs {
		for _, st := range sampledStacks(x) {
			s := &profile.Sample{Value: []int64{0, 0, 0, st.NS}, Label: map[string][]string{"doing": {string(st.Doing)}}}
			if len(xs) > 1 && x.T.Rank >= 0 {
				s.Label["rank"] = []string{fmt.Sprint(x.T.Rank)}
			}
			for _, f := range slices.Backward(st.Lines) {
				s.Location = append(s.Location, b.addFrame(fmt.Sprintf("%s(%d): %s", f.File, f.Line, f.Function)))
			}
			b.p.Sample = append(b.p.Sample, s)
		}
	}
	if !b.onDevice {
		b.p.DefaultSampleType = "sampled_time"
	}
}

// sampledStacks returns the sampled stacks of a trace; nil if it has no breakdown of the host thread's time.
func sampledStacks(x *analyze.Index) []analyze.HostTree {
	if a := x.HostAccount(); a != nil {
		return a.Stacks
	}
	return nil
}

// addSample adds a stack, innermost frame first. Host time below 0, from clocks that differ by ns, counts as 0.
func (b *traceBuilder) addSample(x *analyze.Index, nodes []node, k int32, v stackValues, rank []string) {
	v.host = max(v.host, 0)
	if v == (stackValues{}) {
		return
	}
	var stack []*profile.Location
	for at := k; at >= 0; at = nodes[at].parent {
		stack = append(stack, b.addFrame(x.T.Name(nodes[at].name)))
	}
	s := &profile.Sample{Location: stack, Value: []int64{v.device, v.host, v.launches}}
	if d := nodes[k].device; d > 0 {
		s.Label = map[string][]string{"device": {fmt.Sprint(x.T.Devices[d-1].ID)}}
	}
	if rank != nil {
		if s.Label == nil {
			s.Label = map[string][]string{}
		}
		s.Label["rank"] = rank
	}
	b.p.Sample = append(b.p.Sample, s)
}

// addFrame returns the location of a name. For a Python frame "file.py(12): f" it sets file and line.
func (b *traceBuilder) addFrame(name string) *profile.Location {
	name = view.Cut(name, 300)
	f := b.functions[name]
	if f == nil {
		f = &profile.Function{ID: uint64(len(b.p.Function) + 1), Name: name, SystemName: name}
		if open := strings.Index(name, ".py("); open > 0 {
			if file, rest, ok := strings.Cut(name, "("); ok {
				if line, fn, ok := strings.Cut(rest, "): "); ok {
					f.Filename, f.Name = file, fn
					_, _ = fmt.Sscan(line, &f.StartLine) // 0 if it is not a number
				}
			}
		}
		b.functions[name] = f
		b.p.Function = append(b.p.Function, f)
	}
	l := b.locations[f]
	if l == nil {
		l = &profile.Location{ID: uint64(len(b.p.Location) + 1), Line: []profile.Line{{Function: f, Line: f.StartLine}}}
		b.locations[f] = l
		b.p.Location = append(b.p.Location, l)
	}
	return l
}
