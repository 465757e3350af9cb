package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// epochs is a program each of whose steps is an epoch that makes the iterator of a loader, from so many lines in turn.
func epochs(workers, lines int) *model.Trace {
	step := 0
	return act(5, func(s *scene) {
		step++
		s.inKind(model.Python, fmt.Sprintf("train.py(%d): epoch", 10+step%lines), "", func() {
			s.inKind(model.Python, "torch/utils/data/dataloader.py(480): __iter__", "", func() {
				s.inKind(model.Python, "torch/utils/data/dataloader.py(415): _get_iterator", "", func() {
					for range workers {
						s.inKind(model.Python, "multiprocessing/process.py(110): start", "", func() { s.work(1000 * us) })
					}
					s.work(10 * us)
				})
			})
			s.op("aten::mm", bf16gemm, 1000*us)
			s.wait("cudaStreamSynchronize")
		})
	}).trace()
}

// Workers that one line starts again are found by the frames of the loader; a loader without workers, and loaders that each start
// theirs once, are not.
func TestWorkersStartedAgain(t *testing.T) {
	a, _ := analyse(t, epochs(2, 1))
	f := mustFind(t, a, gpuprof.RuleDataloaderStall)
	evidence(t, f, map[string]any{"workers": 2, "starts": 4})
	if !strings.HasPrefix(f.Title, "the program starts its 2 loader workers 4 times at train.py(10): epoch") {
		t.Error(f.Title)
	}
	if ns := f.StepNS; ns < 2000*us || ns > 2020*us {
		t.Errorf("claims %d ns of each step: %s", ns, f.Title)
	}
	if !strings.HasPrefix(f.PyTorch, "DataLoader(..., persistent_workers=True)") {
		t.Error(f.PyTorch)
	}
	for name, in := range map[string]*model.Trace{"no workers": epochs(0, 1), "a line each": epochs(2, 5)} {
		a, _ := analyse(t, in)
		if f := find(a, gpuprof.RuleDataloaderStall); f != nil {
			t.Errorf("%s: %s", name, f.Title)
		}
	}
}
