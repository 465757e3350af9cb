// Command sass counts what the generated tensor products (workloads/op/tpgen)
// execute, in their machine code as nvdisasm prints it:
//
//	sass FOLDER [PRESET:LAYER=EDGE+BUILD ...]
//
// FOLDER has FAMILY.sass for every family, grad_FAMILY.sass where dw and dy are generated and
// gradx_FAMILY.sass where dx is, whose layers are called grad:PRESET:LAYER and gradx:PRESET:LAYER. An edge's instructions are those of
// the innermost loop of each part, once for every warp that has the part; M's
// are those of the loop around it that lie in no inner one, divided by the edges
// of a batch. What lies between the two is executed where a row or a batch ends,
// some of it only at one of them, and is counted by itself. A loop belongs to the part with as many fp32
// products and sums: a kernel with another number of them than its cells and
// weights take is an error, and of parts that agree in it the warps of the most
// count for the longest loop.
//
// PRESET:LAYER=EDGE+BUILD fails where that layer takes 10 % more in all.
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

// count is warp instructions an edge, and a row.
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
		}{{"", family}, {"grad:", gradients}, {"gradx:", features}} {
			found, err := kind.count(f, args[0])
			if err != nil {
				return fmt.Errorf("counting the instructions of %s%s: %w", kind.name, f.Name, err)
			}
			for i, c := range found {
				// A preset's layers may be in several families.
				name := fmt.Sprintf("%s%s:%d", kind.name, f.Layers[i].Preset, layers[f.Layers[i].Preset]+i+1)
				sums[name] = c
				fmt.Printf("sass: %-19s %5.0f + %3.0f instructions per edge, at most %5.0f per row\n", name, c.edge, c.build, c.row)
			}
		}
		for _, l := range f.Layers {
			layers[l.Preset]++
		}
	}
	return within(args[1:], sums)
}

// within compares the counts with what was asked for.
func within(limits []string, sums map[string]count) error {
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

// part is a part's loops as counted.
type part struct {
	math             int // fp32 products and sums of an edge
	edge, build, row int
}

// share is a part as the source has it: its fp32 products and sums of an edge, how many
// of them the compiler may find to be the same as others, and the edges of its batch.
type share struct{ math, same, batch int }

// family counts every layer of a family.
func family(f tpgen.Family, folder string) ([]count, error) {
	_, parts, err := tpgen.Source(f)
	if err != nil {
		return nil, err
	}
	shares := make([]share, len(parts))
	for i, p := range parts {
		shares[i] = share{p.Math(), 0, p.Batch}
	}
	return layersOf(f, filepath.Join(folder, f.Name+".sass"), shares, func(layer int) ([]int, error) {
		plan, err := tpgen.PlanOf(f, layer)
		if err != nil {
			return nil, err
		}
		var numbers []int
		for _, w := range plan.Warps {
			numbers = append(numbers, w.Number)
		}
		return numbers, nil
	})
}

// gradients counts every layer's dw and dy, if the family has them.
func gradients(f tpgen.Family, folder string) ([]count, error) {
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
	return layersOf(f, filepath.Join(folder, "grad_"+f.Name+".sass"), shares, func(layer int) ([]int, error) {
		plan, err := tpgen.GradPlanOf(f, layer)
		if err != nil {
			return nil, err
		}
		var numbers []int
		for _, w := range plan.Warps {
			numbers = append(numbers, w.Number)
		}
		return numbers, nil
	})
}

// features counts every layer's dx, if the family has it.
func features(f tpgen.Family, folder string) ([]count, error) {
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
	return layersOf(f, filepath.Join(folder, "gradx_"+f.Name+".sass"), shares, func(layer int) ([]int, error) {
		plan, err := tpgen.XPlanOf(f, layer)
		if err != nil {
			return nil, err
		}
		var numbers []int
		for _, w := range plan.Warps {
			numbers = append(numbers, w.Number)
		}
		return numbers, nil
	})
}

// layersOf counts every layer of a kernel: warpsOf are the parts of a layer's warps.
func layersOf(f tpgen.Family, path string, shares []share, warpsOf func(layer int) ([]int, error)) ([]count, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	c, err := read(file)
	if err != nil {
		return nil, err
	}
	found := c.parts()
	if len(found) != len(shares) {
		return nil, fmt.Errorf("%d loops over edges in the machine code, the source has %d parts", len(found), len(shares))
	}
	var all []count
	for layer := range f.Layers {
		numbers, err := warpsOf(layer)
		if err != nil {
			return nil, err
		}
		warps := make([]float64, len(shares))
		for _, n := range numbers {
			warps[n]++
		}
		one, err := total(shares, found, warps)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// total matches loops with parts and adds them up.
func total(parts []share, found []part, warps []float64) (count, error) {
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

// parts are the loops over edges with the loop over batches around each.
func (c code) parts() []part {
	loops := c.loops()
	var all []part
	for _, l := range loops {
		if slices.ContainsFunc(loops, func(o loop) bool { return o.inside(l) }) {
			continue
		}
		one := part{edge: len(l.body)}
		for _, i := range l.body {
			if name, _, _ := strings.Cut(c.ops[i], " "); name == "FFMA" || name == "FMUL" || name == "FADD" {
				one.math++
			}
		}
		if one.math == 0 { // a copy, or a wait
			continue
		}
		// The widest loop around it is the batches', the widest in that the rows'.
		var around []loop
		for _, o := range loops {
			if l.inside(o) {
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
