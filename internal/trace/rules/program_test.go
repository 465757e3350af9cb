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
