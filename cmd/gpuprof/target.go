package main

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

// target is what run and check work on: the flags they share.
type target struct {
	Workload string   `arg:"" optional:"" complete:"workload" help:"Name of the workload, see gpuprof list."`
	Device   string   `default:"auto" complete:"device" placeholder:"NAME" help:"auto, host, cuda or cuda:N."`
	Preset   string   `complete:"preset" placeholder:"NAME" help:"Named set of knob values, see gpuprof list presets."`
	Set      []string `sep:"none" complete:"knob" placeholder:"KNOB=VALUE[,VALUE]" help:"Set a knob, see gpuprof list knobs; for run, several values make a sweep."`
	Seed     uint64   `default:"1" placeholder:"N" help:"Seed of inputs and weights (1)."`
}

// aim is a target whose names and values have all been checked.
type aim struct {
	workload workloads.Workload
	preset   string
	device   deviceKind
	choice   string             // why this device, where the user left it open
	set      []gpuprof.Settings // what the user set, one a point of the sweep
	knobs    []gpuprof.Settings // the same, complete
	info     device.Info        // of the device, once it was opened
}

// resolve checks everything that can be checked without a device.
func (t *target) resolve(a *app, verb string) (*aim, error) {
	w, err := a.findWorkload(t.Workload, verb)
	if err != nil {
		return nil, err
	}
	out := &aim{workload: w, preset: t.Preset}
	if out.device, out.choice, err = a.chooseDevice(t.Device, a.noGPU()); err != nil {
		return nil, err
	}
	out.preset = cmp.Or(out.preset, workloads.DefaultPreset(w, out.device.kind()))
	if _, err := workloads.FindPreset(w, out.preset); err != nil {
		return nil, err
	}
	axes, err := parseSets(t.Set)
	if err != nil {
		return nil, err
	}
	out.set = product(axes)
	for _, s := range out.set {
		k, err := workloads.Resolve(w, out.preset, s)
		if err != nil {
			return nil, err
		}
		out.knobs = append(out.knobs, k)
	}
	return out, repeated(axes, out.knobs)
}

// refuse asks the workload whether the device can honour every setting, the
// last thing that is checked, and then says which device was chosen and why.
func (t *aim) refuse(a *app) error {
	d, err := t.device.open()
	if err != nil {
		return err
	}
	defer d.Close()
	t.info = d.Info()
	for _, k := range t.knobs {
		if err := t.workload.Refuse(t.info, k); err != nil {
			return err
		}
	}
	if t.choice != "" {
		a.note("%s", t.choice)
	}
	return nil
}

func (a *app) findWorkload(name, verb string) (workloads.Workload, error) {
	if w := a.workloadNamed(name); w != nil {
		return w, nil
	}
	names := a.workloadNames()
	valid := strings.Join(names, ", ")
	if name == "" {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof %s: no workload was named", verb).WithFix("give one of %s; a program of your own is run by gpuprof run -- CMD", valid)
	}
	return nil, gpuprof.Errorf(gpuprof.ErrUsage, "choosing workload %s: there is no such workload", name).WithFix("the workloads are %s%s", valid, gpuprof.DidYouMean(name, names))
}

func (a *app) workloadNames() (names []string) {
	for _, w := range a.workloads() {
		names = append(names, w.Name())
	}
	return names
}

// workloadNamed is the workload of a name, nil for none.
func (a *app) workloadNamed(name string) workloads.Workload {
	for _, w := range a.workloads() {
		if w.Name() == name {
			return w
		}
	}
	return nil
}

// chooseDevice finds the device behind a --device value and says, where auto
// chose, which one it is and why. noGPU is empty where there is a GPU.
func (a *app) chooseDevice(name, noGPU string) (d deviceKind, why string, err error) {
	all := a.devices()
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
		hidden := ""
		if v, set := os.LookupEnv("CUDA_VISIBLE_DEVICES"); set {
			hidden = fmt.Sprintf(" (CUDA_VISIBLE_DEVICES=%q)", v)
		}
		return d, "", gpuprof.Errorf(gpuprof.ErrDevice, "opening device %s: the driver shows %s%s", name, strings.Join(names[2:], ", "), hidden).WithFix("use one of them")
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

// deviceMeant is the device that people call by another word, "" for an unknown one.
func deviceMeant(name string) string {
	word, n, numbered := strings.Cut(strings.ToLower(name), ":")
	if !numbered {
		word = strings.TrimRight(word, "0123456789")
		n = strings.ToLower(name)[len(word):]
	}
	switch word {
	case "cpu", onHost:
		return onHost
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

// choosePlainly is chooseDevice for verbs whose figures are worth keeping: where
// auto finds no GPU, the host must be asked for by name.
func (a *app) choosePlainly(name, verb string) (deviceKind, error) {
	why := a.noGPU()
	d, _, err := a.chooseDevice(name, why)
	if err == nil && name == "auto" && d.Name == "host" {
		err = gpuprof.Errorf(gpuprof.ErrDevice, "choosing the device of gpuprof %s: %s", verb, why).WithFix("%s never falls back by itself: give --device host", verb)
	}
	return d, err
}

func isCUDA(name string) bool {
	rest, ok := strings.CutPrefix(name, "cuda")
	if !ok || rest == "" {
		return ok
	}
	n, err := strconv.Atoi(strings.TrimPrefix(rest, ":"))
	return err == nil && n >= 0 && rest[0] == ':'
}

func (a *app) isWorkload(name string) bool { return a.workloadNamed(name) != nil }
