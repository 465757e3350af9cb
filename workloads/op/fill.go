package op

import (
	_ "embed"
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed fill.ptx.zst
var fillPTX string

// Fill sets every element of a float32 array: to zero before atomic sums, or to NaN to poison outputs before a check.
type Fill struct{ Value float32 }

// One item of fillKernel is one element.
var fillKernel = device.Typed[fillArgs](device.Kernel{Name: "fill", Host: fillHost, Grain: 1 << 14, PTX: fillPTX, Threads: 256, PerBlock: 1024})

// Bind binds the operation for out[:fixed + edges*perEdge], with the number of edges that SetEdges sets, at most
// edgeCap.
func (f Fill) Bind(dev device.Device, out device.Buffer, fixed, perEdge, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "fill", edgeCap)
	if fixed < 0 || perEdge < 0 {
		k.failUsage("use 0 or more", "the size %d + %d per edge is negative", fixed, perEdge)
	}
	k.checkBuffer("out", out, int64(fixed)+int64(perEdge)*int64(edgeCap))
	k.addFill(out, fixed, perEdge, f.Value)
	k.b.minimum = rate{fixed: Moved(0, 0, fixed), perEdge: Moved(0, 0, perEdge)}
	return k.finishBinding()
}

// Launch returns a launch that fills n values of out, for workloads that bind their own launches.
func (f Fill) Launch(out any, n int) Launch {
	return Launch{Kernel: &fillKernel, N: n, Cost: Moved(0, 0, n), Args: fillArgs{
		out: out, count: n, value: f.Value,
	}}
}

// Poison fills buffers with NaN and skips nil, so that a check finds values that a stage did not write.
func Poison(dev device.Device, on device.Stream, bufs ...device.Buffer) error {
	for _, b := range bufs {
		if b == nil {
			continue
		}
		fill, err := Fill{Value: float32(math.NaN())}.Bind(dev, b, b.Len()/4, 0, 0)
		if err != nil {
			return err
		}
		if err := fill.Enqueue(on); err != nil {
			return err
		}
		if err := on.Sync(); err != nil {
			return err
		}
		if err := fill.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (k *binder) addFill(out device.Buffer, fixed, perEdge int, value float32) {
	k.addLaunch(&fillKernel, items{fixed: fixed, perEdge: perEdge},
		rate{fixed: Moved(0, 0, fixed), perEdge: Moved(0, 0, perEdge)}, fillArgs{
			out: out, count: itemCount, value: value,
		})
}
