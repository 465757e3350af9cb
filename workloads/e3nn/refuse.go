package e3nn

import (
	"cmp"
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// Refuse implements workloads.Workload.
func (Workload) Refuse(d device.Info, set gpuprof.Settings) error {
	k := workloads.Read[settings](set)
	if err := cmp.Or(refuseProduct(k), refusePass(k, set), refuseTuning(d, k), workloads.RefuseThreads(d, k.Threads), refusePrecision(d, k), refusePool(d, k)); err != nil {
		return err
	}
	if k.Atoms {
		if info, err := os.Stat(k.Structure); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
			return nil // only the session reads a pipe: it can be read once
		}
		c, err := openCrystal(context.Background(), k.Structure) // does not block: a regular file has no writer to wait for
		if err != nil {
			return err
		}
		if n := len(c.Positions); k.Batch > n {
			return tooManyPoints(k.Batch, c.Name, n, "atoms")
		}
	}
	return nil
}

func refuseProduct(k settings) error {
	if k.Impl == op.ImplFused && k.Deterministic {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting deterministic=on with impl=fused: its atomic adds have no fixed order").WithFix("use --set impl=csr, which is deterministic")
	}
	return nil
}

func refusePass(k settings, set gpuprof.Settings) error {
	if err := k.Refuse(set, "batch", k.Batch); err != nil {
		return err
	}
	if k.Graph && k.Micro() > 1 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting accumulate=%d with graph=on: a graph is captured for one batch, and each micro-batch leaves its gradients in another way", k.Accumulate).WithFix("use accumulate=1, or graph=off")
	}
	switch again := k.Recompute; {
	case k.ThreeStreams && k.Pass != passForward:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting streams=3 with pass=%s: its results are not kept twice, so that the next step cannot run beside their copy", k.Pass).WithFix("use streams=2, or pass=forward")
	case again == recomputeOff:
	case k.Pass == passForward:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting recompute=%s with pass=forward: a forward pass keeps no values for a way back", again).WithFix("use recompute=off, or pass=forces")
	}
	return nil
}

// refuseTuning refuses autotune=on where it would have nothing to choose from: where all launches have one shape, or
// where deterministic=on excludes all but one.
func refuseTuning(d device.Info, k settings) error {
	switch {
	case !k.Autotune:
	case k.Impl == op.ImplUnfused:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting autotune=on with impl=unfused: its launches have one shape each").WithFix("use autotune=off, or impl=csr or fused")
	case d.Kind == "host" && k.Impl == op.ImplFused:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting autotune=on with impl=fused on device %s: it has one launch shape there, and nothing to choose from", d.Name).WithFix("use autotune=off, or impl=csr")
	case d.Kind == "host" && k.Deterministic:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting autotune=on with deterministic=on on device %s: its shapes add in different orders", d.Name).WithFix("use one of the two")
	}
	return nil
}

// isRounding reports whether a precision rounds to fewer bits than float32.
func isRounding(p string) bool { return p == op.TF32 || p == op.TF32x3 || p == op.BF16 || p == op.FP16 }

// refusePrecision refuses a precision or a library setting that the device does not offer.
func refusePrecision(d device.Info, k settings) error {
	p, found := k.Precision, d.Facts["cublas"] != ""
	switch {
	case k.Library == "on" && !found:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting library=on on device %s: cuBLAS was not found or does not start, and gpuprof doctor says why", d.Name).WithFix("use library=auto or off")
	case k.Library == libraryOff && isRounding(p) && found:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting library=off with precision=%s on device %s: our own product is float32 where cuBLAS is found", p, d.Name).WithFix("use library=auto, or precision=fp32")
	case (p == op.TF32 || p == op.TF32x3 || p == op.BF16) && lacksAmpere(d.Arch):
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting precision=%s on device %s (%s): it came with sm_80", p, d.Name, d.Arch).WithFix("use fp32 or fp16")
	}
	return nil
}

// refusePool refuses settings that act on a device's memory pool if the device has none. A step allocates no memory, so
// these knobs have no other effect.
func refusePool(d device.Info, k settings) error {
	trims, reset := k.PoolTrim != never, k.ResetStats
	switch {
	case trims && d.Kind == "host":
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting pool_trim=%s on device %s: its memory comes from no pool", k.PoolTrim, d.Name).WithFix("use pool_trim=never, or a GPU")
	case trims && d.Facts["pool"] == "off":
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting pool_trim=%s on device %s: this GPU or its driver has no memory pools", k.PoolTrim, d.Name).WithFix("use pool_trim=never")
	case (reset == "on" || reset == resetSync) && d.Kind == "host":
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting reset_stats=%s on device %s: it keeps no peak that can be reset", reset, d.Name).WithFix("use reset_stats=off, or a GPU")
	}
	return nil
}

func lacksAmpere(arch string) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(arch, "sm_"))
	return strings.HasPrefix(arch, "sm_") && err == nil && n < 80
}
