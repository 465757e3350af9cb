package cupti

import (
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

func frameworkOf(library string) model.Framework {
	switch name := strings.ToLower(library); {
	case strings.Contains(name, "libtorch"), strings.Contains(name, "libkineto"):
		return model.PyTorch
	case strings.Contains(name, "xla"), strings.Contains(name, "jax"), strings.Contains(name, "libtensorflow"):
		return model.JAX
	}
	return model.OtherFramework
}
