package gridsim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// openSimulated opens the simulated driver, with its libraries if they are asked for.
func openSimulated(t *testing.T, libraries bool) *cuda.Device {
	t.Helper()
	return workloadtest.Simulated(t, libraries, "cublas")
}

// Every variant of a step on the CUDA device: checked kernel by kernel, then run
// and compared with the host device.
func TestCUDA(t *testing.T) {
	for _, libraries := range []bool{false, true} {
		all := variants()
		if libraries { // where there are products
			all = []string{"impl=gemm", "impl=gemm,layout=hwc,chunk=5", "impl=split,precision=tf32", "impl=split,graph=on", "impl=gemm,autotune=on,precision=bf16"}
		}
		for _, set := range all {
			t.Run(fmt.Sprintf("libraries=%t,%s", libraries, set), func(t *testing.T) {
				settings := tinyGrid(set)
				if slices.ContainsFunc(settings, func(s string) bool { return s == "grid=192" }) {
					settings = append(settings, "grid=12", "scale=4", "keep=host") // the simulator takes a second for 192
				}
				s := openOn(t, openSimulated(t, libraries), settings...)
				workloadtest.Passes(t, s)
				run(t, s, 4)
				host := openSession(t, settings...)
				run(t, host, 4)
				tol := 4e-6
				if p := s.k.Precision; p != "fp32" {
					tol = toleranceOf[p]
				}
				if d := largest(op.As[float64](present(t, s)), op.As[float64](present(t, host))); !(d <= tol) {
					t.Errorf("after four steps the state is %.3g from the host's", d)
				}
			})
		}
	}
}

// More cells than a block, more channels than registers, more units than a chunk.
func TestCUDAShapes(t *testing.T) {
	for _, set := range []string{"grid=40,channels=8,hidden=20", "grid=36,channels=16,hidden=17", "grid=12,channels=20,hidden=33", "grid=12,channels=2,hidden=1,precision=tf32"} {
		for _, way := range []string{"layout=chw", "layout=hwc,border=zero", "impl=gemm,chunk=7", "impl=split,layout=hwc"} {
			if strings.Contains(set, "grid=36") && strings.Contains(way, "split") {
				continue // nothing that the others do not show, and slow to simulate
			}
			t.Run(set+" "+way, func(t *testing.T) {
				s := openOn(t, openSimulated(t, false), append(strings.Split(set, ","), strings.Split(way, ",")...)...)
				workloadtest.Passes(t, s)
			})
		}
	}
}
