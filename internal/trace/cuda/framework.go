package cuda

import (
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace"
)

// frameworkOf tells by a mapped library what a program is made with.
func frameworkOf(library string) trace.Framework {
	switch name := strings.ToLower(library); {
	case strings.Contains(name, "libtorch"), strings.Contains(name, "libkineto"):
		return trace.PyTorch
	case strings.Contains(name, "xla"), strings.Contains(name, "jax"), strings.Contains(name, "libtensorflow"):
		return trace.JAX
	}
	return trace.OtherFramework
}
