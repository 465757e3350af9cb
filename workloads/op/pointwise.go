package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed pointwise.ptx.zst
var pointwisePTX string

// Kernels on single values, one item each: actApply computes out = c*phi(x), actGrad its backward pass d *= c*phi'(x),
// add the sum out += x. flipKernel transposes matrices. Its item is one row of the source, which a table describes by
// four integers: start of the row, offset of its first value in the result, number of values, distance between the
// values in the result.
var (
	actApplyKernel = device.Typed[actApplyArgs](device.Kernel{Name: "act_apply", Host: actApplyHost, Grain: 1 << 12, PTX: pointwisePTX, Threads: 256, PerBlock: 1024})
	actGradKernel  = device.Typed[actGradArgs](device.Kernel{Name: "act_grad", Host: actGradHost, Grain: 1 << 12, PTX: pointwisePTX, Threads: 256, PerBlock: 1024})
	addKernel      = device.Typed[addArgs](device.Kernel{Name: "add", Host: addHost, Grain: 1 << 14, PTX: pointwisePTX, Threads: 256, PerBlock: 1024})
	flipKernel     = device.Typed[flipArgs](device.Kernel{Name: "flip", Host: flipHost, Grain: 16, PTX: pointwisePTX, Threads: 128, PerBlock: 1})
)

const flipInts = 4

// matrix describes a matrix [rows,cols] to transpose. The field at is its offset, the same in source and result.
type matrix struct{ at, rows, cols int }

// addFlip transposes matrices of src and returns the buffer of the results. Each transposed matrix [cols,rows] has the
// same offset as its source.
func (k *binder) addFlip(src device.Buffer, all ...matrix) device.Buffer {
	var table []int32
	n := 0
	for _, m := range all {
		for r := range m.rows {
			table = append(table, int32(m.at+r*m.cols), int32(m.at+r), int32(m.cols), int32(m.rows))
		}
		n = max(n, m.at+m.rows*m.cols)
	}
	out := k.allocateScratch(int64(n))
	rows := k.uploadInts(table)
	k.addLaunch(&flipKernel, items{fixed: len(table) / flipInts}, rate{fixed: Moved(0, n, n)}, flipArgs{
		src: src, out: out, table: rows, count: itemCount,
	})
	return out
}
