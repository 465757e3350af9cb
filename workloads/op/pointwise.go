package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed pointwise.ptx.zst
var pointwisePTX string

// Operations on single values, one item each: an activation into another buffer (x, out, n, act, c: out = c*phi(x));
// its backward pass in place (x, d, n, act, c: d *= c*phi'(x)); a sum in place (x, out, n: out += x). flipKernel
// transposes matrices: src, out, table, n; an item is a row of the source, four integers: its start, the place of its
// first value, the number of values, the distance between their places.
var (
	actApplyKernel = device.Typed[actApplyArgs](device.Kernel{Name: "act_apply", Host: actApplyHost, Grain: 1 << 12, PTX: pointwisePTX, Threads: 256, PerBlock: 1024})
	actGradKernel  = device.Typed[actGradArgs](device.Kernel{Name: "act_grad", Host: actGradHost, Grain: 1 << 12, PTX: pointwisePTX, Threads: 256, PerBlock: 1024})
	addKernel      = device.Typed[addArgs](device.Kernel{Name: "add", Host: addHost, Grain: 1 << 14, PTX: pointwisePTX, Threads: 256, PerBlock: 1024})
	flipKernel     = device.Typed[flipArgs](device.Kernel{Name: "flip", Host: flipHost, Grain: 16, PTX: pointwisePTX, Threads: 128, PerBlock: 1})
)

const flipInts = 4

// matrix is one matrix that a flip transposes: rows by cols, at the same offset in source and result.
type matrix struct{ at, rows, cols int }

// addFlip appends the launch that transposes matrices of src, each to the same offset of the result, [cols,rows].
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
	k.addLaunch(&flipKernel, items{fixed: len(table) / flipInts}, rate{fixed: moveCost(0, n, n)}, flipArgs{
		src: src, out: out, table: rows, count: itemCount{},
	})
	return out
}

// flipScratch returns the bytes that addFlip allocates.
func flipScratch(all ...matrix) int64 {
	var n, rows int64
	for _, m := range all {
		n = max(n, int64(m.at)+int64(m.rows)*int64(m.cols))
		rows += int64(m.rows)
	}
	return (max(n, 1) + max(flipInts*rows, 1)) * floatBytes
}
