package main

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	peerturns "github.com/gpuprof/gpuprof/scripts/peer/turns"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/serving/resnet"
)

// TestPeer answers the requests of a script. Given arguments, INPUT OUTPUT THREADS KNOB=VALUE…, it is the peer, on a GPU
// with cuda in place of the threads: only tests may name that device. Without them it answers one batch on the host
// device, which has to give finite logits.
func TestPeer(t *testing.T) {
	if flag.NArg() > 0 {
		open := func(where string) (device.Device, error) {
			if where == "cuda" {
				return cuda.Open(cuda.Options{})
			}
			return peerturns.Open(where)
		}
		if err := run(flag.Args(), os.Stdin, os.Stdout, open); err != nil {
			fmt.Fprintln(os.Stderr, "peerserving:", err)
			os.Exit(1)
		}
		return
	}
	shape, dir := resnet.Small(), t.TempDir()
	const batch = 2
	var in bytes.Buffer
	o := resnet.Options{Shape: shape}
	parts := []any{[]int32{int32(shape.Image), int32(shape.Width), int32(shape.Classes), batch, int32(len(shape.Blocks)), 1, 1, 1}}
	for _, l := range o.DrawWeights(1).Layers {
		parts = append(parts, l.Weight, l.Scale, l.Shift, l.Mean, l.Var, l.Bias)
	}
	for _, p := range append(parts, make([]float32, batch*3*shape.Image*shape.Image)) {
		if err := binary.Write(&in, binary.LittleEndian, p); err != nil {
			t.Fatal(err)
		}
	}
	from, to := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	if err := os.WriteFile(from, in.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	open := func(string) (device.Device, error) { return host.Open(host.Options{Threads: 1}) }
	if err := run([]string{from, to, "1", "impl=direct"}, strings.NewReader("run 1\nlogits\n"), &out, open); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(to)
	if err != nil || len(got) != 4*batch*shape.Classes || !strings.HasSuffix(out.String(), "\ndone\n") {
		t.Fatalf("%v, %d bytes, %q", err, len(got), out.String())
	}
	for i := 0; i < len(got); i += 4 {
		if v := float64(math.Float32frombits(binary.LittleEndian.Uint32(got[i:]))); math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("logit %d is %g", i/4, v)
		}
	}
	if err := run([]string{from, to, "1", "split=best"}, strings.NewReader(""), &out, open); err == nil || !strings.Contains(err.Error(), "split=best") {
		t.Errorf("a knob that it has not: %v", err)
	}
}
