package analyze

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// A range that comes after the same few of another one is the other half of an iteration,
// if the model is trained in it.
func TestStepsOfTurns(t *testing.T) {
	both, critic := []string{"many", "rare"}, []string{"many"}
	iteration := "annotation %s, from the end of one to the end of the next, with what takes turns with it"
	each := "annotation %s, from the start of one to the start of the next"
	for _, c := range []struct {
		name       string
		many, rare string // ranges
		turns      []int  // of many before each of rare
		length     int64  // of rare; many lasts 900 of 1,000
		optimizers []string
		source     string
	}{
		{"by their names", "critic %d", "generator", []int{5, 5, 5}, 900, nil, fmt.Sprintf(iteration, "generator")},
		{"by their optimizers", "D", "G", []int{5, 5, 5}, 300, both, fmt.Sprintf(iteration, "G")},
		{"a generator with a long update", "D", "G", []int{2, 2, 2, 2}, 1800, nil, fmt.Sprintf(iteration, "G")},
		{"one that steps as often is the same step", "D", "G", []int{1, 1, 1, 1}, 500, both, fmt.Sprintf(each, "D")},
		{"an evaluation by name", "train", "evaluate", []int{5, 5, 5}, 900, nil, fmt.Sprintf(each, "train")},
		{"an evaluation without an optimizer", "train", "check", []int{5, 5, 5}, 900, critic, fmt.Sprintf(each, "train")},
		{"a short range", "train", "print", []int{5, 5, 5}, 100, nil, fmt.Sprintf(each, "train")},
		{"after other numbers of steps", "train", "other", []int{5, 4, 5, 6}, 900, nil, fmt.Sprintf(each, "train")},
		{"after many steps", "train", "other", []int{11, 11, 11}, 900, nil, fmt.Sprintf(each, "train")},
		{"two are no pattern", "train", "other", []int{5, 5}, 900, nil, fmt.Sprintf(each, "train")},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder()
			at := int64(0)
			add := func(kind, name string, length int64) {
				b.host(model.Annotation, name, at, at+length)
				for _, k := range c.optimizers {
					if k == kind {
						b.host(model.Annotation, "Optimizer.step#Adam.step", at+length/2, at+length-10)
					}
				}
				at += max(1000, length+100)
			}
			var ends []int64
			for _, n := range c.turns {
				for k := range n {
					name := c.many
					if name == "critic %d" {
						name = fmt.Sprintf(name, k)
					}
					add("many", name, 900)
				}
				begin := at
				add("rare", c.rare, c.length)
				ends = append(ends, begin+c.length)
			}
			x := b.index(t)
			if x.StepSource != c.source {
				t.Fatalf("source %q, want %q", x.StepSource, c.source)
			}
			if c.source != fmt.Sprintf(iteration, c.rare) {
				return
			}
			var want []step
			from := int64(0)
			for k, end := range ends {
				want = append(want, step{c.rare, from, end, end, k == 0})
				from = end
			}
			if diff := cmp.Diff(want, stepsOf(x)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(model.Spans{{Start: ends[0], End: ends[len(ends)-1]}}, x.Steady); diff != "" {
				t.Errorf("steady: %s", diff)
			}
		})
	}
}
