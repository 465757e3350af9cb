//go:build !race

// Under the race detector these runs take three times as long. What measures in goroutines runs into faults there in
// TestFaultsOnCUDA: each fault on one workload, every workload into faults of set-up and sampling and into a lost device.

package measure

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// What only some settings ask of the driver and the vendor's libraries fails,
// too: the error names it, the result is partial, nothing is left behind.
func TestFaultsOfSettingsOnCUDA(t *testing.T) {
	sample := func(configuration string, kind error) fault { return fault{configuration, "sample", kind, false} }
	for _, c := range []struct {
		workload, set string // comma-separated
		libraries     bool
		fault         fault
		says          string
	}{
		{"e3nn", "", true, sample("fail=cublasGemmEx@5:13", gpuprof.ErrDevice), "cuBLAS status 13 (CUBLAS_STATUS_EXECUTION_FAILED)"},
		{"e3nn", "", true, sample("fail=cublasGemmEx@5:3", gpuprof.ErrMemory), "cuBLAS status 3 (CUBLAS_STATUS_ALLOC_FAILED)"},
		{"e3nn", "precision=bf16", true, fault{"fail=cublasGemmEx@2:15", "warm-up", gpuprof.ErrDevice, false}, "cuBLAS status 15"},
		{"e3nn", "precision=tf32", true, fault{"fail=cublasGemmEx@1:7", "check", gpuprof.ErrDevice, false}, "cuBLAS status 7"},
		{"e3nn", "graph=on", true, sample("fail=cuGraphLaunch@6:1", gpuprof.ErrDevice), "launching a graph"},
		{"e3nn", "graph=on", false, sample("launch_fail=9:700", gpuprof.ErrDevice), "CUDA_ERROR_ILLEGAL_ADDRESS"},
		{"e3nn", "graph=on", false, fault{"fail=cuGraphInstantiateWithFlags@1:2", "", gpuprof.ErrMemory, false}, "instantiating a graph"},
		{"e3nn", "", false, sample("fail=cuMemcpyHtoDAsync_v2@3:1", gpuprof.ErrDevice), "copying on stream"},
		{"e3nn", "", false, sample("fail=cuMemcpyDtoHAsync_v2@3:1", gpuprof.ErrDevice), "copying on stream"},
		{"e3nn", "", false, sample("fail=cuStreamWaitEvent@3:1", gpuprof.ErrDevice), "wait for an event"},
		{"e3nn", "pinned=off,async_copy=off,streams=1", false, sample("fail=cuMemcpyHtoDAsync_v2@3:719:sticky", gpuprof.ErrDevice), "CUDA_ERROR_LAUNCH_FAILED"},
		{"e3nn", "pool_trim=every:2", false, sample("fail=cuMemPoolTrimTo@2:1", gpuprof.ErrDevice), "trimming the memory pool"},
		{"e3nn", "reset_stats=on", false, sample("fail=cuMemPoolSetAttribute@2:1", gpuprof.ErrDevice), "resetting the peak"},
		{"e3nn", "item_reads=2", false, sample("fail=cuMemcpyDtoHAsync_v2@4:214:sticky", gpuprof.ErrDevice), "CUDA_ERROR_ECC_UNCORRECTABLE"},
		{"e3nn", "autotune=on", true, fault{"fail=cublasGemmEx@2:14", "", gpuprof.ErrDevice, false}, "cuBLAS status 14"},
		{"gruflow", "impl=fused", true, sample("fail=cublasGemmEx@5:14", gpuprof.ErrDevice), "cuBLAS status 14"},
		{"gruflow", "impl=cudnn", true, sample("fail=cudnnRNNForward@3:5000", gpuprof.ErrDevice), "cuDNN status 5000 (CUDNN_STATUS_EXECUTION_FAILED)"},
		{"gruflow", "impl=cudnn", true, sample("fail=cudnnRNNForward@3:4004", gpuprof.ErrMemory), "cuDNN status 4004"},
		{"gruflow", "graph=on,impl=plain", false, sample("fail=cuGraphLaunch@6:1", gpuprof.ErrDevice), "launching a graph"},
		{"gruflow", "graph=on", true, sample("launch_fail=2:719", gpuprof.ErrDevice), "CUDA_ERROR_LAUNCH_FAILED"},
		{"gruflow", "fill=on", false, sample("launch_fail=9:702", gpuprof.ErrDevice), "CUDA_ERROR_LAUNCH_TIMEOUT"},
		{"collate", "", false, sample("fail=cuMemcpyHtoDAsync_v2@3:1", gpuprof.ErrDevice), "copying on stream"},
		{"collate", "pinned=off,async_copy=off,streams=1", false, sample("fail=cuMemcpyHtoDAsync_v2@3:1", gpuprof.ErrDevice), "copying on stream"},
		{"collate", "pinned=batch", false, sample("fail=cuMemHostAlloc@2:2", gpuprof.ErrMemory), "pinned memory"},
	} {
		t.Run(strings.Join([]string{c.workload, c.set, c.fault.configuration}, " "), func(t *testing.T) {
			all := workloadsByName()
			w := all[slices.IndexFunc(all, func(w workloads.Workload) bool { return w.Name() == c.workload })]
			var set []string
			if c.set != "" {
				set = strings.Split(c.set, ",")
			}
			if err := runsInto(t, w, c.fault, c.libraries, set...); err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q does not say %q", err, c.says)
			}
		})
	}
}

// Each injected fault, on every workload.
func TestEveryFaultOnCUDA(t *testing.T) {
	all := workloadsByName()
	for k, w := range all {
		for i, name := range slices.Sorted(maps.Keys(faults)) {
			if !nightly && k != (i+1)%len(all) {
				continue // by day each fault on one workload, and in TestFaultsOnCUDA on another
			}
			t.Run(w.Name()+", "+name, func(t *testing.T) {
				_ = runsInto(t, w, faults[name], false) // which looks at the error itself
			})
		}
	}
}
