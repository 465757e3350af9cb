package resnet

import (
	"context"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// In every precision zeros and the logits of another image are outside the tolerance.
func TestToleranceTellsAnswersApart(t *testing.T) {
	for _, precision := range []string{FP32, TF32, BF16, FP16} {
		n, _ := opened(t, workloadtest.Host(t, host.Options{}), Options{Shape: Small(), Precision: precision, MaxBatch: 1, Slots: 1, Seed: 5})
		want, err := n.Reference(context.Background(), 0)
		if err != nil {
			t.Fatal(err)
		}
		other, err := n.Reference(context.Background(), 1)
		if err != nil {
			t.Fatal(err)
		}
		for name, wrong := range map[string][]float32{"zeros": make([]float32, len(want.Values)), "image 1": op.As[float32](other.Values)} {
			if apart := want.Apart(wrong); !(apart > n.Tolerance()) {
				t.Errorf("%s: %s are %.3g from the logits of image 0, of %.3g allowed", precision, name, apart, n.Tolerance())
			}
		}
	}
}
