package collate

import (
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/structure"
)

const (
	// gridSize is the number of probes along each cell vector: 512,000 points in all.
	gridSize = 80
	// A built-in data set has about drawnProbes probes and at most maxItems samples, so that counting its edges at
	// set-up takes less than a tenth of a second.
	drawnProbes = 1 << 17
	maxItems    = 2048
	// keptStructures bounds the structures of a folder that each worker caches with impl=cached, each of up to 9 MB.
	keptStructures = 32
)

// recipe holds all inputs that determine every batch. Worker processes receive it unchanged.
type recipe struct {
	Files  []string // one sample per file; none: HfO2
	Items  int      // number of different samples
	Batch  int      `knob:"batch"`
	Probes int      `knob:"probes"`
	Spread int      `knob:"spread"` // percent
	Cutoff float64  `knob:"cutoff"`
	Padded bool     `knob:"padded"`
	Impl   string   `knob:"impl"`
	Reuse  bool     `knob:"reuse"`
	Short  bool     `knob:"shortcut"`
	Seed   uint64
	Room   int // largest batch that fits memory, in words; 0: unknown
}

func newRecipe(c workloads.Config, structures string) (*recipe, int, error) {
	r := workloads.Read[recipe](c.Knobs)
	r.Seed = c.Seed
	ignored := 0
	if structures != hafnia {
		var err error
		if r.Files, ignored, err = structureFiles(structures); err != nil {
			return nil, 0, err
		}
		r.Items = len(r.Files)
	} else {
		r.Items = max(r.Batch, min(maxItems, drawnProbes/r.Probes), 1)
	}
	if c.Mode == gpuprof.Hot { // the same batch in every step
		r.Items = min(r.Items, r.Batch)
	}
	return &r, ignored, nil
}

// structureFiles lists the structure files of a folder and its subfolders in lexical order, and counts other files.
// Links to files are followed, and the folder itself may be a link; links to subfolders are not followed. Pipes and
// devices do not count as files: reading them might never end.
func structureFiles(dir string) (files []string, ignored int, err error) {
	folder := outside.Dir(dir)
	err = fs.WalkDir(folder, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path := folder.Path(name)
		switch {
		case e.IsDir():
		case isStructure(e.Name()) && isFile(path, e):
			files = append(files, path)
		default:
			ignored++
		}
		return nil
	})
	if err != nil {
		return nil, 0, gpuprof.Errorf(gpuprof.ErrInput, "listing structures in %s: %w", dir, err).WithFix("make the folder readable")
	}
	if len(files) == 0 {
		return nil, 0, gpuprof.Errorf(gpuprof.ErrInput, "listing structures in %s: none of its %d files is named .xyz, .extxyz, .vasp, .poscar, POSCAR… or CONTCAR…", dir, ignored).WithFix("name the structure files so")
	}
	return files, ignored, nil
}

// isFile reports whether an entry is a file or a link to a file. A dangling link counts, so that a later error names
// it.
func isFile(path string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.Type().IsRegular()
	}
	target, err := os.Stat(path)
	return err != nil || target.Mode().IsRegular()
}

func isStructure(name string) bool {
	name = strings.ToLower(name)
	switch filepath.Ext(name) {
	case ".xyz", ".extxyz", ".vasp", ".poscar":
		return true
	}
	return strings.HasPrefix(name, "poscar") || strings.HasPrefix(name, "contcar")
}

// itemAt returns the number of the sample at a place of a batch.
func (r *recipe) itemAt(batch, place int) int {
	return int((int64(batch)*int64(r.Batch) + int64(place)) % int64(r.Items))
}

// wordLimit returns the largest number of words in a batch.
func (r *recipe) wordLimit() int {
	if r.Room == 0 {
		return math.MaxInt
	}
	return r.Room
}

func (r *recipe) nameOf(item int) string {
	if len(r.Files) > 0 {
		return r.Files[item]
	}
	return "HfO2"
}

type source struct {
	crystal *structure.Crystal
	finder  *structure.Finder
	grid    *structure.Grid
	graph   *atomGraph // nil before its first use
}

// atomGraph holds the arrays that depend on the structure alone: species [A], positions [A,3] in angstrom, and the
// edges between atoms. edges has src [E] and vec [E,3]; dst is [E].
type atomGraph struct {
	species []int32
	pos     []float32
	edges   structure.Edges
	dst     []int32
}

// openSource prepares one structure. A file's structure serves only one sample before the next one replaces it, so it
// gets a cheaper neighbour search than the built-in crystal.
func openSource(c *structure.Crystal, r *recipe) (*source, error) {
	var finder *structure.Finder
	var err error
	if len(r.Files) == 0 {
		finder, err = structure.NewFinder(c, r.Cutoff)
	} else {
		_, probes := r.probeRange()
		finder, err = structure.NewFinderFor(c, r.Cutoff, len(c.Positions)+probes)
	}
	if err != nil {
		return nil, err
	}
	return &source{crystal: c, finder: finder, grid: c.Grid([3]int{gridSize, gridSize, gridSize})}, nil
}

// fillFrom makes g the graph of a structure, in g's memory. It returns an error if the graph takes more than room
// four-byte words.
func (g *atomGraph) fillFrom(s *source, room int) error {
	g.species, g.pos, g.dst = g.species[:0], g.pos[:0], g.dst[:0]
	g.edges.Reset()
	for i, p := range s.crystal.Positions {
		g.species = append(g.species, speciesCode(s.crystal.Species[i]))
		g.pos = append(g.pos, float32(p[0]), float32(p[1]), float32(p[2]))
		s.finder.Append(&g.edges, p, true)
		g.dst = extend(g.dst, len(g.edges.Src), int32(i))
		if edgeWords*len(g.dst) > room {
			return errTooLarge(room)
		}
	}
	return nil
}

// edgeWords is the number of words of an edge in a batch: source, destination and vector.
const edgeWords = 5

func errTooLarge(room int) error {
	return gpuprof.Errorf(nil, "its neighbours take more than the %s that memory leaves for this batch", gpuprof.FormatBytes(4*float64(room))).WithFix("use a smaller --set cutoff, probes or batch, or fewer workers")
}

func extend(list []int32, n int, v int32) []int32 {
	for len(list) < n {
		list = append(list, v)
	}
	return list
}

// speciesCode packs a symbol's first four bytes, the first one lowest: a number for any label without a table.
func speciesCode(symbol string) int32 {
	var code int32
	for i := range min(len(symbol), 4) {
		code |= int32(symbol[i]) << (8 * i)
	}
	return code
}

// drawer chooses the probes of a sample from the seed and the sample's number alone.
type drawer struct {
	pcg rand.PCG
	rng *rand.Rand
}

func newDrawer() *drawer {
	d := &drawer{}
	d.rng = rand.New(&d.pcg)
	return d
}

// start returns the number of probes of an item. Each following call of probe returns the next grid point.
func (d *drawer) start(r *recipe, item int) int {
	d.pcg.Seed(r.Seed, uint64(item)+1)
	lo, hi := r.probeRange()
	return lo + d.rng.IntN(hi-lo+1)
}

func (d *drawer) probe(g *structure.Grid) [3]float64 { return g.Point(d.rng.IntN(g.Len())) }

func (r *recipe) probeRange() (lo, hi int) {
	d := r.Probes * r.Spread / 100
	return max(1, r.Probes-d), r.Probes + d
}
