package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed pointwise.ptx.zst
var pointwisePTX string

// Operations on one value at a time, an item each: an activation into another
// buffer (x, out, n, act, c: out = c*phi(x)); its reverse in place (x, d, n, act, c:
// d *= c*phi'(x)); the change along d (x, d, out, n, act, c: out = c*phi'(x) d), and in
// place the gradient of b.(that change) + d.(the value) by x (x, dx, b, d, n, act, c:
// d = c*(phi'(x) d + phi”(x) dx b)); a sum in place (x, out, n: out += x). flipKernel turns matrices:
// src, out, table, n; an item is a row of the source, four integers: where it starts,
// where its first value goes, how many values, how far apart they go.
var (
	actApplyKernel   = device.Kernel{Name: "act_apply", Sig: "bbiif", Host: actApplyHost, Grain: 1 << 12, PTX: pointwisePTX, Threads: 256, PerBlock: 1024}
	actGradKernel    = device.Kernel{Name: "act_grad", Sig: "bbiif", Host: actGradHost, Grain: 1 << 12, PTX: pointwisePTX, Threads: 256, PerBlock: 1024}
	actTangentKernel = device.Kernel{Name: "act_tangent", Sig: "bbbiif", Host: actTangentHost, Grain: 1 << 12, PTX: pointwisePTX, Threads: 256, PerBlock: 1024}
	actSecondKernel  = device.Kernel{Name: "act_second", Sig: "bbbbiif", Host: actSecondHost, Grain: 1 << 12, PTX: pointwisePTX, Threads: 256, PerBlock: 1024}
	addKernel        = device.Kernel{Name: "add", Sig: "bbi", Host: addHost, Grain: 1 << 14, PTX: pointwisePTX, Threads: 256, PerBlock: 1024}
	flipKernel       = device.Kernel{Name: "flip", Sig: "bbbi", Host: flipHost, Grain: 16, PTX: pointwisePTX, Threads: 128, PerBlock: 1}
)

const flipInts = 4

// BindAdd binds out += x, n values each.
func BindAdd(dev device.Device, x, out device.Buffer, n int) (*Bound, error) {
	k := newBinder(dev, "sum", 0)
	k.want("x", x, int64(n))
	k.want("out", out, int64(n))
	k.b.minimum = rate{fixed: move(n, 2*n, n)}
	k.launch(&addKernel, items{fixed: n}, k.b.minimum, x, out, itemCount{})
	return k.done()
}

// matrix is one of those that a flip turns: rows by cols at both places.
type matrix struct{ at, rows, cols int }

// flip appends the launch that turns matrices of src, each in its place of the
// result, [cols,rows].
func (k *binder) flip(src device.Buffer, all ...matrix) device.Buffer {
	var table []int32
	n := 0
	for _, m := range all {
		for r := range m.rows {
			table = append(table, int32(m.at+r*m.cols), int32(m.at+r), int32(m.cols), int32(m.rows))
		}
		n = max(n, m.at+m.rows*m.cols)
	}
	out := k.scratch(int64(n))
	rows := k.uploadInts(table)
	k.launch(&flipKernel, items{fixed: len(table) / flipInts}, rate{fixed: move(0, n, n)}, src, out, rows, itemCount{})
	return out
}

// flipScratch is the bytes that flip allocates.
func flipScratch(all ...matrix) int64 {
	var n, rows int64
	for _, m := range all {
		n = max(n, int64(m.at)+int64(m.rows)*int64(m.cols))
		rows += int64(m.rows)
	}
	return (max(n, 1) + max(flipInts*rows, 1)) * floatBytes
}
