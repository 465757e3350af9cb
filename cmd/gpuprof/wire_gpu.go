package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/doctor"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/record"
	"github.com/gpuprof/gpuprof/probes/nvml"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/devicebench"
	"github.com/gpuprof/gpuprof/workloads/measure"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// This file connects doctor and the recorders with the CUDA device and NVML.

// examineGPUs returns doctor's lines about the CUDA device, its libraries, telemetry and every GPU. NVML lists the
// processes on each GPU; it is read before a CUDA device is opened, so that the lists do not include this process.
func (w *wiring) examineGPUs() []gpuprof.CheckLine {
	telemetry, lib := examineTelemetry()
	var lines []gpuprof.CheckLine
	devices := lib.Devices()
	nvml.Identify(devices, nvml.Locate(w.machineRoot()))
	for _, d := range devices {
		lines = append(lines, d.Examine()...)
	}
	cards, _ := w.accounts(context.Background(), lib, nil)
	lines = append(lines, faultLines(cards)...)
	if err := lib.Close(); err != nil {
		telemetry = gpuprof.FailedCheck("gpu telemetry", err)
	}
	return append(append([]gpuprof.CheckLine{w.examineCUDA(), telemetry, w.examineKernels()}, w.examineLibraries()...), lines...)
}

// instrumentsOf returns the NVML instruments of a CUDA device, and a function that closes NVML. The instruments are nil
// for other devices and without NVML; doctor reports the reason.
func (w *wiring) instrumentsOf(dev device.Device) (in measure.Instruments, done func()) {
	nothing := func() {}
	gpu, ok := dev.(*cuda.Device)
	if !ok || w.driver != "" { // NVML does not see a device of a replaced driver
		return nil, nothing
	}
	lib, err := nvml.Open()
	if err != nil {
		return nil, nothing
	}
	d, err := lib.Device(gpu.UUID())
	if err != nil {
		_ = lib.Close() // the reason for no instruments is the error above
		return nil, nothing
	}
	return d, func() { _ = lib.Close() }
}

// programSamplers returns a sampler of telemetry for each GPU, for the time in which gpuprof records a program. The key
// is the prefix of the GPU's series, such as "gpu0/". done closes NVML. The map is nil without NVML; doctor reports the
// reason.
func programSamplers() (all map[string]record.Sampler, done func()) {
	lib, err := nvml.Open()
	if err != nil {
		return nil, func() {}
	}
	all = map[string]record.Sampler{}
	for _, info := range lib.Devices() {
		if d, err := lib.Device(strconv.Itoa(info.Index)); err == nil {
			all[fmt.Sprintf("gpu%d/", info.Index)] = d
		}
	}
	return all, func() { _ = lib.Close() }
}

// energyCounters returns the energy counter (J) of each GPU by its UUID. unknown is the reason if there is none. done
// closes NVML.
func energyCounters() (counters map[string]func() (joules float64, ok bool), unknown string, done func()) {
	lib, err := nvml.Open()
	if err != nil {
		return nil, "NVML cannot be read: " + cli.Sentence(err), func() {}
	}
	return lib.EnergyCounters(), "NVML lists no GPU", func() { _ = lib.Close() }
}

// examineTelemetry opens NVML; lib is nil if it does not open.
func examineTelemetry() (l gpuprof.CheckLine, lib *nvml.Library) {
	lib, err := nvml.Open()
	if err != nil {
		return gpuprof.FailedCheck("gpu telemetry", err), nil
	}
	list := lib.Devices()
	l = gpuprof.CheckLine{Name: "gpu telemetry", State: gpuprof.OK, Found: fmt.Sprintf("NVML, %d GPUs", len(list))}
	if len(list) > 0 {
		l.Found += fmt.Sprintf(", driver %s, CUDA %s", cmp.Or(list[0].Driver, "unknown"), cmp.Or(list[0].CUDA, "unknown"))
	}
	return l, lib
}

func (w *wiring) examineCUDA() gpuprof.CheckLine {
	list, err := cuda.Probe(w.cudaOptions())
	if err != nil {
		return gpuprof.FailedCheck("gpu devices", err)
	}
	l := gpuprof.CheckLine{Name: "gpu devices", State: gpuprof.OK}
	var names []string
	for _, d := range list {
		if d.Fault != nil { // this line reports the first fault; each faulty GPU also has its own line
			if l.State == gpuprof.OK {
				why := gpuprof.FailedCheck(l.Name, d.Fault)
				l.State, l.Reason, l.Fix = gpuprof.Limited, why.Reason, why.Fix
			}
			names = append(names, d.String())
			continue
		}
		names = append(names, fmt.Sprintf("cuda:%d %s %s, CUDA %s", d.Index, d.Name, cmp.Or(d.UUID, "without a UUID"), d.CUDA))
	}
	l.Found = strings.Join(names, "; ")
	if v, set := os.LookupEnv("CUDA_VISIBLE_DEVICES"); set && l.State == gpuprof.OK {
		l.State, l.Reason, l.Fix = gpuprof.Limited, fmt.Sprintf("CUDA_VISIBLE_DEVICES=%q may hide others", v), "unset it to see all GPUs"
	}
	if list[0].Simulated {
		l.State, l.Reason, l.Fix = gpuprof.Limited, "the driver is simulated, so no time means anything", "use a GPU and its driver"
	}
	return l
}

// examineKernels times the loading of the kernel that takes longest to compile, and reports the folder of the driver's
// cache of compiled kernels.
func (w *wiring) examineKernels() gpuprof.CheckLine {
	before := cuda.FindCodeCache()
	first, err := w.loadSlowest()
	if err != nil {
		return gpuprof.FailedCheck("gpu kernels", err)
	}
	return kernelLine(op.SlowestToCompile().Name, first, before, cuda.FindCodeCache())
}

type firstLoad struct {
	took      time.Duration
	carried   bool // gpuprof contains the kernel's machine code for this GPU
	simulated bool
}

// kernelLine reports how long a kernel took to load. before and cache are the driver's cache of compiled kernels before
// and after the load; if it grew, the driver compiled the kernel.
func kernelLine(name string, first firstLoad, before, cache cuda.CodeCache) gpuprof.CheckLine {
	l := gpuprof.CheckLine{Name: "gpu kernels", State: gpuprof.OK}
	took := gpuprof.FormatSeconds(first.took.Seconds())
	switch {
	case first.simulated:
		l.Found = name + " was loaded and not timed, since the driver is simulated"
	case first.carried:
		l.Found = fmt.Sprintf("%s was loaded in %s, as machine code that the program holds for this GPU", name, took)
		return l // the driver has nothing to compile
	case cache.Err != nil:
		l.Found = fmt.Sprintf("%s was ready after %s", name, took)
	case cache.Bytes > before.Bytes || cache.Files > before.Files:
		l.Found = fmt.Sprintf("%s was compiled in %s, at its first use with this driver", name, took)
	default:
		l.Found = fmt.Sprintf("%s was ready after %s, as the driver had kept it", name, took)
	}
	if cache.Err != nil {
		why := gpuprof.FailedCheck(l.Name, cache.Err)
		l.State, l.Reason, l.Fix = gpuprof.Limited, why.Reason, why.Fix
		return l
	}
	l.Found += fmt.Sprintf("; compiled kernels are kept in %s (%s)", cache.Path, gpuprof.FormatBytes(float64(cache.Bytes)))
	return l
}

// loadSlowest loads the kernel that takes longest to compile, on the first GPU without a fault.
func (w *wiring) loadSlowest() (firstLoad, error) {
	d, info, err := w.openFirst()
	if err != nil {
		return firstLoad{}, err
	}
	defer d.Close()
	if _, err := d.Load(op.SlowestToCompile()); err != nil {
		return firstLoad{}, err
	}
	_, n, took := d.LoadTime()
	return firstLoad{took, n > 0, info.Simulated}, nil
}

// vendorLibraries lists NVIDIA's libraries, with the consequence if one is missing.
var vendorLibraries = []struct{ name, key, fallback string }{
	{"cuBLAS", "cublas", "matrix products run on gpuprof's own float32 kernels, which round to TF32, bf16 and fp16 and are no faster for it"},
	{"cuDNN", "cudnn", "recurrent layers and convolutions run on gpuprof's own float32 kernels"},
	{"NVRTC", "nvrtc", "tensor products of irreps that no preset has, and the gradients of deepaw's, run on general kernels"},
}

// examineLibraries returns a line about each of NVIDIA's libraries; the first GPU without a fault loads them.
func (w *wiring) examineLibraries() []gpuprof.CheckLine {
	found, lacks, err := w.cudaLibraries()
	var lines []gpuprof.CheckLine
	for _, v := range vendorLibraries {
		l := gpuprof.CheckLine{Name: v.name, State: gpuprof.OK, Found: strings.TrimSpace(found[v.key] + " " + found[v.key+"_path"])}
		switch {
		case err != nil:
			l.State, l.Found = gpuprof.Missing, "not looked for"
			l.Reason, l.Fix = "there is no GPU to use it with", "see gpu devices"
		case lacks[v.key] != nil:
			why := gpuprof.FailedCheck(v.name, lacks[v.key])
			l.State, l.Found, l.Fix = gpuprof.Limited, "none", why.Fix
			l.Reason = v.fallback + ", because " + why.Reason
		}
		lines = append(lines, l)
	}
	return lines
}

// answeringGPUs lists the GPUs without a fault. If there is none, the error has the reason.
func (w *wiring) answeringGPUs() ([]cuda.DeviceInfo, error) {
	list, err := cuda.Probe(w.cudaOptions())
	return slices.DeleteFunc(list, func(d cuda.DeviceInfo) bool { return d.Fault != nil }), err
}

// openFirst opens the first GPU without a fault.
func (w *wiring) openFirst() (*cuda.Device, cuda.DeviceInfo, error) {
	list, err := w.answeringGPUs()
	if err != nil {
		return nil, cuda.DeviceInfo{}, err
	}
	d, err := w.openGPU(list[0].Index)
	return d, list[0], err
}

// cudaLibraries loads NVIDIA's libraries. found has the version of each by its key ("cublas"), and its path by the key
// with "_path"; lacks has the errors of the missing ones.
func (w *wiring) cudaLibraries() (found map[string]string, lacks map[string]error, err error) {
	d, _, err := w.openFirst()
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	_, _ = d.Compiler() // loads NVRTC, which Libraries does not load; MissingLibraries has its error
	return d.Libraries(), d.MissingLibraries(), nil
}

// gpuList has the GPUs that CUDA and NVML list. It implements doctor.GPUs.
type gpuList struct {
	w       *wiring
	visible []cuda.DeviceInfo // GPUs that CUDA shows this process
	all     []nvml.DeviceInfo // GPUs that NVML shows; nil without NVML
	lib     *nvml.Library
	// noTelemetry is the reason if lib is nil.
	noTelemetry error
}

// lookAtGPUs lists the GPUs of CUDA and NVML. It fails if neither lists a usable GPU. The caller closes the result,
// even if the error is not nil.
func (w *wiring) lookAtGPUs() (doctor.GPUs, error) {
	s := &gpuList{w: w}
	if s.lib, s.noTelemetry = nvml.Open(); s.noTelemetry == nil {
		s.all = s.lib.Devices()
	}
	var err error
	if s.visible, err = w.answeringGPUs(); err != nil && len(s.Hidden()) == 0 {
		return s, err
	}
	return s, nil
}

// Close closes NVML.
func (s *gpuList) Close() error { return s.lib.Close() }

// Hidden lists the UUIDs of usable GPUs and MIG instances that CUDA does not show this process, but would show a
// process with their UUID in CUDA_VISIBLE_DEVICES. Of several MIG instances CUDA shows only one.
func (s *gpuList) Hidden() []string {
	if _, told := os.LookupEnv("CUDA_VISIBLE_DEVICES"); told {
		return nil // the user hid them
	}
	seen := map[string]bool{}
	for _, v := range s.visible {
		seen[v.UUID] = true
	}
	var out []string
	add := func(uuid string) {
		if uuid != "" && !seen[uuid] {
			out = append(out, uuid)
		}
	}
	for _, d := range s.all {
		if d.MIG != nvml.On && d.Fault == "" { // no process can use a broken GPU
			add(d.UUID)
		}
		for _, p := range d.Instances {
			add(p.UUID)
		}
	}
	return out
}

// Shown lists the GPUs that CUDA shows this process.
func (s *gpuList) Shown() []doctor.GPUName {
	var out []doctor.GPUName
	for _, v := range s.visible {
		out = append(out, doctor.GPUName{Index: v.Index, UUID: v.UUID, Name: v.Name})
	}
	return out
}

// Elsewhere returns the UUID of the GPU or MIG instance that NVML finds by a name, for a name that Shown does not list.
func (s *gpuList) Elsewhere(name string) (string, error) {
	if s.lib == nil {
		return "", fmt.Errorf("choosing device %s: CUDA shows this process no such GPU, and NVML, which knows of others, is not open: %w", name, s.noTelemetry)
	}
	at, err := nvml.Select(s.all, name)
	if err != nil {
		return "", err
	}
	if at.Instance >= 0 {
		return s.all[at.GPU].Instances[at.Instance].UUID, nil
	}
	return s.all[at.GPU].UUID, nil
}

// Target returns the GPU at a position in Shown, ready to be measured.
func (s *gpuList) Target(index int) (devicebench.Target, error) {
	v := s.visible[index]
	if v.Simulated {
		return devicebench.Target{}, gpuprof.Errorf(gpuprof.ErrDevice, "measuring cuda:%d: it is a simulated device, whose times mean nothing", v.Index).WithFix("run on a GPU")
	}
	t := devicebench.Target{Device: fmt.Sprintf("cuda:%d", v.Index), UUID: v.UUID, Condition: health.Condition{MIG: v.MIG},
		Open: func() (device.Device, error) { return s.w.openCUDA(v.Index) }}
	if s.lib == nil {
		return t, nil
	}
	if d, err := s.lib.Device(v.UUID); err == nil { // a GPU can be measured without telemetry
		_, part := d.Instance()
		t.Instruments, t.Condition = d, conditionOf(d.Info(), part)
		t.CPUs, _ = d.NearCPUs()
	}
	return t, nil
}

// conditionOf returns the state of a GPU on which its speed depends: link, power limit, clocks and memory faults; 0
// means unknown. mig reports that the device is a MIG instance.
func conditionOf(d nvml.DeviceInfo, mig bool) health.Condition {
	known := func(n gpuprof.Number) float64 {
		if !nvml.Known(n) {
			return 0
		}
		return float64(n)
	}
	c := health.Condition{MIG: mig, LinkWidth: int(known(d.PCIeWidth)), LinkWidthMax: int(known(d.PCIeWidthMax)), LinkGenMax: int(known(d.PCIeGenMax)),
		PowerLimitW: known(d.PowerLimit), PowerBaseW: known(d.PowerDefault), AppClockHz: known(d.AppSMClock), AppBaseHz: known(d.DefaultSMClock)}
	if e := known(d.PowerEnforced); e > 0 && (c.PowerLimitW == 0 || e < c.PowerLimitW) {
		c.PowerLimitW = e // the driver enforces a limit below the one set
	}
	c.MemoryFault, _, _ = d.RepairHealth()
	if c.MemoryFault == "" {
		c.MemoryFault, _ = d.ECCHealth()
	}
	return c
}
