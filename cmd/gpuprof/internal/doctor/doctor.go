// Package doctor implements gpuprof doctor: it reports what this machine can measure, and whether its GPUs are healthy,
// with exit codes for job schedulers. Main gives it a Machine. A card (health.Card) has one GPU's identity, condition,
// figures and fault reports. The package imports package cli, but no package of another subcommand, probe or device.
package doctor

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/record"
)

// Cmd has the flags of gpuprof doctor.
type Cmd struct {
	Format  string        `default:"table" formats:"health" placeholder:"FORMAT" help:"Format to print: ${healthFormats}."`
	Bench   bool          `help:"Measure every GPU for about a minute and say whether it is as fast as it should be."`
	Rounds  int           `default:"1" placeholder:"N" help:"With --bench, measure N times, begun a minute apart or more, and take the best of each figure (1)."`
	Output  []string      `short:"o" sep:"none" complete:"file" placeholder:"DIR/" help:"Also write FILE, in the format of its extension: ${healthFiles}, with --bench and --check .prom for Prometheus; may be repeated. With --bench, as a rank of a job, write an object for gpuprof fleet into DIR/ or s3://bucket/prefix."`
	Against string        `complete:"file" placeholder:"FILE.json" help:"With --bench, judge each figure beside a fleet's in place of siblings and ranges: FILE.json is what gpuprof fleet wrote with -o."`
	Force   bool          `help:"Replace files that gpuprof did not write."`
	Quick   bool          `help:"With --bench, measure less often and end within 30 s even where a GPU hangs."`
	Check   bool          `help:"Read what the GPUs and the kernel's log say of faults: launches nothing, and ends within 3 s even where a GPU hangs."`
	Within  time.Duration `placeholder:"TIME" help:"End --bench or --check after TIME (25s with --quick, 2s with --check) even where a GPU hangs."`
	As      string        `choices:"prolog,health" placeholder:"prolog|health" help:"Be a scheduler's prolog, which ends with 1 only for a fault by a GPU's own account, or a health check, which leaves GPUs in use alone and prints the command that drains the node."`
	Unknown string        `choices:"healthy,drain" placeholder:"healthy|drain" help:"With --as, treat GPUs that could not be checked as healthy, so that the node stays in service, or as a reason to drain it (healthy)."`
	Here    bool          `hidden:""` // examine the GPUs in this process
	Device  []string      `sep:"none" placeholder:"N|UUID|MIG" help:"With --bench, measure this GPU only: CUDA's index, a UUID, or a MIG instance's name; may be repeated."`
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return `Exits 4 when not even the host can be measured.

With --bench and --check it ends with 0 when every GPU is healthy, 1 when one is not, 3
when no source of faults answered for a GPU or there is nothing to compare it with (no equal
one in the machine, no shipped range), and 4 when one could not be measured or asked: usable
as a scheduler's node check.

` + cli.Examples("gpuprof doctor", "gpuprof doctor --bench", "gpuprof doctor --check --as prolog", "gpuprof doctor --format json", "gpuprof doctor -o machine.html")
}

// Run implements gpuprof doctor.
func (c *Cmd) Run(a *cli.App, machine *Machine) error {
	if slices.Contains(c.Device, "") {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof doctor: a --device is empty").WithFix("give CUDA's index, a UUID or a MIG instance's name, or leave it out")
	}
	if c.Rounds < 1 || c.Rounds > 1 && !c.Bench {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof doctor: --rounds %d is for --bench and at least 1", c.Rounds).WithFix("give --bench --rounds 3")
	}
	if err := c.checkFlags(); err != nil {
		return err
	}
	if c.Bench {
		return c.measureGPUs(a, machine)
	}
	if c.Check {
		return c.check(a, machine)
	}
	if len(c.Device) > 0 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof doctor: --device %s chooses what --bench measures", c.Device[0]).WithFix("add --bench, or leave --device out")
	}
	return c.examineMachine(a, machine)
}

// examineMachine reports which devices and probes work on this machine. It returns an error if not even the host can be
// measured.
func (c *Cmd) examineMachine(a *cli.App, machine *Machine) error {
	k := a.Documents.Diagnosis
	if i := slices.IndexFunc(c.Output, cli.IsRankFolder); i >= 0 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof doctor: the folder %s is for what --bench measures", c.Output[i]).WithFix("add --bench, or give -o a file")
	}
	outs, err := k.Outputs(c.Output, c.Force)
	if err != nil {
		return err
	}
	d := &gpuprof.Diagnosis{Head: document.NewHead(document.Diagnosis, a.Tool), Checks: examineDevices(a, machine)}
	document.CleanStrings(d)
	if err := errors.Join(k.Show(a, c.Format, d), k.Save(a, outs, d, "", c.Force)); err != nil {
		return err
	}
	if l, bad := d.Vital(); bad {
		return gpuprof.Errorf(gpuprof.ErrDevice, "examining this machine: %s: %s", l.Name, l.Reason).WithFix("%s", l.Fix)
	}
	return nil
}

// examineDevices returns lines about every device and the machine. It examines the GPUs before it opens a device,
// because NVML would then list this process as a user of a GPU.
func examineDevices(a *cli.App, machine *Machine) []gpuprof.CheckLine {
	gpus := machine.ExamineGPUs()
	var lines []gpuprof.CheckLine
	for _, k := range a.Devices() {
		lines = append(lines, examineDevice(k))
	}
	if self, err := os.Executable(); err == nil {
		lines = append(lines, pathLine(self))
	}
	lines = append(lines, machine.Examine()...)
	if l, ok := examineCUPTI(a); ok && record.CanCUDA() {
		lines = append(lines, l)
	}
	return groupByCause(append(lines, gpus...))
}

// groupByCause sets Because of lines that are missing only because the GPU driver is missing. It sets Detail of lines
// on which no measurement depends, so that they are hidden by default, unless a line is limited: then the reader needs
// its reason and fix.
func groupByCause(lines []gpuprof.CheckLine) []gpuprof.CheckLine {
	needDriver := []string{"gpu nodes", "gpu", "gpu devices", "gpu telemetry", "gpu kernels", "cuBLAS", "cuDNN", "NVRTC", "cupti"}
	details := []string{"command", "cpu quota", "cpu frequency", "clock", "timer", "cpu energy (RAPL)", "perf events"}
	const driver = "gpu driver"
	noDriver := slices.ContainsFunc(lines, func(l gpuprof.CheckLine) bool { return l.Name == driver && l.State == gpuprof.Missing })
	for i := range lines {
		l := &lines[i]
		if noDriver && l.State == gpuprof.Missing && slices.Contains(needDriver, l.Name) {
			l.Because = driver
		}
		l.Detail = slices.Contains(details, l.Name) && l.State != gpuprof.Limited
	}
	return lines
}

func examineDevice(k cli.Device) gpuprof.CheckLine {
	isHost := k.Name == "host"
	l := gpuprof.CheckLine{Name: "device " + k.Name, State: gpuprof.OK, Vital: isHost}
	d, err := k.Open()
	if err != nil {
		l = gpuprof.FailedCheck(l.Name, err)
		l.Vital = isHost
		return l
	}
	defer d.Close()
	info := d.Info()
	units := "threads"
	if !isHost {
		units = "multiprocessors"
	}
	l.Found = fmt.Sprintf("%s, %s, %d %s, %s available", info.Name, info.Arch, info.Cores, units, gpuprof.FormatBytes(float64(d.Memory().Available)))
	return l
}
