// Package tpgen generates CUDA kernels for tensor products: it cuts a product into parts and writes their source. Its
// command gen writes one .cu per Family of preset products into the folder of package op. Package op uses the generated
// kernel for these products, and its general kernel for others.
//
// A path couples a block of features of degree l1 with the harmonics of degree l2 to an output block of degree l3; it
// is an so3.Instruction. Its matrix M_ik = sum_j C_ijk Y_j holds the 3j symbols C times an edge's harmonics Y. A
// nonzero element (i, k) of M is a cell, and a term is one product of a cell's sum over j. Cells that are equal up to
// sign are computed once; the value that they share is a slot.
//
// A part is the work of one warp: all or some paths of one degree l1, for 32 lanes of Copies channels each. So x, the
// features, is read once per edge for all of these paths. For a batch of edges every lane first computes the slots of
// one edge and stores them in shared memory. This is straight-line code with literal coefficients and without the
// zeros. Then the warp adds edge after edge. The path's weight multiplies whichever has fewest values: the d1 = 2 l1 +
// 1 components of x, the d3 of the output, or the slots.
//
// Blocks of x with the same degree and multiplicity, which differ in parity, have the same paths and are merged: their
// channels follow each other in the lanes.
//
//go:generate go run ./gen
package tpgen

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/gpuprof/gpuprof/workloads/so3"
)

// Layer is a product of a preset. The fields after Preset are the arguments of so3.UVUProduct: features, allowed irreps
// of the output, largest degree of the harmonics.
type Layer struct {
	Preset     string
	In, Target string
	LMax       int
}

// Product returns the layer's tensor product.
func (l Layer) Product() (so3.TensorProduct, error) {
	in, err := so3.ParseIrreps(l.In)
	if err != nil {
		return so3.TensorProduct{}, err
	}
	target, err := so3.ParseIrreps(l.Target)
	return so3.UVUProduct(in, so3.HarmonicIrreps(l.LMax), target), err
}

// Family is a set of layers that one kernel serves, because they share parts.
type Family struct {
	Name string // file tensorproduct_gen_NAME.cu, kernel tp_csr_NAME
	// Room is the maximum number of a lane's registers for sums, x, weights and harmonics while it builds M. A family with
	// more code needs more registers for other values: with too much Room the assembler spills, which `make ptxas`
	// refuses.
	Room   int
	Layers []Layer
	// GradRoom is Room for the kernel of dw and dy, the gradients with respect to weights and harmonics: registers for dz
	// (the gradient with respect to the output), x, weights and sums. The kernel is tp_grad_NAME in
	// tensorproduct_gengrad_NAME.cu. 0 means that the family has none.
	GradRoom int
	// XRoom is Room for the kernel of dx, the gradient with respect to the features: tp_gradx_NAME in
	// tensorproduct_gengradx_NAME.cu. 0 means that the family has none. The reason is that its blocks of two parities are
	// merged or, in deepaw_natural, that the kernel needs at least 90 registers, with which the assembler spills.
	XRoom int
	// Hold keeps the loads of the next edge's x where the generator writes them, by a branch that is never taken; else the
	// assembler moves them later. It takes registers, so only families whose kernels wait for these loads set it.
	Hold bool
}

// Families returns the products of workload e3nn's presets; a test there compares the two.
func Families() []Family {
	const (
		natural = "100x0e+33x1o+20x2e+14x3o+11x4e"
		most    = "100x0e+33x1o+33x1e+20x2o+20x2e+14x3o+14x3e+11x4o+11x4e"
		nequip  = "32x0o+32x0e+32x1o+32x1e+32x2o+32x2e"
		small   = "8x0e+8x1o+8x2e"
	)
	return []Family{
		{"small", 88, []Layer{{"small", small, small, 2}}, 92, 92, false},
		{"mace_medium", 88, []Layer{{"mace-medium", "128x0e+128x1o", "128x0e+128x1o+128x2e", 3}}, 92, 92, false},
		{"mace_large", 88, []Layer{{"mace-large", "128x0e+128x1o+128x2e", "128x0e+128x1o+128x2e+128x3o", 3}}, 92, 92, false},
		{"nequip_lips", 88, []Layer{{"nequip-lips", nequip, nequip, 2}}, 92, 0, false},
		{"deepaw_natural", 68, []Layer{{"deepaw", natural, natural, 4}}, 72, 0, false},
		{"deepaw", 50, []Layer{{"deepaw", most, most, 4}, {"deepaw", "100x0o+" + most, "100x0o+" + most, 4}}, 72, 0, true},
	}
}

func (f Family) cutForward(tp so3.TensorProduct) (*Spec, error) {
	return cutProduct(tp, rules{room: f.Room, hold: f.Hold})
}

func cutLayers[S any](f Family, cutLayer func(so3.TensorProduct) (S, error)) ([]S, error) {
	var all []S
	for _, l := range f.Layers {
		tp, err := l.Product()
		if err != nil {
			return nil, err
		}
		spec, err := cutLayer(tp)
		if err != nil {
			return nil, err
		}
		all = append(all, spec)
	}
	return all, nil
}

// madeRoom is the Room of products generated at run time, near the largest family's, since `make ptxas` skips them.
const madeRoom = 60

// Make generates the kernel of a uvu product with weights and with harmonics of multiplicity 1; the irreps may be any.
// If no part can hold some path, the error gives the product's irreps.
func Make(tp so3.TensorProduct) (*Made[Plan], error) {
	if err := checkGenerable(tp); err != nil {
		return nil, err
	}
	spec, err := cutProduct(tp, rules{room: madeRoom})
	if err != nil {
		return nil, err
	}
	return makeKernel[*Part](forward, spec, planOf)
}

// checkGenerable returns the reason why no kernel can be generated for a product, or nil.
func checkGenerable(tp so3.TensorProduct) error {
	for i, ins := range tp.Instructions {
		if ins.Mode != so3.UVU || !ins.HasWeight || tp.In2[ins.In2].Mul != 1 {
			return fmt.Errorf("path %d of %v x %v -> %v is no uvu path with weights and one channel of harmonics", i, tp.In1, tp.In2, tp.Out)
		}
	}
	return nil
}

// coversPaths reports whether the parts include every path of the product.
func coversPaths[P coded](tp so3.TensorProduct, parts []P) bool {
	found := map[int]bool{}
	for _, p := range parts {
		for _, q := range p.pathList() {
			for _, ins := range q.instructions {
				found[ins] = true
			}
		}
	}
	for i := range tp.Instructions {
		if !found[i] {
			return false
		}
	}
	return true
}

// Key returns a hash of the product; products that need different kernels or tables have different keys.
func Key(tp so3.TensorProduct) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%v %v %v %v %q %q", tp.In1, tp.In2, tp.Out, tp.Instructions, tp.IrrepNorm, tp.PathNorm))
	return hex.EncodeToString(sum[:8])
}
