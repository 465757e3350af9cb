package rules_test

import (
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Programs of directives are told apart by the names that compilers give their kernels.
func TestProgramsOfDirectives(t *testing.T) {
	for kernel, want := range map[string]analyze.Program{
		"nvkernel_solve_F1L118_2":                 analyze.OpenMP,
		"__omp_offloading_fd02_8c1_step_l40":      analyze.OpenMP,
		"advance_mu_t_412_gpu":                    analyze.OpenACC,
		"advance_mu_t_412_gpu__red":               analyze.OpenACC,
		"evaluate_spread_kernel(const Cell *)":    analyze.CUDA,
		"julia_kernel_1234(CuDeviceArray<Float>)": analyze.Julia,
	} {
		s := newScene()
		for range 3 {
			s.kernel(kernel, 100*us)
		}
		tr := s.end().trace()
		tr.Format = model.Nsys
		if a, _ := analyse(t, tr); a.Recording.Program != want {
			t.Errorf("%s is of %s, want %s", kernel, a.Recording.Program, want)
		}
	}
}

// PyTorch's kernels in a process that is not Python make a program in C++, unless a name shows Python or an engine.
func TestProgramsOnLibTorch(t *testing.T) {
	const kernel = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)"
	for _, test := range []struct {
		process, beside string
		want            analyze.Program
	}{
		{"/opt/tracker/build/train_gaussians", "", analyze.LibTorch},
		{"infer", "", analyze.LibTorch},
		{"infer", "train.py(12): step", analyze.PyTorch},
		{"infer", "sgl_kernel::silu_and_mul", analyze.PyTorch},
		{"", "", analyze.PyTorch},
		{"/usr/bin/python3.11", "", analyze.PyTorch},
		{"pt_main_thread", "", analyze.PyTorch},
		{"VLLM::EngineCore", "", analyze.PyTorch},
		{"ray::Worker.step", "", analyze.PyTorch},
		{"torchrun", "", analyze.PyTorch},
	} {
		s := newScene()
		for range 3 {
			s.kernel(kernel, 100*us)
		}
		if test.beside != "" {
			s.kernel(test.beside, 10*us)
		}
		tr := s.end().trace()
		tr.Format, tr.Process = model.Nsys, test.process
		if a, _ := analyse(t, tr); a.Recording.Program != test.want {
			t.Errorf("process %q with %q is of %s, want %s", test.process, test.beside, a.Recording.Program, test.want)
		}
	}
}
