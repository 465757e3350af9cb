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

// Only this file and the other files wire_*.go import concrete workloads, devices and formats.

// wiring overrides libraries, folders and workloads, for tests. The zero value means the machine's own.
type wiring struct {
	driver   string               // library that replaces the CUDA driver
	root     string               // folder that holds /proc, /sys, /dev/kmsg and /usr; "" for the machine's
	more     []workloads.Workload // additional workloads
	host     host.Options         // options of the host device's measurement of peak rates; zero for the defaults
	clock    func() time.Time     // clock for the budgets of tune; nil for the system's
	recorder string               // lines "name=number" of extra settings for the CUDA recorder, before its own
	limit    time.Duration        // shortest time limit of a process that gpuprof gate measures; 0 for the default
}

func (w *wiring) tables() *cli.Tables {
	tool := cli.ToolOf(version, commit)
	return &cli.Tables{
		Workloads: w.listWorkloads, Devices: w.devices, NoGPU: w.missingGPUReason, Instruments: w.instrumentsOf, Samplers: programSamplers, Energy: energyCounters,
		DriverCUDA: w.driverCUDA, AskCUPTI: asksCUPTI(), Documents: formats.Documents(tool), Site: formats.Site, Opening: formats.Opening, ReportToGitHub: formats.TellGitHub,
		Plots: formats.PlotKinds(), PlotsText: formats.PlotsText, CPUModel: machine.This().CPUModel, Tool: tool, Clock: w.clock, Recorder: w.recorder, Limit: w.limit,
	}
}

func (w *wiring) machine() *doctor.Machine {
	return &doctor.Machine{
		Examine:     func() []gpuprof.CheckLine { return machine.This().Examine(w.findDriver(), w.missingGPUError()) },
		ExamineGPUs: w.examineGPUs, Faults: w.machineAccounts, KernelLog: w.readKernelLog, GPUs: w.lookAtGPUs,
	}
}

// listWorkloads lists the workloads in display order.
func (w *wiring) listWorkloads() []workloads.Workload {
	return append([]workloads.Workload{e3nn.New(), gruflow.New(), collate.New(), gridsim.New(), serving.New()}, w.more...)
}

// runWorker runs this process as a worker of the workload collate, if that workload started it; otherwise it returns
// false.
func runWorker() bool { return collate.WorkerMain() }

// devices lists the devices to measure on: the host first, then the GPUs that the CUDA driver lists. GPUs with a fault
// come last.
func (w *wiring) devices() []cli.Device {
	all := []cli.Device{{Name: "host", Doc: "the CPU: streams are goroutines, kernels are Go", Open: w.openHost}}
	gpus, err := cuda.Probe(w.cudaOptions())
	if err != nil {
		return all // missingGPUReason has the reason
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

func (w *wiring) openGPU(index int) (*cuda.Device, error) {
	o := w.cudaOptions()
	o.Index = index
	return cuda.Open(o)
}

func (w *wiring) openCUDA(index int) (device.Device, error) {
	d, err := w.openGPU(index)
	if err != nil { // returning d would make a non-nil device.Device of a nil *cuda.Device
		return nil, err
	}
	// Load the libraries now: workloads base choices on the device's facts, which include the libraries.
	d.Libraries()
	return d, nil
}

func (w *wiring) openHost() (device.Device, error) {
	d, err := host.Open(w.host)
	if err != nil { // returning d would make a non-nil device.Device of a nil *host.Device
		return nil, err
	}
	return d, nil
}

// findDriver loads the CUDA driver's library, because only loading it shows whether it works.
func (w *wiring) findDriver() machine.Driver {
	d, err := cuda.FindDriver(w.cudaOptions())
	return machine.Driver{Path: d.Path, CUDA: d.CUDA, Err: err, Absent: cuda.Absent(err)}
}

// missingGPUReason returns why no GPU can be used, as one clause; "" if a GPU can be used.
func (w *wiring) missingGPUReason() string {
	if err := w.missingGPUError(); err != nil {
		return cli.Sentence(err)
	}
	return ""
}

func (w *wiring) missingGPUError() error {
	_, err := cuda.Probe(w.cudaOptions())
	// If a driver is installed, its error is closer to the cause than a missing device node.
	if cuda.Absent(err) && w.driver == "" {
		return errors.New(machine.This().FindGPU(w.findDriver()).Why())
	}
	return err
}
