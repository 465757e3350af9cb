package e3nn

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// Refuse implements workloads.Workload.
func (Workload) Refuse(d device.Info, set gpuprof.Settings) error {
	for _, refuse := range []func(device.Info, gpuprof.Settings) error{refuseProduct, refusePass, refuseTuning, refuseThreads, refusePrecision, refusePool} {
		if err := refuse(d, set); err != nil {
			return err
		}
	}
	if set["points"] == "atoms" {
		if info, err := os.Stat(set["structure"]); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
			return nil // only the session reads a pipe: it can be read once
		}
		c, err := openCrystal(context.Background(), set["structure"]) // does not block: a regular file has no writer to wait for
		if err != nil {
			return err
		}
		if n := len(c.Positions); set.Int("batch") > n {
			return tooManyPoints(set.Int("batch"), c.Name, n, "atoms")
		}
	}
	return nil
}

func refuseThreads(d device.Info, set gpuprof.Settings) error {
	return workloads.RefuseThreads(d, set.Int("threads"))
}

func refuseProduct(_ device.Info, set gpuprof.Settings) error {
	if set["impl"] == op.ImplFused && set.On("deterministic") {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting deterministic=on with impl=fused: its atomic adds have no fixed order").WithFix("use --set impl=csr, which is deterministic")
	}
	return nil
}

func refusePass(_ device.Info, set gpuprof.Settings) error {
	if err := workloads.Read[optim.Settings](set).Refuse(set, "batch", set.Int("batch")); err != nil {
		return err
	}
	if set.On("graph") && microOf(set) > 1 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting accumulate=%s with graph=on: a graph is captured for one batch, and each micro-batch leaves its gradients in another way", set["accumulate"]).WithFix("use accumulate=1, or graph=off")
	}
	switch again := set["recompute"]; {
	case set["streams"] == streamsThree && set["pass"] != passForward:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting streams=3 with pass=%s: its results are not kept twice, so that the next step cannot run beside their copy", set["pass"]).WithFix("use streams=2, or pass=forward")
	case again == recomputeOff:
	case set["pass"] == passForward:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting recompute=%s with pass=forward: a forward pass keeps no values for a way back", again).WithFix("use recompute=off, or pass=forces")
	}
	return nil
}

// refuseTuning refuses a search with a single candidate.
func refuseTuning(d device.Info, set gpuprof.Settings) error {
	impl := set["impl"]
	switch {
	case !set.On("autotune"):
	case impl == op.ImplUnfused:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting autotune=on with impl=unfused: its launches have one shape each").WithFix("use autotune=off, or impl=csr or fused")
	case d.Kind == "host" && impl == op.ImplFused:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting autotune=on with impl=fused on device %s: it has one launch shape there, and nothing to choose from", d.Name).WithFix("use autotune=off, or impl=csr")
	case d.Kind == "host" && set.On("deterministic"):
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting autotune=on with deterministic=on on device %s: its shapes add in different orders", d.Name).WithFix("use one of the two")
	}
	return nil
}

// isRounding reports whether a precision rounds to fewer bits than float32.
func isRounding(p string) bool { return p == op.TF32 || p == op.TF32x3 || p == op.BF16 || p == op.FP16 }

// refusePrecision refuses a precision or library that the device lacks.
func refusePrecision(d device.Info, set gpuprof.Settings) error {
	p, found := set["precision"], d.Facts["cublas"] != ""
	switch {
	case set.On("library") && !found:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting library=on on device %s: cuBLAS was not found or does not start, and gpuprof doctor says why", d.Name).WithFix("use library=auto or off")
	case set["library"] == libraryOff && isRounding(p) && found:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting library=off with precision=%s on device %s: our own product is float32 where cuBLAS is found", p, d.Name).WithFix("use library=auto, or precision=fp32")
	case (p == op.TF32 || p == op.TF32x3 || p == op.BF16) && lacksAmpere(d.Arch):
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting precision=%s on device %s (%s): it came with sm_80", p, d.Name, d.Arch).WithFix("use fp32 or fp16")
	}
	return nil
}

// refusePool refuses settings that act on a device's memory pool where the device has none. A step takes no memory,
// so these knobs have no other effect.
func refusePool(d device.Info, set gpuprof.Settings) error {
	trim, reset := set["pool_trim"], set["reset_stats"]
	trims := set.Every("pool_trim") > 0
	switch {
	case trims && d.Kind == "host":
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting pool_trim=%s on device %s: its memory comes from no pool", trim, d.Name).WithFix("use pool_trim=never, or a GPU")
	case trims && d.Facts["pool"] == "off":
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting pool_trim=%s on device %s: this GPU or its driver has no memory pools", trim, d.Name).WithFix("use pool_trim=never")
	case (reset == "on" || reset == resetSync) && d.Kind == "host":
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting reset_stats=%s on device %s: it keeps no peak that can be reset", reset, d.Name).WithFix("use reset_stats=off, or a GPU")
	}
	return nil
}

func lacksAmpere(arch string) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(arch, "sm_"))
	return strings.HasPrefix(arch, "sm_") && err == nil && n < 80
}
