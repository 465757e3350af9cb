// Command peergrid times the update law of workload gridsim on another program's inputs, for scripts/peer/peer_grid.py.
// It answers one-line requests on standard input with one line each, so that two programs can be measured in turns.
//
//	peergrid INPUT OUTPUT THREADS KNOB=VALUE… < "run N\n…"
//
// INPUT holds, little-endian: int32 N, C, H; then float32 W1 [H,2C], b1 [H], W2 [C,H], b2 [C] and the state
// [C,N,N]. The answer to "run N" is the seconds of N steps. "state" writes the current state to OUTPUT and is
// answered by "done".
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	peerturns "github.com/gpuprof/gpuprof/scripts/peer/turns"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/gridsim"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peergrid:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) < 3 {
		return fmt.Errorf("reading arguments: %d given; use peergrid INPUT OUTPUT THREADS KNOB=VALUE…", len(args))
	}
	dev, err := peerturns.Open(args[2])
	if err != nil {
		return err
	}
	defer dev.Close()
	f, err := openLaw(dev, args[0], args[3:])
	if err != nil {
		return err
	}
	defer f.Close()
	return peerturns.Serve(in, out, func(request string) (string, error) { return serve(f, request, args[1]) })
}

func serve(f *gridsim.Forward, request, path string) (string, error) {
	if request == "state" {
		v, err := f.State()
		if err != nil {
			return "", err
		}
		return "done", peerturns.Write(path, v)
	}
	return peerturns.TimeSteps(request, f.Run)
}

// openLaw reads the network of the update law and the state from INPUT, and opens the workload with the knobs.
func openLaw(dev device.Device, path string, knobs []string) (*gridsim.Forward, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r := bufio.NewReader(file)
	var size [3]int32
	if err := binary.Read(r, binary.LittleEndian, &size); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	n, c, h := int(size[0]), int(size[1]), int(size[2])
	if n < 1 || c < 1 || h < 1 || n > 1<<13 || c > 1<<10 || h > 1<<14 {
		return nil, fmt.Errorf("reading %s: a grid of %d x %d cells with %d channels and %d hidden units", path, n, n, c, h)
	}
	net := gridsim.Network{W1: make([]float32, 2*c*h), B1: make([]float32, h), W2: make([]float32, c*h), B2: make([]float32, c)}
	state := make([]float32, c*n*n)
	for _, part := range [][]float32{net.W1, net.B1, net.W2, net.B2, state} {
		if err := binary.Read(r, binary.LittleEndian, part); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
	}
	set := gpuprof.Settings{"grid": strconv.Itoa(n), "channels": strconv.Itoa(c), "hidden": strconv.Itoa(h), "live": "off"}
	for _, kv := range knobs {
		k, v, _ := strings.Cut(kv, "=")
		set[k] = v
	}
	return gridsim.NewForward(dev, set, net, state)
}
