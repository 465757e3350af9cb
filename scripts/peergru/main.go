// Command peergru times gpuprof's GRU on inputs another program wrote, for
// scripts/peer_gru.py. It reads one request a line on standard input and
// answers with one line, so that two programs can take turns.
//
//	peergru INPUT OUTPUT IMPL THREADS < "run N\n…"
//
// INPUT holds, little-endian: int32 calls, T, B, I, H, L; then float32 x
// [T,B,I], h0 [L,B,H] and for every layer weight_ih, weight_hh, bias_ih,
// bias_hh as torch.nn.GRU has them. One forward is calls runs of T time steps,
// the state of one carried into the next. The answer to "run N" is the median
// seconds of N forwards; the last state hn goes to OUTPUT.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof/internal/host"
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
		return fmt.Errorf("reading arguments: %d given; use peergru INPUT OUTPUT IMPL THREADS", len(args))
	}
	threads, err := strconv.Atoi(args[3])
	if err != nil {
		return fmt.Errorf("reading THREADS: %w", err)
	}
	dev, err := host.Open(host.Options{Threads: threads})
	if err != nil {
		return err
	}
	defer dev.Close()
	j, err := read(args[0])
	if err != nil {
		return fmt.Errorf("reading %s: %w", args[0], err)
	}
	j.cfg.Impl, j.cfg.Precision = args[2], "fp32"
	f, err := gruflow.NewForward(dev, j.cfg)
	if err != nil {
		return err
	}
	defer f.Close()
	requests := bufio.NewScanner(in)
	for requests.Scan() {
		n, err := strconv.Atoi(strings.TrimPrefix(requests.Text(), "run "))
		if err != nil {
			return fmt.Errorf("reading request %q: %w", requests.Text(), err)
		}
		t, err := j.time(f, n)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, t)
	}
	return write(f, args[1])
}

// job is what to run.
type job struct {
	calls int
	cfg   gruflow.ForwardConfig
	x, h0 []float32
}

func read(path string) (*job, error) {
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
	return j, err
}

func (j *job) time(f *gruflow.Forward, n int) (float64, error) {
	var times []float64
	for range n {
		if err := f.Set(j.x, j.h0); err != nil {
			return 0, err
		}
		began := time.Now()
		for range j.calls {
			if err := f.Run(); err != nil {
				return 0, err
			}
		}
		times = append(times, time.Since(began).Seconds())
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

func write(f *gruflow.Forward, path string) error {
	_, hn, err := f.Result()
	if err != nil {
		return err
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	err = binary.Write(out, binary.LittleEndian, hn)
	if e := out.Close(); err == nil {
		err = e
	}
	return err
}
