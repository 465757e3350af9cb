// Command peergru times gpuprof's GRU on another program's inputs, for scripts/peer/peer_gru.py. It answers
// one-line requests on standard input with one line each, so that two programs can take turns.
//
//	peergru INPUT OUTPUT IMPL|backward|train THREADS < "run N\n…"
//
// INPUT holds, little-endian: int32 calls, T, B, I, H, L; then float32 x [T,B,I], h0 [L,B,H] and for every layer
// weight_ih, weight_hh, bias_ih, bias_hh in the order of torch.nn.GRU. A forward consists of as many runs as calls
// gives, each of T time steps; each run continues from the previous one's state. The answer to "run N" is the median
// seconds of N forwards; the last state hn is written to OUTPUT.
//
// With backward, INPUT continues with dout [T,B,H], the cotangent of the output, and a run is T time steps forward
// and backward. OUTPUT gets the gradients of x and h0, then of every layer's parameters in the order above. With
// train a run ends with a step of Adam, and OUTPUT gets the gradients and then the parameters after the first run.
//
// For a GPU use the test binary (TestCUDA): only tests import that device.
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	peerturns "github.com/gpuprof/gpuprof/scripts/peer/turns"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/gruflow"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peergru:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 4 {
		return fmt.Errorf("reading arguments: %d given; use peergru INPUT OUTPUT IMPL|backward|train THREADS", len(args))
	}
	dev, err := peerturns.Open(args[3])
	if err != nil {
		return err
	}
	defer dev.Close()
	return serveRequests(dev, args[0], args[1], args[2], in, out)
}

func serveRequests(dev device.Device, input, output, impl string, in io.Reader, out io.Writer) (err error) {
	j, err := read(input, impl == "backward" || impl == "train")
	if err != nil {
		return fmt.Errorf("reading %s: %w", input, err)
	}
	f, err := j.open(dev, impl)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if impl == "train" { // each run changes the parameters, so the first run's are written
		if err := f.setInputs(); err != nil {
			return err
		}
		if err := j.run(f); err != nil {
			return err
		}
		if err := write(f, output); err != nil {
			return err
		}
	}
	if err := peerturns.Time(in, out, f.setInputs, func() error { return j.run(f) }); err != nil || impl == "train" {
		return err
	}
	return write(f, output)
}

type runner interface {
	Run() error
	Close() error
	setInputs() error
	readOutputs() ([][]float32, error)
}

type forward struct {
	*gruflow.Forward
	j *job
}

func (f forward) setInputs() error { return f.Set(f.j.x, f.j.h0) }

func (f forward) readOutputs() ([][]float32, error) {
	_, hn, err := f.Result()
	return [][]float32{hn}, err
}

type backward struct {
	*gruflow.Backward
	j      *job
	trains bool
}

// rate is the learning rate of train, equal to the one in scripts/peer/peer_gru.py.
const rate = 1e-3

func (f backward) setInputs() error {
	return f.Set(f.j.x, f.j.h0, f.j.dout, make([]float32, len(f.j.h0)))
}

func (f backward) readOutputs() ([][]float32, error) {
	g, err := f.Gradients()
	all := [][]float32{g.DX, g.DH0}
	layers := g.Layers
	if f.trains && err == nil {
		var after []gruflow.Layer
		after, err = f.Parameters()
		layers = append(layers, after...)
	}
	for _, l := range layers {
		all = append(all, l.WeightIH, l.WeightHH, l.BiasIH, l.BiasHH)
	}
	return all, err
}

func (j *job) open(dev device.Device, impl string) (runner, error) {
	if impl == "backward" || impl == "train" {
		f, err := gruflow.NewBackward(dev, j.cfg)
		if err == nil && impl == "train" {
			err = f.Adam(rate)
		}
		return backward{f, j, impl == "train"}, err
	}
	j.cfg.Impl, j.cfg.Precision = impl, "fp32"
	f, err := gruflow.NewForward(dev, j.cfg)
	return forward{f, j}, err
}

// job is the configuration and the inputs from INPUT.
type job struct {
	calls int
	cfg   gruflow.ForwardConfig
	x, h0 []float32
	dout  []float32
}

func read(path string, back bool) (*job, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	var size [6]int32
	if err := binary.Read(r, binary.LittleEndian, &size); err != nil {
		return nil, err
	}
	floats := func(n int) []float32 {
		v := make([]float32, n)
		if err == nil {
			err = binary.Read(r, binary.LittleEndian, v)
		}
		return v
	}
	j := &job{calls: int(size[0]), cfg: gruflow.ForwardConfig{TimeSteps: int(size[1]), Batch: int(size[2]), Input: int(size[3]), Hidden: int(size[4])}}
	h, layers := j.cfg.Hidden, int(size[5])
	j.x, j.h0 = floats(j.cfg.TimeSteps*j.cfg.Batch*j.cfg.Input), floats(layers*j.cfg.Batch*h)
	for l := range layers {
		width := h
		if l == 0 {
			width = j.cfg.Input
		}
		j.cfg.Layers = append(j.cfg.Layers, gruflow.Layer{WeightIH: floats(3 * h * width), WeightHH: floats(3 * h * h), BiasIH: floats(3 * h), BiasHH: floats(3 * h)})
	}
	if back {
		j.dout = floats(j.cfg.TimeSteps * j.cfg.Batch * h)
	}
	return j, err
}

// run executes all calls of a forward.
func (j *job) run(f runner) error {
	for range j.calls {
		if err := f.Run(); err != nil {
			return err
		}
	}
	return nil
}

func write(f runner, path string) error {
	all, err := f.readOutputs()
	if err != nil {
		return err
	}
	return peerturns.Write(path, all...)
}
