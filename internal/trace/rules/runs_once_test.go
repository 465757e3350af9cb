package rules_test

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// A program without steps that allocates for each of its launches is told so; one that allocates before them is not.
func TestAllocationInALoopWithoutSteps(t *testing.T) {
	for name, each := range map[string]bool{"in the loop": true, "before it": false} {
		s := newScene()
		s.native = true
		for i := range 12 {
			if !each || i > 0 {
				s.call("cudaMalloc", 90*us)
			}
			if each {
				s.kernel(strings.Repeat("k", i+1)+"_gpu", 100*us)
				s.wait("cudaFree")
			}
		}
		for i := range 12 {
			s.kernel(strings.Repeat("q", i+1)+"_gpu", 100*us)
		}
		a, x := analyse(t, s.end().trace())
		f := find(a, gpuprof.RuleAllocatorChurn)
		if x.Stepped() || (f != nil) != each || each && !strings.Contains(f.Title, "after the first launch (11 allocations, 12 releases") {
			t.Errorf("%s: steps of %q, the findings are %v", name, x.StepSource, a.Findings)
		}
	}
}

// Idle time before work of unknown launch bounds nothing: no sentence calls it a wait on the device.
func TestBoundOfUnknownLaunches(t *testing.T) {
	s := newScene()
	s.native = true
	for range 20 {
		s.kernel("solve_12_gpu", 100*us)
		s.wait("cudaDeviceSynchronize")
		s.work(900 * us)
	}
	in := s.trace()
	for i := range in.GPU {
		in.GPU[i].Launch, in.GPU[i].Corr = -1, 0
	}
	in.Host = in.Host[:1]
	a, _ := analyse(t, in)
	if !strings.HasPrefix(a.Bound.Text, "The limit of the program is unknown: in ") || a.Bound.By != "" {
		t.Errorf("%q: %s", a.Bound.By, a.Bound.Text)
	}
}

// Graphs recorded as one operation each hide what the device does: the program is not healthy.
func TestGraphsAsAWhole(t *testing.T) {
	for name, graph := range map[string]string{"whole": analyze.WholeGraph, "kernels": bf16gemm} {
		s := newScene()
		in := s.repeat(3, func() { s.kernel(graph, 900*us) }).end().trace()
		in.Warn(analyze.WholeGraphs, "CUDA graphs were recorded as one operation each", "record with --cuda-graph-trace=node to see them")
		a, _ := analyse(t, in)
		got := a.Answer()
		if hidden := got.Verdict == "not decided" && got.Action != nil && strings.Contains(got.Action.Text, "--cuda-graph-trace=node"); hidden != (graph == analyze.WholeGraph) {
			t.Errorf("%s: [%s] %s %+v", name, got.Verdict, got.Sentence, got.Action)
		}
	}
}

// Two serial kernels are named by the longer one, and their change is in the words of the program.
func TestSerialKernels(t *testing.T) {
	s := newScene()
	s.native = true
	in := s.repeat(3, func() {
		s.kernelOn(7, "main_46_gpu", 900*us, 1)
		s.kernelOn(7, "main_41_gpu", 700*us, 1)
	}).end().trace()
	for i := range in.GPU {
		in.GPU[i].Threads = 1
	}
	a, _ := analyse(t, in)
	f := mustFind(t, a, gpuprof.RuleSmallGrid)
	if !strings.HasPrefix(f.Title, "kernels are serial, the longest is main_46_gpu: one thread runs each on a device of ") || !strings.Contains(f.PyTorch, "parallel loop gang vector") {
		t.Errorf("%s -> %s", f.Title, f.PyTorch)
	}
}

// A program that runs once and pauses once is told of the pause, without a claim: it may wait for input.
func TestOnePauseOfAProgramThatRunsOnce(t *testing.T) {
	for name, pauses := range map[string]int{"once": 1, "often": 8} {
		s := newScene()
		s.native = true
		for i := range 12 {
			s.kernel(strings.Repeat("k", i+1)+"_gpu", 100*us)
			s.wait("cudaDeviceSynchronize")
			if i < pauses {
				s.work(4000 * us)
			}
		}
		a, x := analyse(t, s.trace())
		f := mustFind(t, a, gpuprof.RuleHostBound)
		if once := pauses == 1; x.Stepped() || once != (f.ClaimNS == 0) || once != strings.Contains(f.Title, "waits for the host once, for ") {
			t.Errorf("%s: steps of %q: %s", name, x.StepSource, f.Title)
		}
	}
}
