package resnet

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// What a group does not write is found: without its launches its check fails on the poison.
func TestCheckFindsWhatIsNotWritten(t *testing.T) {
	for _, precision := range []string{FP32, BF16} {
		n, s := opened(t, workloadtest.Host(t, host.Options{Threads: 1}),
			Options{Shape: stemmed(), Preprocess: OnDevice, BN: Apart, Precision: precision, MaxBatch: 2, Slots: 1})
		for g := range n.groups {
			launches := n.groups[g].launches[0]
			n.groups[g].launches[0] = nil
			checks, err := n.Check(context.Background(), s, 0, []int{0, 1})
			if err != nil {
				t.Fatal(err)
			}
			n.groups[g].launches[0] = launches
			failed := false
			for _, c := range checks {
				failed = failed || c.Stage == n.groups[g].Kind.String() && !c.Pass
			}
			if !failed {
				t.Errorf("%s: group %s wrote nothing and passed: %+v", precision, n.groups[g].Name, checks)
			}
		}
	}
}

// Another weight in the reference fails the convolution.
func TestCheckFindsAnotherWeight(t *testing.T) {
	for _, precision := range []string{FP32, BF16} {
		w := Small().DrawWeights(1)
		n, s := opened(t, workloadtest.Host(t, host.Options{Threads: 1}), Options{Shape: Small(), Precision: precision, MaxBatch: 1, Slots: 1, Weights: w})
		for i := range w.Layers[2].Weight {
			w.Layers[2].Weight[i] *= 2
		}
		checks, err := n.Check(context.Background(), s, 0, []int{0})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range checks {
			if c.Stage == "conv" && c.Pass {
				t.Errorf("%s: %+v", precision, c)
			}
		}
	}
}

// Images that were prepared on the host are compared as they arrived: a pixel that is not the
// image's own fails.
func TestCheckFindsAnotherImage(t *testing.T) {
	n, s := opened(t, workloadtest.Host(t, host.Options{Threads: 1}), Options{Shape: Small(), MaxBatch: 1, Slots: 1})
	c := n.newChecker(s, 0, []int{4})
	c.fillSlot()
	c.checkPrepared()
	if right := c.Errs[Prepare].Relative(); !(right <= prepareTolerance) {
		t.Errorf("the image itself differs by %.3g", right)
	}
	n.Image(4)[3*(16*32+16)] ^= 8 // of the reference, which reads the image again
	c.Errs[Prepare] = op.ErrorNorm{}
	c.checkPrepared()
	if wrong := c.Errs[Prepare].Relative(); wrong <= prepareTolerance {
		t.Errorf("another pixel differs by %.3g", wrong)
	}
	if c.Err != nil {
		t.Fatal(c.Err)
	}
}

// Open takes the counted memory, to the byte.
func TestMemoryIsCounted(t *testing.T) {
	for _, o := range []Options{
		{Shape: Small()}, {Shape: odd(), Precision: FP16, Impl: Im2col, Layout: NCHW, Preprocess: OnDevice}, {Shape: stemmed(), BN: Apart, Impl: Direct}, {Shape: odd(), Precision: TF32, BN: Apart},
	} {
		o.MaxBatch, o.Slots = 3, 2
		d := workloadtest.Host(t, host.Options{Threads: 1})
		n, _ := opened(t, d, o)
		if use, said := d.Memory().InUse, o.Memory(d.Info()); use != said {
			t.Errorf("%s: %d bytes in use, %d said before", n.o, use, said)
		}
	}
}

func TestRefusals(t *testing.T) {
	ok := Options{Shape: Small(), MaxBatch: 2, Slots: 1}
	for _, tt := range []struct {
		change func(*Options)
		words  []string
	}{
		{func(o *Options) { o.Image = 0 }, []string{"image=0", "use 1 to"}},
		{func(o *Options) { o.Width = 2000 }, []string{"width=2000"}},
		{func(o *Options) { o.Blocks = nil }, []string{"blocks=", "2-2-2-2"}},
		{func(o *Options) { o.Width, o.Blocks = 1024, []int{1, 1, 1, 1, 1, 1} }, []string{"32768 channels"}},
		{func(o *Options) { o.MaxBatch = 0 }, []string{"max_batch=0"}},
		{func(o *Options) { o.Shape, o.MaxBatch, o.Impl = RxVision(), 2048, Im2col }, []string{"max_batch=2048", "32 bits"}},
		{func(o *Options) { o.Impl = "winograd" }, []string{"impl=winograd", "implicit"}},
		{func(o *Options) { o.Precision = "fp8" }, []string{"precision=fp8"}},
		{func(o *Options) { o.Library = "on" }, []string{"library=on", "impl=implicit"}},
		{func(o *Options) { o.Library, o.Impl = "on", Im2col }, []string{"library=on", "cuBLAS"}},
		{func(o *Options) { o.Library, o.Impl, o.Precision = "on", Im2col, BF16 }, []string{"library=on", "precision=bf16"}},
		{func(o *Options) { o.Precision = "int8" }, []string{"precision=int8", "fp16"}},
	} {
		o := ok
		tt.change(&o)
		d := workloadtest.Host(t, host.Options{Threads: 1})
		s, err := d.NewStream("main")
		if err != nil {
			t.Fatal(err)
		}
		workloadtest.Refused(t, d, gpuprof.ErrUsage, tt.words, func() error {
			_, err := Open(context.Background(), d, s, o)
			return err
		})
		s.Close()
	}
}

// What does not fit is refused before anything is allocated.
func TestRefusesWhatDoesNotFit(t *testing.T) {
	d := workloadtest.Host(t, host.Options{Threads: 1, MemoryLimit: 1 << 20})
	s, err := d.NewStream("main")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	workloadtest.Refused(t, d, gpuprof.ErrMemory, []string{"max_batch=64", "smaller max_batch"}, func() error {
		_, err := Open(context.Background(), d, s, Options{Shape: Small(), MaxBatch: 64, Slots: 2})
		return err
	})
}

func TestEnqueueRefusesWrongUse(t *testing.T) {
	n, s := opened(t, workloadtest.Host(t, host.Options{Threads: 1}), Options{Shape: odd(), MaxBatch: 2, Slots: 1})
	for _, call := range [][3]int{{1, 0, 1}, {-1, 0, 1}, {0, len(n.groups), 1}, {0, -1, 1}, {0, 0, 0}, {0, 0, 3}} {
		if err := n.Enqueue(s, call[0], call[1], call[2]); !errors.Is(err, gpuprof.ErrUsage) {
			t.Errorf("slot %d, group %d, batch %d: %v", call[0], call[1], call[2], err)
		}
	}
	if _, err := n.Check(context.Background(), s, 0, []int{1, 2, 3}); !errors.Is(err, gpuprof.ErrUsage) {
		t.Errorf("three images in a batch of two: %v", err)
	}
	_, err := Open(context.Background(), n.dev, s, Options{Shape: Small(), MaxBatch: 1, Slots: 1, Weights: odd().DrawWeights(1)})
	if !errors.Is(err, gpuprof.ErrInput) {
		t.Errorf("weights of another network: %v", err)
	}
}

// roundRow gives the bits of op.RoundTo, for any float32 but what is no number.
func TestRoundRow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := []float32{0, 1, -1, inf32, -inf32, math.MaxFloat32, math.SmallestNonzeroFloat32}
	for range 100000 {
		if v := math.Float32frombits(rng.Uint32()); v == v {
			x = append(x, v)
		}
	}
	for i, name := range precisionNames[:4] {
		got, want := append([]float32(nil), x...), append([]float32(nil), x...)
		roundRow(i, got)
		op.RoundTo(name, want)
		for k := range x {
			if math.Float32bits(got[k]) != math.Float32bits(want[k]) {
				t.Fatalf("%s: %g becomes %g, want %g", name, x[k], got[k], want[k])
			}
		}
	}
}

// What is not a number is seen in the logits of its image, whatever the precision.
func TestNaNReachesTheLogits(t *testing.T) {
	for _, precision := range precisionNames {
		for _, impl := range []string{Implicit, Im2col, Direct} {
			x := make([]float32, 3*13*13)
			x[50] = float32(math.NaN())
			out, err := Classify(context.Background(), workloadtest.Host(t, host.Options{Threads: 1}), Options{Shape: odd(), Impl: impl, Precision: precision, MaxBatch: 1, Slots: 1}, x)
			if err != nil {
				t.Fatal(err)
			}
			if !math.IsNaN(float64(out[0])) {
				t.Errorf("%s %s: %v", impl, precision, out)
			}
		}
	}
}

func TestParseBlocks(t *testing.T) {
	got, err := ParseBlocks("2-12-1")
	if err != nil || len(got) != 3 || got[1] != 12 {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "2-", "2-0", "a", "1-1-1-1-1-1-1", "65", "2,2"} {
		if _, err := ParseBlocks(text); !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), "2-2-2-2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The costs of a batch: flops at least the floor's, and every byte of the parameters.
func TestCosts(t *testing.T) {
	for _, o := range []Options{{Impl: Implicit}, {Impl: Im2col}, {Impl: Direct}, {BN: Apart}, {Precision: BF16}} {
		o.Shape, o.MaxBatch, o.Slots = Small(), 8, 1
		n, _ := opened(t, workloadtest.Host(t, host.Options{Threads: 1}), o)
		var parts, least gpuprof.Cost
		for g := range n.groups {
			for _, p := range n.Parts(g, 8) {
				parts = parts.Add(p.Cost)
			}
			least = least.Add(n.Minimum(g, 8))
		}
		floor := o.Floor(8)
		if least.Flops < floor.Flops || parts.Flops < floor.Flops || parts.Launches < least.Launches || least.BytesRead < 4*o.Parameters() {
			t.Errorf("%s: parts %+v, least %+v, floor %+v", n.o, parts, least, floor)
		}
	}
}
