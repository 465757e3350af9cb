package resnet

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// opened is a network on a device, closed with the test.
func opened(t testing.TB, d device.Device, o Options) (*Net, device.Stream) {
	t.Helper()
	s, err := d.NewStream("main")
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(context.Background(), d, s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if use := d.Memory().InUse; use != 0 {
			t.Errorf("%d bytes are left", use)
		}
	})
	return n, s
}

func passes(t testing.TB, n *Net, s device.Stream, slot int, ids ...int) {
	t.Helper()
	checks, err := n.Check(context.Background(), s, slot, ids)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		if !c.Pass {
			t.Errorf("%s: relative error %.3g over %.3g", c.Stage, float64(c.RelativeError), c.Tolerance)
		}
	}
	t.Log(checks)
}

// odd is a network whose sizes fit no tile.
func odd() Shape { return Shape{Source: 23, Image: 13, Width: 5, Blocks: []int{1, 2}, Classes: 7} }

// stemmed is the smallest with the large stem and its pooling.
func stemmed() Shape { return Shape{Source: 66, Image: 65, Width: 3, Blocks: []int{1}, Classes: 3} }

func TestHost(t *testing.T) {
	for _, shape := range []Shape{Small(), odd(), stemmed()} {
		for _, impl := range []string{Implicit, Im2col, Direct} {
			for _, layout := range []string{NHWC, NCHW} {
				for i, precision := range precisionNames {
					o := Options{Shape: shape, Impl: impl, Layout: layout, BN: []string{Fold, Fused, Apart}[(i+len(impl)+len(layout)+shape.Image)%3], Precision: precision,
						Preprocess: OnDevice, MaxBatch: 3, Slots: 2, Seed: 5}
					t.Run(fmt.Sprint(shape.Image, " ", o), func(t *testing.T) {
						n, s := opened(t, workloadtest.Host(t, host.Options{Threads: 2}), o)
						passes(t, n, s, 1, 3, 70, 1)
					})
				}
			}
		}
	}
}

func TestCounts(t *testing.T) {
	for _, tt := range []struct {
		shape             Shape
		adds, params, act int64
	}{{Small(), 809280, 19954, 10752}, {Cifar(), 40813184, 272474, 200704}, {RxVision(), 1814073344, 11689512, 2483712}} {
		if a, p, v := tt.shape.MultiplyAdds(), tt.shape.Parameters(), tt.shape.Activations(); a != tt.adds || p != tt.params || v != tt.act {
			t.Errorf("%+v: %d multiply-adds, %d parameters, %d activations; want %d, %d, %d", tt.shape, a, p, v, tt.adds, tt.params, tt.act)
		}
	}
	floor := RxVision().Floor(32)
	if gflop := float64(floor.Flops) / 1e9; math.Abs(gflop-116.1) > 0.05 {
		t.Errorf("a batch of 32 takes %.2f Gflop, want 116.1", gflop)
	}
	if mb := float64(floor.BytesWritten) / 1e6; math.Abs(mb-318) > 0.5 {
		t.Errorf("a batch of 32 writes %.1f MB of activations, want 318", mb)
	}
}
