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
		"iterations of two benchmarks":      {build("benchmark", 2, "iteration", 8), "annotation iteration", 15},
	} {
		if !strings.HasPrefix(c.x.StepSource, c.source) || len(c.x.Steps) != c.steps {
			t.Errorf("%s: %d steps of %q, want %d of %q", name, len(c.x.Steps), c.x.StepSource, c.steps, c.source)
		}
	}
}
