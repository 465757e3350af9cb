package analyze

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// TestLayersAreNoSteps: ranges that repeat the same number of times inside larger ranges are layers. The larger ranges
// are the steps, and without two of them there are none. The batches of epochs stay steps.
func TestLayersAreNoSteps(t *testing.T) {
	build := func(outer string, passes int, inner string, layers int64) *Index {
		b := newBuilder()
		length := layers*100 + 20
		for p := range int64(passes) {
			at := p * length
			if outer != "" {
				b.host(model.Annotation, strings.ReplaceAll(outer, "%d", fmt.Sprint(p)), at, at+length-5)
			}
			for l := range layers {
				from := at + 5 + l*100
				for k, name := range strings.Split(inner, "|") {
					b.host(model.Annotation, strings.ReplaceAll(name, "%d", fmt.Sprint(l)), from+int64(k), from+90-int64(k))
				}
				b.launch("k", from+5, 5, from+20, from+80)
			}
		}
		return b.index(t)
	}
	for name, c := range map[string]struct {
		x      *Index
		source string
		steps  int
	}{
		"layers in two passes":              {build("forward", 2, "layer_%d", 8), "annotation forward", 2},
		"parts in two steps":                {build("step %d", 2, "compute", 8), "annotation step ", 2},
		"blocks in many passes":             {build("forward", 5, "block %d", 4), "annotation forward", 5},
		"layers of one pass":                {build("forward", 1, "layer_%d", 8), model.WholeTrace, 0},
		"parts of layers":                   {build("forward", 1, "layer_%d|FeedForward", 8), model.WholeTrace, 0},
		"parts of layers in training":       {build("train", 1, "layer_%d|FeedForward", 8), model.WholeTrace, 0},
		"iterations of one attention":       {build("attention test", 1, "iteration", 8), "annotation iteration", 7},
		"calls in a benchmark of attention": {build("attention benchmark", 1, "call", 8), "annotation call", 7},
		"calls in one attention":            {build("attention test", 1, "call", 8), model.WholeTrace, 0},
		"batches in blocks":                 {build("block of batches", 3, "train_batch", 8), "annotation train_batch", 23},
		"kernels in blocks of batches":      {build("block of batches", 3, "work", 8), "annotation work", 23},
		"layers alone":                      {build("", 1, "decoder_layer", 8), model.WholeTrace, 0},
		"batches of two epochs":             {build("epoch %d", 2, "batch", 8), "annotation batch", 15},
		"modules of one forward":            {build("forward", 1, "Linear|Dropout", 8), model.WholeTrace, 0},
		"modules of many forwards":          {build("forward", 5, "nn.Module: Conv2d_%d", 8), "annotation forward", 5},
		"modules of a program":              {build("program", 1, "encoder.%d.BatchNorm2d|scale", 8), model.WholeTrace, 0},
		"a benchmark of one module":         {build("", 8, "Linear", 1), "annotation Linear", 7},
		"a linear solver":                   {build("solver", 1, "LinearSolve", 8), "annotation LinearSolve", 7},
		"iterations of two benchmarks":      {build("benchmark", 2, "iteration", 8), "annotation iteration", 15},
	} {
		if !strings.HasPrefix(c.x.StepSource, c.source) || len(c.x.Steps) != c.steps {
			t.Errorf("%s: %d steps of %q, want %d of %q", name, len(c.x.Steps), c.x.StepSource, c.steps, c.source)
		}
	}
}

// TestCopiesMakeNoSteps: repeats in the order of launches need a kernel.
func TestCopiesMakeNoSteps(t *testing.T) {
	for _, kind := range []model.Kind{model.Memcpy, model.Kernel} {
		b := newBuilder()
		b.t.Format = model.Nsys
		for k := range int64(60) {
			at := 10_000 + k*1000
			b.launch(string(rune('a'+k%5)), at, 50, at+100, at+700)
			b.t.GPU[k].Kind = kind
		}
		if x := b.index(t); (len(x.Steps) > 0) != (kind == model.Kernel) {
			t.Errorf("%v: %d steps of %q", kind, len(x.Steps), x.StepSource)
		}
	}
}

// TestLayersInLaunchOrder: launches that repeat within one pass are layers. The pass is marked by a range around all of
// them, or by the autograd engine's operators.
func TestLayersInLaunchOrder(t *testing.T) {
	kernels := []string{"gemm_qk", "softmax", "gemm_v", "gelu", "norm"}
	build := func(add func(b *builder, at func(repeat, kernel int64) int64)) *Index {
		b := newBuilder()
		b.t.Format = model.Nsys
		at := func(repeat, kernel int64) int64 { return 10_000 + repeat*5000 + kernel*900 + repeat%3*7 }
		for r := range int64(12) {
			for k, name := range kernels {
				from := at(r, int64(k))
				b.launch(name, from, 50, from+100, from+700)
			}
		}
		add(b, at)
		return b.index(t)
	}
	// pass adds operators around the repeats' launches, and one launch before or after all repeats.
	pass := func(b *builder, at func(repeat, kernel int64) int64, repeats, single string, singleAt int64) {
		for r := range int64(12) {
			for k := range int64(len(kernels)) {
				b.host(model.Op, repeats, at(r, k)-20, at(r, k)+80)
			}
		}
		b.host(model.Op, single, singleAt, singleAt+100)
		b.launch("loss", singleAt+10, 50, singleAt+20, singleAt+90)
	}
	const engine = "autograd::engine::evaluate_function: MmBackward0"
	for name, c := range map[string]struct {
		add   func(b *builder, at func(repeat, kernel int64) int64)
		steps bool
	}{
		"no marks": {func(*builder, func(int64, int64) int64) {}, true},
		"a range of one forward pass": {func(b *builder, _ func(int64, int64) int64) {
			b.host(model.Annotation, "forward pass", 100, 90_000, onLane(1))
		}, false},
		"a range of the whole program": {func(b *builder, _ func(int64, int64) int64) {
			b.host(model.Annotation, "forward_benchmark profile", 20_000, 30_000, onLane(1)).host(model.Annotation, "main loop", 100, 90_000, onLane(2))
		}, true},
		"backward of one step": {func(b *builder, at func(int64, int64) int64) { pass(b, at, engine, "aten::mm", 500) }, false},
		"forward of one step":  {func(b *builder, at func(int64, int64) int64) { pass(b, at, "aten::mm", engine, 80_000) }, false},
		"evaluation after one step": {func(b *builder, at func(int64, int64) int64) {
			pass(b, at, "aten::mm", engine, 500)
		}, true},
		"inference": {func(b *builder, at func(int64, int64) int64) { pass(b, at, "aten::mm", "aten::zeros", 500) }, true},
	} {
		if x := build(c.add); strings.HasPrefix(x.StepSource, launchOrderSource) != c.steps {
			t.Errorf("%s: %d steps of %q", name, len(x.Steps), x.StepSource)
		}
	}
}

// TestMarksAreNoSteps: ranges of a few hundred nanoseconds, as libraries push them at each call, enclose no work and are
// steps only if their name is an iteration's.
func TestMarksAreNoSteps(t *testing.T) {
	for name, steps := range map[string]int{"cub::DeviceReduce::Sum": 0, "iteration": 7} {
		b := newBuilder()
		for k := range int64(8) {
			at := k * 100_000
			b.host(model.Annotation, name, at, at+400)
			b.launch("k", at+1000, 500, at+2000, at+90_000)
		}
		if x := b.index(t); len(x.Steps) != steps {
			t.Errorf("%s: %d steps of %q, want %d", name, len(x.Steps), x.StepSource, steps)
		}
	}
}
