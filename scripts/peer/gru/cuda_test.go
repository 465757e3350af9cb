//go:build !race

package main

// One goroutine drives the simulated GPU, and the detector has nothing to find there.

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/testkit/cudatest"
)

// peer is the variable with INPUT OUTPUT IMPL, with which the test serves a script on the
// GPU that GPUPROF_DEVICE names.
const peer = "GPUPROF_PEER"

// A training step on the GPU gives the gradients and parameters of that on the host. Where
// a script asks for it, it is served instead.
func TestCUDA(t *testing.T) {
	lib, simulated := cudatest.Driver(t, "")
	dev, err := cuda.Open(cuda.Options{Library: lib, AllowSimulated: simulated})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if args := strings.Fields(os.Getenv(peer)); len(args) == 3 {
		if err := serveRequests(dev, args[0], args[1], args[2], os.Stdin, os.Stdout); err != nil {
			t.Fatal(err)
		}
		return
	}
	in, outs := sample(t), [2]string{filepath.Join(t.TempDir(), "cuda"), filepath.Join(t.TempDir(), "host")}
	var answers bytes.Buffer
	if err := serveRequests(dev, in, outs[0], "train", strings.NewReader("run 1\n"), &answers); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{in, outs[1], "train", "1"}, strings.NewReader("run 1\n"), &answers); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(answers.String(), "\n"); n != 2 {
		t.Errorf("two requests have %d answers: %q", n, answers.String())
	}
	a, b := floats(t, outs[0]), floats(t, outs[1])
	var off, all float64
	for i, v := range a {
		off, all = off+math.Pow(float64(v-b[i]), 2), all+math.Pow(float64(b[i]), 2)
	}
	if len(a) == 0 || len(a) != len(b) || !(math.Sqrt(off/all) < 1e-4) { // a step of Adam divides small gradients by themselves
		t.Errorf("%d values on the GPU and %d on the host are %g apart", len(a), len(b), math.Sqrt(off/all))
	}
}

// sample writes an input of 3 time steps, 4 rows, 5 features and 2 layers of 6 units.
func sample(t *testing.T) string {
	t.Helper()
	const steps, b, i, h, layers = 3, 4, 5, 6, 2
	var buf bytes.Buffer
	rnd := rand.New(rand.NewPCG(1, 2))
	v := make([]float32, steps*b*i+layers*b*h+3*h*(i+h+2)+3*h*(2*h+2)+steps*b*h)
	for k := range v {
		v[k] = float32(rnd.NormFloat64() / 2)
	}
	for _, part := range []any{[]int32{1, steps, b, i, h, layers}, v} {
		if err := binary.Write(&buf, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(path, buf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func floats(t *testing.T, path string) []float32 {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	v := make([]float32, len(raw)/4)
	if err := binary.Read(bytes.NewReader(raw), binary.LittleEndian, v); err != nil {
		t.Fatal(err)
	}
	return v
}
