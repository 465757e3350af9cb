package cli

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// TargetFlags has the flags that gpuprof run and gpuprof run --check share.
type TargetFlags struct {
	Workload string   `arg:"" optional:"" complete:"workload" help:"Name of the workload, see gpuprof explain list."`
	Device   string   `default:"auto" complete:"device" placeholder:"NAME" help:"auto, host, cuda or cuda:N."`
	Preset   string   `complete:"preset" placeholder:"NAME" help:"Named set of knob values, see gpuprof explain list presets."`
	Set      []string `sep:"none" complete:"knob" placeholder:"KNOB=VALUE[,VALUE]" help:"Set a knob, see gpuprof explain list knobs; for run, several values make a sweep."`
	Seed     uint64   `default:"1" placeholder:"N" help:"Seed of inputs and weights (1)."`
}

// Target is a workload, its settings and a device, from checked TargetFlags.
type Target struct {
	Workload workloads.Workload
	Preset   string
	Device   Device
	choice   string             // note about the device that "auto" chose; "" if the user named one
	Set      []gpuprof.Settings // settings by the user, one per point of the sweep
	Knobs    []gpuprof.Settings // complete settings, one per point
	Info     device.Info        // of the device; set by Refuse
}

// Resolve checks the flags, except for checks that need an open device. verb is the subcommand's name for errors.
func (t *TargetFlags) Resolve(a *App, verb string) (*Target, error) {
	w, err := a.FindWorkload(t.Workload, verb)
	if err != nil {
		return nil, err
	}
	out := &Target{Workload: w, Preset: t.Preset}
	if out.Device, out.choice, err = a.ChooseDevice(t.Device, a.NoGPU()); err != nil {
		return nil, err
	}
	out.Preset = cmp.Or(out.Preset, workloads.DefaultPreset(w, out.Device.Kind()))
	if _, err := workloads.FindPreset(w, out.Preset); err != nil {
		return nil, err
	}
	axes, err := ParseSets(t.Set)
	if err != nil {
		return nil, err
	}
	out.Set = combineAxes(axes)
	for _, s := range out.Set {
		k, err := workloads.Resolve(w, out.Preset, s)
		if err != nil {
			return nil, err
		}
		out.Knobs = append(out.Knobs, k)
	}
	return out, refuseRepeated(axes, out.Knobs)
}

// Refuse opens the device, and returns the workload's error if the device cannot run a setting. Otherwise it notes
// which device "auto" chose, and why.
func (t *Target) Refuse(a *App) error {
	d, err := t.Device.Open()
	if err != nil {
		return err
	}
	defer d.Close()
	t.Info = d.Info()
	for _, k := range t.Knobs {
		if err := t.Workload.Refuse(t.Info, k); err != nil {
			return err
		}
	}
	if t.choice != "" {
		a.Note("%s", t.choice)
	}
	return nil
}

// FindWorkload returns the workload with the given name. If there is none, the error is ErrUsage and lists the
// workloads. verb is the subcommand's name for errors.
func (a *App) FindWorkload(name, verb string) (workloads.Workload, error) {
	if w := a.WorkloadNamed(name); w != nil {
		return w, nil
	}
	names := a.WorkloadNames()
	valid := strings.Join(names, ", ")
	if name == "" {
		own := "run by gpuprof run -- CMD"
		if verb == "tune" {
			own = "tuned by gpuprof tune -- CMD"
		}
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof %s: no workload was named", verb).WithFix("give one of %s; a program of your own is %s", valid, own)
	}
	return nil, gpuprof.Errorf(gpuprof.ErrUsage, "choosing workload %s: there is no such workload", name).WithFix("the workloads are %s%s", valid, gpuprof.DidYouMean(name, names))
}

// WorkloadNames lists the workloads' names in display order.
func (a *App) WorkloadNames() (names []string) {
	for _, w := range a.Workloads() {
		names = append(names, w.Name())
	}
	return names
}

// WorkloadNamed returns the workload with the given name, or nil.
func (a *App) WorkloadNamed(name string) workloads.Workload {
	for _, w := range a.Workloads() {
		if w.Name() == name {
			return w
		}
	}
	return nil
}

// ChooseDevice returns the device that a value of --device names. noGPU is the reason why no GPU can be used; "" if one
// can. If name is "auto", why is a note about the choice.
func (a *App) ChooseDevice(name, noGPU string) (d Device, why string, err error) {
	all := a.Devices()
	names := []string{"auto"}
	for _, d := range all {
		if d.Name == name {
			return d, "", nil
		}
		names = append(names, d.Name)
	}
	switch {
	case name == "auto" && len(all) > 1:
		return all[1], fmt.Sprintf("measuring on %s, %s", all[1].Name, all[1].Doc), nil
	case name == "auto":
		return all[0], fmt.Sprintf("measuring on the %s device: %s", all[0].Name, noGPU), nil
	case name == "cuda" && len(all) > 1:
		return all[1], "", nil
	case isCUDA(name) && len(all) > 1:
		return d, "", gpuprof.Errorf(gpuprof.ErrDevice, "opening device %s: the driver shows %s%s", name, strings.Join(names[2:], ", "), HiddenGPUs()).WithFix("use one of them")
	case isCUDA(name):
		return d, "", gpuprof.Errorf(gpuprof.ErrDevice, "opening device %s: %s", name, noGPU).WithFix("use --device host")
	}
	if id := strings.ToUpper(name); strings.HasPrefix(id, "GPU-") || strings.HasPrefix(id, "MIG-") {
		return d, "", gpuprof.Errorf(gpuprof.ErrUsage, "choosing device %s: a UUID names no device here", name).WithFix("set CUDA_VISIBLE_DEVICES=%s and use --device cuda", name)
	}
	names = slices.Compact(append(names, "cuda", "cuda:N"))
	if meant := deviceMeant(name); meant != "" {
		return d, "", gpuprof.Errorf(gpuprof.ErrUsage, "choosing device %s: there is no such device", name).WithFix("did you mean --device %s? The devices are %s", meant, strings.Join(names, ", "))
	}
	return d, "", gpuprof.Errorf(gpuprof.ErrUsage, "choosing device %s: there is no such device", name).WithFix("the devices are %s%s", strings.Join(names, ", "), gpuprof.DidYouMean(name, names))
}

// deviceMeant returns the device name for a common alias (cpu, gpu0, nvidia:1); "" if it is unknown.
func deviceMeant(name string) string {
	word, n, numbered := strings.Cut(strings.ToLower(name), ":")
	if !numbered {
		word = strings.TrimRight(word, "0123456789")
		n = strings.ToLower(name)[len(word):]
	}
	switch word {
	case "cpu", HostDevice:
		return HostDevice
	case "gpu", "cuda", "nvidia", "":
		if _, err := strconv.ParseUint(n, 10, 16); err == nil {
			return "cuda:" + n
		}
		if n == "" && word != "" {
			return "cuda"
		}
	}
	return ""
}

// ChoosePlainly is ChooseDevice for subcommands whose figures are stored: "auto" never falls back to the host, which
// the user must name.
func (a *App) ChoosePlainly(name, verb string) (Device, error) {
	why := a.NoGPU()
	d, _, err := a.ChooseDevice(name, why)
	if err == nil && name == "auto" && d.Name == "host" {
		err = gpuprof.Errorf(gpuprof.ErrDevice, "choosing the device of gpuprof %s: %s", verb, why).WithFix("%s never falls back by itself: give --device host", verb)
	}
	return d, err
}

// HiddenGPUs returns the value of CUDA_VISIBLE_DEVICES, which may hide GPUs, in parentheses; "" if it is not set.
func HiddenGPUs() string {
	if v, set := os.LookupEnv("CUDA_VISIBLE_DEVICES"); set {
		return fmt.Sprintf(" (CUDA_VISIBLE_DEVICES=%q)", v)
	}
	return ""
}

func isCUDA(name string) bool {
	rest, ok := strings.CutPrefix(name, "cuda")
	if !ok || rest == "" {
		return ok
	}
	n, err := strconv.Atoi(strings.TrimPrefix(rest, ":"))
	return err == nil && n >= 0 && rest[0] == ':'
}

// IsWorkload reports whether there is a workload with that name.
func (a *App) IsWorkload(name string) bool { return a.WorkloadNamed(name) != nil }
