// Command peertrain times whole training steps of a network as users of e3nn write it, on another program's inputs,
// for scripts/peer/peer_e3nn_train.py. It answers one-line requests on standard input with one line each, so that
// two programs can take turns.
//
//	peertrain INPUT OUTPUT LAYOUT THREADS < "run N\n…"
//
// The network is one convolution with the shape of the preset mace-medium: natural irreps to lmax-2
// in and to lmax-1 out, with mul channels each (see network.go). INPUT holds, little-endian: int32 atoms, edges, mul,
// lmax, functions, hidden; float64 cutoff, lr, clip; then float32 vec [edges,3], the parameters x [atoms,in],
// w1 [functions,hidden], w2 [hidden,weights], mix and readout [mul], and target [atoms]; int32 src and dst [edges],
// sorted by dst. INPUT is in mul_ir order; LAYOUT is the layout of the buffers.
//
// A step is forward, loss, backward, clipping and Adam. The answer to "run N" is the median seconds of N steps,
// each of which continues from the previous parameters. OUTPUT holds the first step's loss, the gradients of all
// parameters before clipping, and the parameters after the step, float32.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gpuprof/gpuprof"
	peerturns "github.com/gpuprof/gpuprof/scripts/peer/turns"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peertrain:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 4 {
		return gpuprof.Errorf(nil, "reading arguments: %d given", len(args)).WithFix("use peertrain INPUT OUTPUT LAYOUT THREADS")
	}
	layout := op.Layout(args[2])
	if layout != op.MulIr && layout != op.IrMul {
		return gpuprof.Errorf(nil, "reading LAYOUT: %q is none", layout).WithFix("use %s or %s", op.MulIr, op.IrMul)
	}
	dev, err := peerturns.Open(args[3])
	if err != nil {
		return err
	}
	defer dev.Close()
	return serveRequests(dev, args[0], args[1], layout, in, out)
}

func serveRequests(dev device.Device, input, output string, layout op.Layout, in io.Reader, out io.Writer) (err error) {
	n, err := read(input)
	if err != nil {
		return fmt.Errorf("reading %s: %w", input, err)
	}
	t, err := n.open(dev, layout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	first, err := t.runFirst()
	if err == nil {
		err = peerturns.Write(output, first...)
	}
	if err != nil {
		return err
	}
	return peerturns.Time(in, out, nil, t.run)
}
