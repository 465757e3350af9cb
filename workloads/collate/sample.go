package collate

import (
	"fmt"

	"github.com/gpuprof/gpuprof/workloads/structure"
)

// sample is one drawn graph, with indices relative to the sample.
type sample struct {
	graph  *atomGraph // the source's graph, or own
	own    atomGraph
	probes []float32 // [probes,3]
	reach  structure.Edges
	dst    []int32 // probe of each edge in reach
}

func (s *sample) unitSizes() sizes {
	return sizes{1, len(s.graph.species), len(s.graph.dst), len(s.probes) / 3, len(s.dst)}
}

// intField returns field f if it holds integers, else nil.
func (s *sample) intField(f int) []int32 {
	switch f {
	case fSpecies:
		return s.graph.species
	case fESrc:
		return s.graph.edges.Src
	case fEDst:
		return s.graph.dst
	case fPSrc:
		return s.reach.Src
	case fPDst:
		return s.dst
	}
	return nil
}

// floatField returns field f if it holds coordinates, else nil.
func (s *sample) floatField(f int) []float32 {
	switch f {
	case fPos:
		return s.graph.pos
	case fEVec:
		return s.graph.edges.Vec
	case fProbe:
		return s.probes
	case fPVec:
		return s.reach.Vec
	}
	return nil
}

type sampler struct {
	r      *recipe
	draws  *drawer
	hafnia *source // the built-in structure; nil with a folder
	kept   map[int]*source
}

func newSampler(r *recipe) (*sampler, error) {
	s := &sampler{r: r, draws: newDrawer(), kept: map[int]*source{}}
	if len(r.Files) > 0 {
		return s, nil
	}
	var err error
	s.hafnia, err = openSource(structure.HfO2(), r)
	return s, err
}

// source returns an item's structure. A structure in a folder is read from its file for every sample, unless
// impl=cached has kept it.
func (s *sampler) source(item int) (*source, error) {
	if s.hafnia != nil {
		return s.hafnia, nil
	}
	if src := s.kept[item]; src != nil {
		return src, nil
	}
	c, err := structure.ReadFound(s.r.Files[item])
	if err != nil {
		return nil, err
	}
	src, err := openSource(c, s.r)
	if err != nil {
		return nil, fmt.Errorf("reading structure %s: %w", s.r.Files[item], err)
	}
	if s.r.Impl == implCached && len(s.kept) < keptStructures {
		s.kept[item] = src
	}
	return src, nil
}

// drawItem draws an item into out. It returns an error if the item takes more than room four-byte words.
func (s *sampler) drawItem(item int, out *sample, room int) error {
	src, err := s.source(item)
	if err != nil {
		return err
	}
	switch {
	case s.r.Impl != implCached:
		out.graph = &out.own
		err = out.own.fillFrom(src, room)
	case src.graph == nil:
		g := &atomGraph{}
		if err = g.fillFrom(src, room); err == nil {
			src.graph, out.graph = g, g
		}
	default:
		out.graph = src.graph
	}
	if err != nil {
		return err
	}
	out.probes, out.dst = out.probes[:0], out.dst[:0]
	out.reach.Reset()
	for i := range s.draws.start(s.r, item) {
		p := s.draws.probe(src.grid)
		out.probes = append(out.probes, float32(p[0]), float32(p[1]), float32(p[2]))
		src.finder.Append(&out.reach, p, false)
		out.dst = extend(out.dst, len(out.reach.Src), int32(i))
		if edgeWords*len(out.dst) > room {
			return errTooLarge(room)
		}
	}
	return nil
}
