package cuda

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// TestDriverAdvice meets results while a device is used: the sentence says what
// was being done, which result it was and what helps.
func TestDriverAdvice(t *testing.T) {
	for configuration, c := range map[string]struct {
		kind error
		says []string
	}{
		"fail=cuMemHostAlloc@1:2":                  {gpuprof.ErrMemory, []string{"pinned memory", "CUDA_ERROR_OUT_OF_MEMORY", "reduce batch, edges or flows"}},
		"fail=cuModuleLoadDataEx@1:200":            {gpuprof.ErrDevice, []string{"loading kernel fill", "update the NVIDIA driver; if that does not help"}},
		"fail=cuModuleLoadDataEx@1:209":            {gpuprof.ErrDevice, []string{"loading kernel fill", "CUDA_ERROR_NO_BINARY_FOR_GPU", "cannot compile the kernel for this GPU", "update the NVIDIA driver"}},
		"fail=cuModuleLoadDataEx@1:221":            {gpuprof.ErrDevice, []string{"loading kernel fill", "CUDA error 221", "libnvidia-ptxjitcompiler", "NVIDIA_DRIVER_CAPABILITIES"}},
		"fail=cuModuleLoadDataEx@1:223":            {gpuprof.ErrDevice, []string{"loading kernel fill", "unset CUDA_DISABLE_PTX_JIT"}},
		"fail=cuLaunchKernel@1:701":                {gpuprof.ErrDevice, []string{"launching kernel fill on stream main", "threads per block", "use fewer"}},
		"fail=cuLaunchKernel@1:800":                {gpuprof.ErrDevice, []string{"launching kernel fill on stream main", "CUDA_ERROR_NOT_PERMITTED", "permissions of /dev/nvidia*"}},
		"fail=cuLaunchKernel@1:801":                {gpuprof.ErrDevice, []string{"launching kernel fill on stream main", "CUDA_ERROR_NOT_SUPPORTED", "reset the knob"}},
		"fail=cuMemcpyHtoDAsync_v2@1:304":          {gpuprof.ErrDevice, []string{"copying on stream main", "CUDA_ERROR_OPERATING_SYSTEM", "/dev/nvidia-uvm"}},
		"fail=cuGraphLaunch@1:701":                 {gpuprof.ErrDevice, []string{"launching a graph on stream main", "registers or shared memory", "another impl"}},
		"fail=cuLaunchKernel@1:702:sticky":         {gpuprof.ErrDevice, []string{"CUDA_ERROR_LAUNCH_TIMEOUT", "drives a display", "opened again; use a GPU without a display"}},
		"fail=cuLaunchKernel@1:700:sticky":         {gpuprof.ErrDevice, []string{"no kernel in flight", "CUDA_ERROR_ILLEGAL_ADDRESS", "opened again; look for Xid"}},
		"launch_fail=1:700":                        {gpuprof.ErrDevice, []string{"kernel fill on stream main failed", "opened again; run under compute-sanitizer"}},
		"launch_fail=1:214":                        {gpuprof.ErrDevice, []string{"kernel fill on stream main failed", "CUDA_ERROR_ECC_UNCORRECTABLE", "hardware fault", "reset the GPU"}},
		"fail=cuStreamSynchronize@1:46:sticky":     {gpuprof.ErrDevice, []string{"CUDA_ERROR_DEVICE_UNAVAILABLE", "exclusive mode", "nvidia-smi -c DEFAULT"}},
		"fail=cuStreamSynchronize@1:805:sticky":    {gpuprof.ErrDevice, []string{"CUDA error 805", "nvidia-cuda-mps-control"}},
		"fail=cuEventRecord@1:905":                 {gpuprof.ErrDevice, []string{"recording an event on stream main", "set graph=off"}},
		"fail=cuStreamCreateWithPriority@1:803":    {gpuprof.ErrDevice, []string{"making stream main", "different versions", "reboot"}},
		"fail=cuGraphInstantiateWithFlags@1:2":     {gpuprof.ErrMemory, []string{"instantiating a graph", "reduce batch, edges or flows"}},
		"fail=cuMemAllocFromPoolAsync@1:2":         {gpuprof.ErrMemory, []string{"allocating", "device memory", "reduce batch, edges or flows"}},
		"fail=cuStreamSynchronize@1:709:sticky":    {gpuprof.ErrDevice, []string{"CUDA_ERROR_CONTEXT_IS_DESTROYED", "look for Xid"}},
		"jit_error=line 1: no\n  line 2: nor that": {gpuprof.ErrDevice, []string{"loading kernel fill", `compiler says "line 1: no line 2: nor that"`, "update the NVIDIA driver"}},
	} {
		t.Run(configuration, func(t *testing.T) {
			d := openSim(t, Options{})
			sim.Set(t, d.drv.path, configuration)
			says(t, everything(d), c.kind, c.says...)
			_ = d.Close() // some of these lose the device
			sim.Reset(t, d.drv.path)
		})
	}
}

// TestNoAdvice: a result that says nothing about its cause gets none made up.
func TestNoAdvice(t *testing.T) {
	for _, r := range []Result{errInvalidValue, errInvalidContext, errInvalidHandle, errNotFound, 12345} {
		if a := r.lookUpAdvice(); a != (advice{}) {
			t.Errorf("result %d: %+v", r, a)
		}
	}
	for _, status := range []int32{5, 2000, 2005, 1004, 12345} {
		if a := dnnAdvice(status); a != (advice{}) {
			t.Errorf("cuDNN status %d: %+v", status, a)
		}
	}
	if a := blasAdvice[7]; a != (advice{}) {
		t.Errorf("cuBLAS status 7: %+v", a)
	}
}

// smallProduct is a matrix product of the library, ready to be launched.
func smallProduct(t *testing.T) (*Device, device.Stream, device.Func, device.Args) {
	t.Helper()
	d := openVendors(t)
	s := stream(t, d, "main")
	f := must(d.Load(&device.Kernel{Name: "gemm", Sig: gemmSig, Lib: "gemm_fp32"}))(t)
	var a device.Args
	for i := range 3 {
		a.SetBuf(i, must(d.Alloc(16, device.OnDevice))(t))
	}
	a.SetInt(3, 2)
	a.SetInt(4, 2)
	a.SetF32(5, 1)
	return d, s, f, a
}

// TestBlasAdvice: every status of a product, which then works again.
func TestBlasAdvice(t *testing.T) {
	d, s, f, a := smallProduct(t)
	for status, want := range map[int]string{
		3: "reduce batch, edges or flows", 8: "set precision=fp32 with library=off", 13: "look for Xid messages in dmesg, or set precision=fp32 with library=off",
		14: "install another version", 15: "no such product for this GPU; set precision=fp32", 7: "INVALID_VALUE)",
	} {
		kind := gpuprof.ErrDevice
		if status == blasAllocFailed {
			kind = gpuprof.ErrMemory
		}
		sim.Set(t, d.drv.path, fmt.Sprintf("fail=cublasGemmEx@1:%d", status))
		err := s.Launch(f, 2, &a)
		says(t, err, kind, "launching kernel gemm on stream main", fmt.Sprintf("cuBLAS status %d (CUBLAS_STATUS_", status))
		if err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	ok(t, s.Launch(f, 2, &a))
	ok(t, s.Sync())
}

// TestDNNAdvice: statuses of version 8 and 9 for the same thing are one advice.
func TestDNNAdvice(t *testing.T) {
	for want, statuses := range map[string][]int32{
		"list the programs on the GPU":        {1, 1001},
		"reduce batch, edges or flows":        {2, 4003, 4004},
		"a part of cuDNN is missing":          {14, 1002, 1008, 3009},
		"install another version of it":       {4, 4000, 4001, 4006},
		"this GPU does not support the layer": {6, 3007},
		"a kernel of cuDNN did not run":       {8, 5000, 5003},
		"this cuDNN has no such layer":        {9, 3000, 3002, 3014},
		"a library that cuDNN calls":          {11, 3008},
		"cuDNN and the driver do not fit; up": {3005, 3006},
	} {
		for _, status := range statuses {
			if got := dnnAdvice(status).newError(gpuprof.ErrDevice, "running").Error(); !strings.Contains(got, want) || !strings.HasPrefix(got, "running") {
				t.Errorf("status %d: %q, want %q", status, got, want)
			}
		}
	}
}

// TestAdviceIsOneSentence: what goes into an error is no text of its own.
func TestAdviceIsOneSentence(t *testing.T) {
	var all []advice
	for _, a := range resultAdvice {
		all = append(all, a)
	}
	for _, a := range blasAdvice {
		all = append(all, a)
	}
	for _, a := range dnnAdvices {
		all = append(all, a)
	}
	for _, a := range append(all, noMPS, noCapture) {
		if a.fix == "" || strings.ContainsAny(a.cause+a.fix, "\n") || strings.Contains(a.cause+a.fix, ". ") || strings.HasSuffix(a.fix, ".") || strings.Contains(a.cause, ";") {
			t.Errorf("%+v is no half of a sentence with a fix", a)
		}
	}
}
