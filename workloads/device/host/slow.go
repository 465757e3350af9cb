//go:build slowstage

package host

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// slowed is a planted regression, to try the gate on: with
// GPUPROF_SLOW_KERNEL=tp_csr=0.2 that kernel takes a fifth longer than it would,
// spinning. Counters stay as they are, so that only the time tells. It is in no
// normal build; scripts/record/record_gates.sh makes one.
func slowed(k *device.Kernel) *device.Kernel {
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
