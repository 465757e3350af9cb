package optim

import (
	"github.com/gpuprof/gpuprof"
)

// Finite reports whether all values are finite numbers.
func Finite(v ...float32) bool {
	for _, x := range v {
		if f := float64(x); !gpuprof.IsFinite(f) {
			return false
		}
	}
	return true
}

// Diverged returns the error for a loss that was not finite after the given number of steps. The error names the first
// stage whose values are not finite. To find it, Diverged calls restart and repeats all steps: again(n) repeats step n
// and returns this stage, or "" if all values of the step are finite.
func Diverged(workload string, steps int, restart func() error, again func(n int) (stage string, err error)) error {
	if err := restart(); err != nil {
		return err
	}
	for n := range steps {
		switch stage, err := again(n); {
		case err != nil:
			return err
		case stage != "":
			return gpuprof.Errorf(gpuprof.ErrCheck, "training %s: the loss is not finite, and the first output that is not is that of stage %s", workload, stage).WithFix("use a smaller --set lr, or precision=fp32")
		}
	}
	return gpuprof.Errorf(gpuprof.ErrCheck, "training %s: a loss was not finite, and the same steps again have finite ones", workload).WithFix("use deterministic=on, and look for faults of the device's memory")
}
