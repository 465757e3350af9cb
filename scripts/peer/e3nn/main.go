// Command peer times gpuprof's tensor product on another program's inputs, for scripts/peer/peer_e3nn.py. It
// answers one-line requests on standard input with one line each, so that two programs can take turns.
//
//	peer INPUT OUTPUT IMPL LAYOUT THREADS < "run N\n…"
//
// INPUT holds, little-endian: int32 nodes, edges, rows; then x [nodes,in], y [edges,sh], w [edges,weights] float32;
// src, dst [edges], rowptr [rows+1] int32; all in mul_ir order. The answer to "run N" is the median seconds of N
// sums over edges; the last result is written to OUTPUT. IMPL is one of the product's implementations, or
// "backward": the gradients by x, y and w, written to OUTPUT in this order. For "backward" INPUT continues with
// dout [rows,out] float32 and the edges by source, colptr [nodes+1] and perm [edges] int32.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"

	"github.com/gpuprof/gpuprof"
	peerturns "github.com/gpuprof/gpuprof/scripts/peer/turns"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func tensorProduct() (so3.TensorProduct, error) {
	in, err := so3.ParseIrreps("128x0e+128x1o")
	if err != nil {
		return so3.TensorProduct{}, err
	}
	target, err := so3.ParseIrreps("128x0e+128x1o+128x2e")
	return so3.UVUProduct(in, so3.HarmonicIrreps(3), target), err
}

func run(args []string) error {
	if len(args) != 5 {
		return gpuprof.Errorf(nil, "reading arguments: %d given", len(args)).WithFix("use peer INPUT OUTPUT IMPL LAYOUT THREADS")
	}
	dev, err := peerturns.Open(args[4])
	if err != nil {
		return err
	}
	defer dev.Close()
	job, err := bindJob(dev, args[0], args[2], op.Layout(args[3]))
	if err != nil {
		return err
	}
	if err := peerturns.Time(os.Stdin, os.Stdout, nil, job.run); err != nil {
		return err
	}
	return job.write(args[1])
}

type job struct {
	layout op.Layout
	stream device.Stream
	ops    []*op.Bound
	out    []result
}

// result is an output of the last run: rows of irreps in the job's layout.
type result struct {
	b   device.Buffer
	irs so3.Irreps
}

func bindJob(dev device.Device, path, impl string, layout op.Layout) (*job, error) {
	tp, err := tensorProduct()
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	var size [3]int32
	if err := binary.Read(r, binary.LittleEndian, &size); err != nil {
		return nil, fmt.Errorf("reading sizes: %w", err)
	}
	nodes, edges, rows := int(size[0]), int(size[1]), int(size[2])
	j := &job{layout: layout}
	if j.stream, err = dev.NewStream("main"); err != nil {
		return nil, err
	}
	buffer := func(n int) device.Buffer {
		b, e := dev.Alloc(4*n, device.OnDevice)
		if e != nil && err == nil {
			err = e
		}
		return b
	}
	read := func(n int) device.Buffer {
		b := buffer(n)
		if err == nil {
			err = binary.Read(r, binary.LittleEndian, device.Floats(b)[:n])
		}
		return b
	}
	b := op.TPBuffers{X: read(nodes * tp.In1.Dim()), Y: read(edges * tp.In2.Dim()), W: read(edges * tp.WeightNumel()),
		Src: read(edges), Dst: read(edges), RowPtr: read(rows + 1), Out: buffer(rows * tp.Out.Dim())}
	var back op.TPGradBuffers
	if impl == "backward" {
		back = op.TPGradBuffers{X: b.X, Y: b.Y, W: b.W, Src: b.Src, Dst: b.Dst, DOut: read(rows * tp.Out.Dim()), ColPtr: read(nodes + 1), Perm: read(edges),
			DX: buffer(nodes * tp.In1.Dim()), DY: buffer(edges * tp.In2.Dim()), DW: buffer(edges * tp.WeightNumel())}
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	convertLayout(layout, tp.In1, device.Floats(b.X))
	if impl == "backward" {
		convertLayout(layout, tp.Out, device.Floats(back.DOut))
		bound, err := op.TensorProductGrad{Product: op.TensorProduct{TP: tp, Layout: layout, Scale: 1}}.Bind(dev, back, nodes, rows, edges)
		j.ops, j.out = []*op.Bound{bound}, []result{{back.DX, tp.In1}, {back.DY, tp.In2}, {back.DW, so3.Irreps{{Mul: tp.WeightNumel(), Ir: so3.Irrep{P: 1}}}}}
		return j, err
	}
	product, scatter, err := op.TensorProduct{TP: tp, Impl: impl, Layout: layout, Scale: 1}.Bind(dev, b, nodes, rows, edges)
	if err != nil {
		return nil, err
	}
	j.ops, j.out = []*op.Bound{product}, []result{{b.Out, tp.Out}}
	if scatter != nil {
		j.ops = append(j.ops, scatter)
	}
	return j, nil
}

// convertLayout converts rows from mul_ir, the order of INPUT, to a layout.
func convertLayout(layout op.Layout, irs so3.Irreps, x []float32) {
	row := make([]float32, irs.Dim())
	for at := 0; at+len(row) <= len(x); at += len(row) {
		copy(row, x[at:at+len(row)])
		op.ToLayout(layout, irs, x[at:at+len(row)], row)
	}
}

// run computes the sum over edges, and waits until it is done.
func (j *job) run() error {
	for _, b := range j.ops {
		if err := b.Enqueue(j.stream); err != nil {
			return err
		}
	}
	return j.stream.Sync()
}

// write stores the result in mul_ir order.
func (j *job) write(path string) error {
	var all [][]float32
	for _, r := range j.out {
		out := device.Floats(r.b)
		row := make([]float32, r.irs.Dim())
		for at := 0; at+len(row) <= len(out); at += len(row) {
			copy(row, out[at:at+len(row)])
			op.FromLayout(j.layout, r.irs, out[at:at+len(row)], row)
		}
		all = append(all, out)
	}
	return peerturns.Write(path, all...)
}
