package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/doctor"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/formats"
	"github.com/gpuprof/gpuprof/probes/machine"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/collate"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/e3nn"
	"github.com/gpuprof/gpuprof/workloads/gridsim"
	"github.com/gpuprof/gpuprof/workloads/gruflow"
	"github.com/gpuprof/gpuprof/workloads/serving"
)

// The tables of this file are the only place that names concrete workloads,
// devices and formats.

// wiring names the libraries, folders and workloads of this process. The zero value names the machine's own;
// gpuprof's tests set the fields.
type wiring struct {
	driver   string               // library that stands in for the driver
	root     string               // folder that holds /proc, /sys, /dev/kmsg and /usr; "" for the machine's
	more     []workloads.Workload // further entries of the table of workloads
	host     host.Options         // how long the host device measures peak rates; zero for the usual
	clock    func() time.Time     // of the budgets of tune; nil for the machine's
	recorder string               // settings put before those of the CUDA recorder
	limit    time.Duration        // least time of a gate's process; 0 for the usual
}

// tables gives the verbs the concrete devices, workloads, probes and formats.
func (w *wiring) tables() *cli.Tables {
	tool := cli.ToolOf(version, commit)
	return &cli.Tables{
		Workloads: w.listWorkloads, Devices: w.devices, NoGPU: w.missingGPUReason, Instruments: w.instrumentsOf, Samplers: programSamplers,
		DriverCUDA: w.driverCUDA, AskCUPTI: asksCUPTI(), Documents: formats.Documents(tool), Site: formats.Site, TellGitHub: formats.TellGitHub,
		Plots: formats.PlotKinds(), PlotsText: formats.PlotsText, CPUModel: machine.This().CPUModel, Tool: tool, Clock: w.clock, Recorder: w.recorder, Limit: w.limit,
	}
}

// machine hands doctor what it examines.
func (w *wiring) machine() *doctor.Machine {
	return &doctor.Machine{Examine: w.examineMachine, ExamineGPUs: w.examineGPUs, Faults: w.machineAccounts, KernelLog: w.readKernelLog, GPUs: w.lookAtGPUs}
}

// listWorkloads lists every workload in the order they are shown.
func (w *wiring) listWorkloads() []workloads.Workload {
	return append([]workloads.Workload{e3nn.New(), gruflow.New(), collate.New(), gridsim.New(), serving.New()}, w.more...)
}

// worked reports whether this process was started as a worker of the collate workload; if so, its work is done.
func worked() bool { return collate.WorkerMain() }

// devices lists what can be measured on here: the host, then every GPU the
// driver shows, those that do not answer last.
func (w *wiring) devices() []cli.Device {
	all := []cli.Device{{Name: "host", Doc: "the CPU: streams are goroutines, kernels are Go", Open: w.openHost}}
	gpus, err := cuda.Probe(w.cudaOptions())
	if err != nil {
		return all // noGPU says why
	}
	var silent []cli.Device
	for _, g := range gpus {
		d := cli.Device{Name: fmt.Sprintf("cuda:%d", g.Index), Open: func() (device.Device, error) { return w.openCUDA(g.Index) }}
		if g.Fault != nil {
			d.Doc = "a GPU that does not answer; gpuprof doctor says why"
			silent = append(silent, d)
			continue
		}
		d.Doc = fmt.Sprintf("%s, %s, %d multiprocessors, %s", g.Name, g.Arch, g.Cores, gpuprof.FormatBytes(float64(g.Memory)))
		all = append(all, d)
	}
	return append(all, silent...)
}

func (w *wiring) cudaOptions() cuda.Options {
	return cuda.Options{Library: w.driver, AllowSimulated: w.driver != ""}
}

func (w *wiring) openCUDA(index int) (device.Device, error) {
	o := w.cudaOptions()
	o.Index = index
	d, err := cuda.Open(o)
	if err != nil { // not d itself: a nil *cuda.Device is not a nil Device
		return nil, err
	}
	// Looked for now, so that what was found is among the device's facts and
	// workloads can choose by it.
	d.Libraries()
	return d, nil
}

func (w *wiring) openHost() (device.Device, error) {
	d, err := host.Open(w.host)
	if err != nil { // not d itself: a nil *host.Device is not a nil Device
		return nil, err
	}
	return d, nil
}

// examineMachine looks at everything but the devices.
func (w *wiring) examineMachine() []gpuprof.CheckLine {
	return machine.This().Examine(w.findDriver(), w.missingGPUError())
}

// findDriver loads the driver's library: only that shows that it can be used.
func (w *wiring) findDriver() machine.Driver {
	d, err := cuda.FindDriver(w.cudaOptions())
	return machine.Driver{Path: d.Path, CUDA: d.CUDA, Err: err, Absent: cuda.Absent(err)}
}

// missingGPUReason returns the reason why no GPU is used, as one clause; empty if a GPU is usable.
func (w *wiring) missingGPUReason() string {
	if err := w.missingGPUError(); err != nil {
		return cli.Sentence(err)
	}
	return ""
}

// missingGPUError is nil when a GPU can be used.
func (w *wiring) missingGPUError() error {
	_, err := cuda.Probe(w.cudaOptions())
	// The error of an installed driver is closer to the cause than a missing device node.
	if cuda.Absent(err) && w.driver == "" {
		return errors.New(machine.This().FindGPU(w.findDriver()).Why())
	}
	return err
}
