package op

import (
	"fmt"
	"math"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/op/tpgen"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

// generatedCase is a layer of a generated kernel.
type generatedCase struct {
	name, kernel string
	tp           so3.TensorProduct
}

func generatedCases(t testing.TB) []generatedCase {
	t.Helper()
	return casesOf(t, "tp_csr_", tpgen.Families()...)
}

// casesOf are the layers of families, whose kernels' names begin alike.
func casesOf(t testing.TB, prefix string, families ...tpgen.Family) []generatedCase {
	t.Helper()
	var all []generatedCase
	for _, f := range families {
		for i, l := range f.Layers {
			tp, err := l.Product()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, generatedCase{fmt.Sprintf("%s/%d", f.Name, i), prefix + f.Name, tp})
		}
	}
	return all
}

// product is the case's in ir_mul, with its weights where the kernel reads them.
func (c generatedCase) product(t testing.TB) TensorProduct {
	t.Helper()
	tp := TensorProduct{TP: c.tp, Impl: ImplCSR, Layout: IrMul, Scale: float32(1 / math.Sqrt(20)), Packed: true}
	if tp.KernelName() != c.kernel {
		t.Fatalf("%s is computed by %s, expected %s", c.name, tp.KernelName(), c.kernel)
	}
	return tp
}
