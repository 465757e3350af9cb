//go:build slowstage

package host

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// slowKernel slows a kernel down, to test that the gate finds the regression. With GPUPROF_SLOW_KERNEL=tp_csr=0.2 the
// kernel tp_csr takes a fifth longer, by spinning. Counters stay unchanged, so only the time shows it. Only the build
// made by scripts/record/record_gates.sh contains it.
func slowKernel(k *device.Kernel) *device.Kernel {
	name, text, ok := strings.Cut(os.Getenv("GPUPROF_SLOW_KERNEL"), "=")
	by, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil || k.Name != name {
		return k
	}
	slow := *k
	slow.Host = func(a *device.Args, lo, hi int) {
		began := time.Now()
		k.Host(a, lo, hi)
		for until := time.Duration(float64(time.Since(began)) * (1 + by)); time.Since(began) < until; {
		}
	}
	return &slow
}
