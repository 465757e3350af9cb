package run

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// Default output files of gpuprof run --devices.
const (
	devicesFile = "devices.json"
	devicesPage = "devices.html"
)

// runDevices measures the workload on several GPUs, all together and each alone. It reports the GPUs in the form of a
// fleet report.
func (c *Cmd) runDevices(a *cli.App) error {
	doc := a.Documents.Fleet.Without("png", "svg").Called("a measurement of several devices")
	if err := c.refuseWithDevices(doc.Prints); err != nil {
		return err
	}
	kinds, err := devicesNamed(c.Devices, a.Devices(), a.NoGPU())
	if err != nil {
		return err
	}
	c.Device = kinds[0].Name
	warmup, err := measure.ParseWarmup(c.Warmup)
	if err != nil {
		return err
	}
	if err := c.checkNumbers(warmup); err != nil {
		return err
	}
	s := &session{Cmd: c, app: a}
	if s.aim, err = c.Resolve(a, "run"); err != nil {
		return err
	}
	if len(s.aim.Knobs) > 1 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "measuring a sweep with --devices: every setting would be measured on every device, and one table has room for one of the two").WithFix("give every knob one value, or leave out --devices")
	}
	c.completeTimes(warmup, s.aim.Device.Name)
	if len(c.Output) == 0 {
		c.Output = []string{devicesFile, devicesPage}
	}
	outs, err := doc.Outputs(c.Output, c.Force)
	if err == nil && c.NoClobber {
		err = cli.Unclobbered(outs)
	}
	if err != nil {
		return err
	}
	for _, d := range kinds {
		if err := checkHonoured(s.aim, d); err != nil {
			return err
		}
	}
	measured, err := s.deviceTurns(kinds)
	if err != nil {
		return err
	}
	var failed []error
	for _, m := range measured {
		if m.Failed != nil {
			failed = append(failed, fmt.Errorf("measuring on %s: %w", m.Device, m.Failed))
		}
	}
	r, err := fleet.OfDevices(measured, a.Tool)
	if err != nil {
		return errors.Join(failed...) // every device failed
	}
	return errors.Join(errors.Join(failed...), doc.Show(a, c.Format, r), doc.Save(a, outs, r, "", c.Force))
}

// checkHonoured returns an error if a device cannot run one of the settings. A device that cannot be opened is not an
// error here.
func checkHonoured(t *cli.Target, kind cli.Device) error {
	d, err := kind.Open()
	if err != nil {
		return nil
	}
	defer d.Close()
	for _, k := range t.Knobs {
		if err := t.Workload.Refuse(d.Info(), k); err != nil {
			return fmt.Errorf("measuring on %s: %w", kind.Name, err)
		}
	}
	return nil
}

// refuseWithDevices refuses flags that cannot be combined with --devices.
func (c *Cmd) refuseWithDevices(formats []string) error {
	with := func(flag, why, fix string) error {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading %s with --devices: %s", flag, why).WithFix("%s", fix)
	}
	switch {
	case c.Device != "auto":
		return with("--device "+c.Device, "both choose devices", "leave one out")
	case c.Runs != 1:
		return with(fmt.Sprint("--runs ", c.Runs), "every device has one process, which takes turns with the others", "leave one out: --devices without --runs compares devices, --runs without --devices measures the difference between processes")
	case c.Baseline != "":
		return with("--baseline "+c.Baseline, "a baseline is of one device", "run the device alone with --device, and compare that")
	case c.Mode == string(gpuprof.Cold):
		return with("--mode cold", "a cleared cache costs each device another time, in which the others have no company", "use --mode steady, hot or host")
	case !slices.Contains(formats, c.Format):
		return with("--format "+c.Format, "several devices have no such format", "use --format "+gpuprof.WordList(formats, "or"))
	}
	for _, path := range c.Output {
		if cli.IsRankFolder(path) {
			return with("-o "+path, "it is for the object of one rank, which has one device", "write a file such as -o "+devicesFile+", or start a rank for each device")
		}
	}
	return nil
}

// devicesNamed returns the GPUs that the values of --devices name: CUDA's index, cuda:N or all. noGPU is the reason why
// no GPU can be used.
func devicesNamed(values []string, all []cli.Device, noGPU string) ([]cli.Device, error) {
	gpus := slices.DeleteFunc(slices.Clone(all), func(d cli.Device) bool { return d.Kind() == cli.HostDevice })
	var names []string
	for _, d := range gpus {
		names = append(names, d.Name)
	}
	text := strings.Join(values, ",")
	refused := func(kind error, why, fix string) ([]cli.Device, error) {
		return nil, gpuprof.Errorf(kind, "choosing --devices %s: %s", text, why).WithFix("%s", fix)
	}
	var out []cli.Device
	for _, v := range values {
		if v == "all" && len(values) == 1 {
			out = gpus
			break
		}
		number := strings.TrimPrefix(v, "cuda:")
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return refused(gpuprof.ErrUsage, fmt.Sprintf("%q is no number of a GPU", v), "give CUDA's numbers, such as --devices 0,1, or all; gpuprof explain list devices shows them")
		}
		name := fmt.Sprint("cuda:", n)
		i := slices.Index(names, name)
		switch {
		case len(gpus) == 0:
			return refused(gpuprof.ErrDevice, noGPU, "use --device host")
		case i < 0:
			return refused(gpuprof.ErrDevice, "there is no "+name+cli.HiddenGPUs(), "the driver shows "+strings.Join(names, ", "))
		case slices.ContainsFunc(out, func(d cli.Device) bool { return d.Name == name }):
			return refused(gpuprof.ErrUsage, name+" is named twice", "name each device once")
		}
		out = append(out, gpus[i])
	}
	switch len(out) {
	case 0:
		return refused(gpuprof.ErrDevice, noGPU, "use --device host")
	case 1:
		return refused(gpuprof.ErrUsage, "it is one device, "+out[0].Name+", and there is none to compare it with", "name two or more, or use --device "+out[0].Name)
	}
	return out, nil
}
