// Command sass counts the executed instructions of the generated tensor products (workloads/op/tpgen)
// in their machine code as nvdisasm prints it:
//
//	sass FOLDER [PRESET:LAYER=EDGE+BUILD ...]
//
// FOLDER has FAMILY.sass for every family, grad_FAMILY.sass for generated dw and dy, and gradx_FAMILY.sass for
// generated dx, whose layers are called grad:PRESET:LAYER and gradx:PRESET:LAYER. A kernel has several parts (a part is
// a warp's share of a product, see tpgen.Part). An edge's instructions are the innermost loop of each part, once for
// every warp that has the part. The instructions to build the matrix M (see count) are in the loop over batches,
// outside of its loop over rows; their number is divided by the edges of a batch. Instructions in the loop over rows,
// outside of the innermost loop, are counted separately. A loop belongs to the part with the same number of fp32
// products and sums. A loop with a number that matches no part is an error; among parts with equal numbers, the part
// with the most warps gets the longest loop.
//
// PRESET:LAYER=EDGE+BUILD fails if the layer takes 10 % more in total.
package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/op/tpgen"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sass:", err)
		os.Exit(1)
	}
}

// count holds numbers of warp instructions: per edge, per edge for building the matrix M (3j symbols times
// harmonics), and per row.
type count struct{ edge, build, row float64 }

func run(args []string) error {
	if len(args) == 0 {
		return gpuprof.Errorf(nil, "reading arguments: none given").WithFix("use sass FOLDER [PRESET:LAYER=EDGE+BUILD ...]")
	}
	sums, layers := map[string]count{}, map[string]int{}
	for _, f := range tpgen.Families() {
		for _, kind := range []struct {
			name  string
			count func(tpgen.Family, string) ([]count, error)
		}{{"", countFamily}, {"grad:", countGradients}, {"gradx:", countFeatures}} {
			found, err := kind.count(f, args[0])
			if err != nil {
				return fmt.Errorf("counting the instructions of %s%s: %w", kind.name, f.Name, err)
			}
			for i, c := range found {
				// Layers of a preset may be in several families.
				name := fmt.Sprintf("%s%s:%d", kind.name, f.Layers[i].Preset, layers[f.Layers[i].Preset]+i+1)
				sums[name] = c
				fmt.Printf("sass: %-19s %5.0f + %3.0f instructions per edge, at most %5.0f per row\n", name, c.edge, c.build, c.row)
			}
		}
		for _, l := range f.Layers {
			layers[l.Preset]++
		}
	}
	return checkLimits(args[1:], sums)
}

func checkLimits(limits []string, sums map[string]count) error {
	for _, text := range limits {
		name, numbers, _ := strings.Cut(text, "=")
		var want count
		if _, err := fmt.Sscanf(numbers, "%g+%g", &want.edge, &want.build); err != nil {
			return gpuprof.Errorf(nil, "reading the limit %q: %w", text, err).WithFix("use PRESET:LAYER=EDGE+BUILD")
		}
		got, ok := sums[name]
		if !ok {
			return gpuprof.Errorf(nil, "reading the limit %q: there is no layer %s", text, name).WithFix("use a preset of tpgen.Families and the number of its layer")
		}
		if got.edge+got.build > 1.1*(want.edge+want.build) {
			return gpuprof.Errorf(nil, "counting %s: %.0f + %.0f instructions per edge are more than 10 %% above %g + %g", name, got.edge, got.build, want.edge, want.build).
				WithFix("look for what the generator or the compiler added")
		}
	}
	return nil
}

// part holds the counts of the loops of one part, a warp's share of a product (see tpgen.Part).
type part struct {
	math             int // fp32 products and sums per edge
	edge, build, row int
}

// share describes a part (see part) in the source: its fp32 products and sums per edge, how many of these the
// compiler may merge with equal ones, and the edges per batch.
type share struct{ math, same, batch int }

func countFamily(f tpgen.Family, folder string) ([]count, error) {
	_, parts, err := tpgen.Source(f)
	if err != nil {
		return nil, err
	}
	shares := make([]share, len(parts))
	for i, p := range parts {
		shares[i] = share{p.Math(), 0, p.Batch}
	}
	return layersOf(f, filepath.Join(folder, f.Name+".sass"), shares, tpgen.PlanOf, func(p *tpgen.Plan, warps []float64) {
		for _, w := range p.Warps {
			warps[w.Number]++
		}
	})
}

// countGradients counts the instructions of each layer's dw and dy; none if the family has none.
func countGradients(f tpgen.Family, folder string) ([]count, error) {
	if f.GradRoom == 0 {
		return nil, nil
	}
	_, parts, err := tpgen.GradSource(f)
	if err != nil {
		return nil, err
	}
	shares := make([]share, len(parts))
	for i, p := range parts {
		shares[i] = share{p.Math(), p.Math() / 30, tpgen.GradBatch}
	}
	return layersOf(f, filepath.Join(folder, "grad_"+f.Name+".sass"), shares, tpgen.GradPlanOf, func(p *tpgen.GradPlan, warps []float64) {
		for _, w := range p.Warps {
			warps[w.Number]++
		}
	})
}

// countFeatures counts the instructions of each layer's dx; none if the family has none.
func countFeatures(f tpgen.Family, folder string) ([]count, error) {
	if f.XRoom == 0 {
		return nil, nil
	}
	_, parts, err := tpgen.XSource(f)
	if err != nil {
		return nil, err
	}
	shares := make([]share, len(parts))
	for i, p := range parts {
		shares[i] = share{p.Math(), 0, p.Batch}
	}
	return layersOf(f, filepath.Join(folder, "gradx_"+f.Name+".sass"), shares, tpgen.XPlanOf, func(p *tpgen.XPlan, warps []float64) {
		for _, w := range p.Warps {
			warps[w.Number]++
		}
	})
}

// layersOf counts the instructions of a kernel for each layer. countWarps adds the number of a plan's warps by part.
func layersOf[P any](f tpgen.Family, path string, shares []share, planOf func(tpgen.Family, int) (*P, error), countWarps func(p *P, warps []float64)) ([]count, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	c, err := read(file)
	if err != nil {
		return nil, err
	}
	found := c.findParts()
	if len(found) != len(shares) {
		return nil, fmt.Errorf("%d loops over edges in the machine code, the source has %d parts", len(found), len(shares))
	}
	var all []count
	for layer := range f.Layers {
		plan, err := planOf(f, layer)
		if err != nil {
			return nil, err
		}
		warps := make([]float64, len(shares))
		countWarps(plan, warps)
		one, err := matchParts(shares, found, warps)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// matchParts assigns loops to parts and adds up their counts.
func matchParts(parts []share, found []part, warps []float64) (count, error) {
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(parts[a].math, parts[b].math), cmp.Compare(warps[a], warps[b]))
	})
	loops := slices.Clone(found)
	slices.SortFunc(loops, func(a, b part) int { return cmp.Or(cmp.Compare(a.math, b.math), cmp.Compare(a.edge, b.edge)) })
	var sum count
	for i, l := range loops {
		p := parts[order[i]]
		if l.math > p.math || l.math < p.math-p.same {
			return sum, fmt.Errorf("a loop over edges with %d fp32 products and sums, expected one with %d", l.math, p.math)
		}
		sum.edge += warps[order[i]] * float64(l.edge)
		sum.row += warps[order[i]] * float64(l.row)
		sum.build += warps[order[i]] * float64(l.build) / float64(p.batch)
	}
	return sum, nil
}

// findParts returns the loops over edges, each with the surrounding loop over batches.
func (c code) findParts() []part {
	loops := c.findLoops()
	var all []part
	for _, l := range loops {
		if slices.ContainsFunc(loops, func(o loop) bool { return o.isInside(l) }) {
			continue
		}
		one := part{edge: len(l.body)}
		for _, i := range l.body {
			if name, _, _ := strings.Cut(c.ops[i], " "); name == "FFMA" || name == "FMUL" || name == "FADD" {
				one.math++
			}
		}
		if one.math == 0 { // a loop that copies or waits
			continue
		}
		// The widest surrounding loop iterates over batches, the widest one inside it over rows.
		var around []loop
		for _, o := range loops {
			if l.isInside(o) {
				around = append(around, o)
			}
		}
		if len(around) == 0 {
			continue
		}
		slices.SortFunc(around, func(a, b loop) int { return len(b.body) - len(a.body) })
		inner := l
		if len(around) > 1 {
			inner = around[1]
		}
		one.build, one.row = len(around[0].body)-len(inner.body), len(inner.body)-len(l.body)
		all = append(all, one)
	}
	return all
}
