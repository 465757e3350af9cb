// Command peerserving times the network of workload "serving", with the weights and images of another program, for
// scripts/peer/peer_serving.py. It answers one-line requests on standard input with one line each, so that two
// programs can take turns.
//
//	peerserving INPUT OUTPUT THREADS KNOB=VALUE… < "run N\n…"
//
// INPUT holds, little-endian: int32 image, width, classes, batch, stages and the blocks of each stage; then float32
// for each convolution its weight and its norm's scale, shift, mean and variance, for the linear layer weight and
// bias; then the images [batch,3,image,image]. Knobs are impl, layout, bn and precision. The answer to "run N" is
// the seconds of N batches. "logits" writes the batch's logits to OUTPUT and is answered by "done". For a GPU see
// TestPeer.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"

	peerturns "github.com/gpuprof/gpuprof/scripts/peer/turns"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/serving/resnet"
)

func main() {
	onHost := func(threads string) (device.Device, error) { return peerturns.Open(threads) } //nolint:wrapcheck // the device says what it opened
	if err := run(os.Args[1:], os.Stdin, os.Stdout, onHost); err != nil {
		fmt.Fprintln(os.Stderr, "peerserving:", err)
		os.Exit(1)
	}
}

type peer struct {
	dev    device.Device
	stream device.Stream
	net    *resnet.Net
	opt    resnet.Options
}

func run(args []string, in io.Reader, out io.Writer, device func(where string) (device.Device, error)) error {
	if len(args) < 3 {
		return fmt.Errorf("reading arguments: %d given; use peerserving INPUT OUTPUT THREADS KNOB=VALUE…", len(args))
	}
	dev, err := device(args[2])
	if err != nil {
		return err
	}
	defer dev.Close()
	p, err := open(dev, args[0], args[3:])
	if err != nil {
		return err
	}
	return peerturns.Serve(in, out, func(request string) (string, error) { return p.serve(request, args[1]) })
}

func (p *peer) serve(request, path string) (string, error) {
	if request == "logits" {
		v, err := op.Receive(p.dev, p.stream, p.net.Logits(0), 0, p.opt.MaxBatch*p.opt.Classes)
		if err != nil {
			return "", err
		}
		return "done", peerturns.Write(path, v)
	}
	return peerturns.TimeSteps(request, func(n int) error {
		for range n {
			if err := p.net.EnqueueAll(p.stream, 0, p.opt.MaxBatch); err != nil {
				return err
			}
			if err := p.stream.Sync(); err != nil {
				return err
			}
		}
		return nil
	})
}

func open(dev device.Device, path string, knobs []string) (*peer, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r := bufio.NewReader(file)
	o, err := readHeader(r, path)
	if err != nil {
		return nil, err
	}
	for _, kv := range knobs {
		k, v, _ := strings.Cut(kv, "=")
		to := map[string]*string{"impl": &o.Impl, "layout": &o.Layout, "bn": &o.BN, "precision": &o.Precision}[k]
		if to == nil {
			return nil, fmt.Errorf("reading %q: use impl, layout, bn or precision", kv)
		}
		*to = v
	}
	images := make([]float32, o.MaxBatch*3*o.Image*o.Image)
	if err := readWeights(r, &o); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if err := binary.Read(r, binary.LittleEndian, images); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	p := &peer{dev: dev, opt: o}
	if p.stream, err = dev.NewStream("main"); err != nil {
		return nil, err
	}
	if p.net, err = resnet.Open(context.Background(), dev, p.stream, o); err != nil {
		return nil, err
	}
	return p, p.net.Give(p.stream, 0, images)
}

func readHeader(r io.Reader, path string) (resnet.Options, error) {
	var size [5]int32
	if err := binary.Read(r, binary.LittleEndian, &size); err != nil {
		return resnet.Options{}, fmt.Errorf("reading %s: %w", path, err)
	}
	if size[3] < 1 || size[3] > 1024 || size[4] < 1 || size[4] > 6 {
		return resnet.Options{}, fmt.Errorf("reading %s: a batch of %d and %d stages", path, size[3], size[4])
	}
	blocks := make([]int32, size[4])
	if err := binary.Read(r, binary.LittleEndian, blocks); err != nil {
		return resnet.Options{}, fmt.Errorf("reading %s: %w", path, err)
	}
	s := resnet.Shape{Source: int(size[0]), Image: int(size[0]), Width: int(size[1]), Classes: int(size[2])}
	for _, b := range blocks {
		s.Blocks = append(s.Blocks, int(b))
	}
	return resnet.Options{Shape: s, MaxBatch: int(size[3]), Slots: 1}, s.Check()
}

// readWeights reads arrays with the sizes of generated weights.
func readWeights(r io.Reader, o *resnet.Options) error {
	o.Weights = o.DrawWeights(0)
	for _, l := range o.Weights.Layers {
		for _, part := range [][]float32{l.Weight, l.Scale, l.Shift, l.Mean, l.Var, l.Bias} {
			if err := binary.Read(r, binary.LittleEndian, part); err != nil {
				return err
			}
		}
	}
	return nil
}
