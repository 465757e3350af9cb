package resnet

import (
	"context"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// reads and writes are the activations of a group; a norm works in place and, where it stands
// apart, adds the residual.
func (g group) reads(apart bool) []int {
	switch c := g.layer.conv; {
	case g.Kind == Prepare:
		return nil
	case g.Kind == Linear, g.Kind == Conv && apart:
		return []int{c.src}
	case g.Kind == Conv:
		return []int{c.src, c.res}
	case g.Kind == Norm:
		return []int{c.res, c.dst}
	}
	return []int{g.layer.src}
}

func (g group) writes() int {
	switch g.Kind {
	case Prepare:
		return actInput
	case Conv, Linear, Norm:
		return g.layer.conv.dst
	}
	return g.layer.dst
}

// independent reports whether two groups may be exchanged: neither reads or writes what the
// other writes.
func independent(a, b group, apart bool) bool {
	return a.writes() != b.writes() &&
		!slices.Contains(a.reads(apart), b.writes()) && !slices.Contains(b.reads(apart), a.writes())
}

// The logits of a network with a group left out, or exchanged with the next, are not those of
// the float64 network, unless the two do not depend on each other.
func TestWiringIsChecked(t *testing.T) {
	for _, o := range []Options{
		{Shape: stemmed(), Impl: Implicit, Layout: NHWC, BN: Fold, Precision: FP32},
		{Shape: odd(), Impl: Im2col, Layout: NCHW, BN: Apart, Precision: "bf16"},
		{Shape: Small(), Impl: Direct, Layout: NHWC, BN: Fused, Precision: "tf32"},
	} {
		o.Preprocess, o.MaxBatch, o.Slots, o.Seed = OnDevice, 2, 1, 5
		n, s := opened(t, workloadtest.Host(t, host.Options{Threads: 2}), o)
		whole := n.groups
		logits := func() bool {
			checks, err := n.Check(context.Background(), s, 0, []int{3, 70})
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(checks, func(c gpuprof.Check) bool { return c.Stage == "logits" })
			return checks[i].Pass
		}
		if !logits() {
			t.Fatalf("%v: the network itself fails", o)
		}
		for i, g := range whole {
			n.groups = slices.Delete(slices.Clone(whole), i, i+1)
			if logits() {
				t.Errorf("%s %s: the logits pass without %s", o.BN, o.Precision, g.Name)
			}
			if i+1 == len(whole) {
				continue
			}
			n.groups = slices.Clone(whole)
			n.groups[i], n.groups[i+1] = whole[i+1], whole[i]
			if want := independent(g, whole[i+1], o.BN == Apart); logits() != want {
				t.Errorf("%s %s: with %s and %s exchanged the logits pass: %t, want %t", o.BN, o.Precision, g.Name, whole[i+1].Name, !want, want)
			}
		}
		n.groups = whole
		for i, g := range whole { // a weight of another layer of the same size
			for k := range i {
				a, b := g.layer.conv, whole[k].layer.conv
				if g.Kind != Conv || whole[k].Kind != Conv || a.in != b.in || a.out != b.out || a.k != b.k {
					continue
				}
				mine, other := g.launches[0], whole[k].launches[0]
				spoilt := slices.Clone(mine)
				for j := range spoilt {
					spoilt[j].args.Bits[1] = other[j].args.Bits[1]
					spoilt[j].args.Bufs[1] = other[j].args.Bufs[1]
				}
				n.groups = slices.Clone(whole)
				n.groups[i].launches = [][]launch{spoilt}
				if logits() {
					t.Errorf("%s %s: the logits pass with an argument of %s in %s", o.BN, o.Precision, whole[k].Name, g.Name)
				}
			}
		}
		n.groups = whole
	}
}

// In every precision zeros and the logits of another image are outside the tolerance.
func TestToleranceTellsAnswersApart(t *testing.T) {
	for _, precision := range []string{FP32, TF32, BF16, FP16, INT8} {
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
