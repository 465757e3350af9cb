package nvml

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// newLine returns the line of a check that found a drawback.
func newLine(name string, state gpuprof.CheckState, found, reason, fix string) gpuprof.CheckLine {
	return gpuprof.CheckLine{Name: name, State: state, Found: found, Reason: reason, Fix: fix}
}

// Examine checks the properties of the GPU that limit measurements. An unknown property is Missing, never OK.
func (d DeviceInfo) Examine() []gpuprof.CheckLine {
	name := fmt.Sprintf("gpu %d", d.Index)
	if d.Fault != "" {
		return []gpuprof.CheckLine{newLine(name, gpuprof.Missing, d.describeLocation(), "NVML does not return it: "+d.Fault,
			"look for Xid messages in dmesg, and reset the GPU or restart the machine")}
	}
	if d.Refused != "" {
		return []gpuprof.CheckLine{newLine(name, gpuprof.Missing, d.describeLocation(), "NVML does not return it: "+d.Refused,
			"check the permissions of /dev/nvidia"+fmt.Sprint(d.Index))}
	}
	lines := []gpuprof.CheckLine{{Name: name, State: gpuprof.OK, Found: fmt.Sprintf("%s, %s, PCI %s, %s of memory", cmp.Or(d.Name, "unknown"), cmp.Or(d.UUID, "unknown"), cmp.Or(d.PCI, "unknown"), formatSize(d.MemoryTotal))}}
	for _, l := range []gpuprof.CheckLine{
		d.permissionLine(), d.persistenceLine(), d.migLine(), d.computeModeLine(), d.clockLine(),
		d.throttleLine(), d.powerLine(), d.eccLine(), d.linkLine(), d.usersLine(),
	} {
		l.Name = name + " " + l.Name
		lines = append(lines, l)
	}
	return lines
}

// describeLocation returns the known address and UUID of a GPU that answers no query.
func (d DeviceInfo) describeLocation() string {
	found := "not asked"
	if d.PCI != "" {
		found += ", PCI " + d.PCI
	}
	if d.UUID != "" {
		found += ", " + d.UUID
	}
	return found
}

const notTold = "NVML does not report it on this GPU, or not in this container"

// unknownLine returns the line of an unknown property.
func unknownLine(name, fix string) gpuprof.CheckLine {
	return newLine(name, gpuprof.Missing, "unknown", notTold, fix)
}

func (d DeviceInfo) permissionLine() gpuprof.CheckLine {
	l := gpuprof.CheckLine{Name: "permissions", State: gpuprof.OK, Found: "all values can be read"}
	if len(d.Forbidden) > 0 {
		l.State, l.Found = gpuprof.Limited, "not permitted: "+strings.Join(uniqueNames(d.Forbidden), ", ")
		l.Reason, l.Fix = "the driver or the container shows these to root only", "run as root once to see them, or start the container with the utility capability (NVIDIA_DRIVER_CAPABILITIES=compute,utility)"
	}
	return l
}

func (d DeviceInfo) persistenceLine() gpuprof.CheckLine {
	switch d.Persistence {
	case On:
		return gpuprof.CheckLine{Name: "persistence", State: gpuprof.OK, Found: "on"}
	case Off:
		return newLine("persistence", gpuprof.Limited, "off",
			"without a process the driver releases the GPU: the next start takes longer, and clock and power settings are lost",
			fmt.Sprintf("start nvidia-persistenced, or nvidia-smi -i %d -pm 1", d.Index))
	}
	return unknownLine("persistence", fmt.Sprintf("nvidia-smi -i %d -q -d PERFORMANCE as root", d.Index))
}

func (d DeviceInfo) migLine() gpuprof.CheckLine {
	switch d.MIG {
	case Off:
		return gpuprof.CheckLine{Name: "mig", State: gpuprof.OK, Found: "off"}
	case On:
		var names []string
		for _, p := range d.Instances {
			names = append(names, strings.TrimSpace("MIG "+p.Profile+" "+p.UUID))
		}
		if len(names) == 0 {
			return newLine("mig", gpuprof.Limited, "on, no instance", "CUDA does not show a GPU in MIG mode that has no instance",
				fmt.Sprintf("make one (nvidia-smi mig -i %d -cgi 9 -C), or nvidia-smi -i %d -mig 0", d.Index, d.Index))
		}
		return newLine("mig", gpuprof.Limited, "on: "+strings.Join(names, ", "),
			"a process sees one instance; power, energy and utilisation belong to all of them together and stay unknown",
			"choose an instance by its name or UUID; for the whole GPU, nvidia-smi -i "+fmt.Sprint(d.Index)+" -mig 0")
	}
	return gpuprof.CheckLine{Name: "mig", State: gpuprof.OK, Found: "this GPU has none"} // every GPU with MIG reports its mode
}

func (d DeviceInfo) computeModeLine() gpuprof.CheckLine {
	switch d.ComputeMode {
	case "default":
		return gpuprof.CheckLine{Name: "compute mode", State: gpuprof.OK, Found: "default"}
	case "":
		return unknownLine("compute mode", "nvidia-smi -q -d COMPUTE")
	case "prohibited":
		return newLine("compute mode", gpuprof.Missing, d.ComputeMode, "no process may use the GPU for computing", fmt.Sprintf("nvidia-smi -i %d -c DEFAULT", d.Index))
	}
	return newLine("compute mode", gpuprof.Limited, d.ComputeMode, "one process at a time may use the GPU, so a second one fails to start", fmt.Sprintf("nvidia-smi -i %d -c DEFAULT", d.Index))
}

func (d DeviceInfo) clockLine() gpuprof.CheckLine {
	if !Known(d.SMClock) || !Known(d.SMClockMax) {
		return unknownLine("clocks", fmt.Sprintf("nvidia-smi -i %d -q -d CLOCK", d.Index))
	}
	l := gpuprof.CheckLine{Name: "clocks", State: gpuprof.OK, Found: fmt.Sprintf("SM %s of at most %s, memory %s of at most %s",
		formatHertz(d.SMClock), formatHertz(d.SMClockMax), formatHertz(d.MemoryClock), formatHertz(d.MemoryClockMax))}
	switch {
	case !Known(d.AppSMClock):
		l.Found += "; application clocks unknown"
	case Known(d.DefaultSMClock) && d.AppSMClock != d.DefaultSMClock,
		Known(d.AppMemoryClock) && Known(d.DefaultMemoryClock) && d.AppMemoryClock != d.DefaultMemoryClock:
		l.State = gpuprof.Limited
		l.Found += fmt.Sprintf("; application clocks SM %s, memory %s", formatHertz(d.AppSMClock), formatHertz(d.AppMemoryClock))
		l.Reason = fmt.Sprintf("application clocks are set; the defaults are SM %s, memory %s", formatHertz(d.DefaultSMClock), formatHertz(d.DefaultMemoryClock))
		l.Fix = fmt.Sprintf("keep them for steadier times, or nvidia-smi -i %d -rac", d.Index)
	default:
		l.Found += "; application clocks are the defaults"
	}
	if l.State == gpuprof.OK {
		l.Found += "; NVML does not report locked clocks, doctor --bench shows the clock under load"
	}
	return l
}

// throttleLine checks for throttling now; an idle GPU has the reason "idle".
func (d DeviceInfo) throttleLine() gpuprof.CheckLine {
	if d.Reasons == nil {
		return unknownLine("throttling", fmt.Sprintf("nvidia-smi -i %d -q -d PERFORMANCE", d.Index))
	}
	why := map[string][2]string{
		"power-cap":      {"the power limit holds the clocks down", "raise the limit, see power limit, or reduce the load of its neighbours"},
		"hw-slowdown":    {"the hardware halves the clocks or worse: heat, power brake or a power supply", "check cooling and power supply"},
		"sw-thermal":     {"the GPU or its memory is too hot", "check fans, air flow and inlet temperature"},
		"hw-thermal":     {"the GPU is far too hot", "check fans, air flow and inlet temperature"},
		"hw-power-brake": {"the system's power supply demands lower clocks (power brake)", "check the power supplies and the rack's power limit"},
		"sync-boost":     {"the GPU follows the slowest of its sync-boost group", "leave the group: nvidia-smi boost-slider and DCGM show its owner"},
	}
	for _, r := range d.Reasons {
		if w, bad := why[r]; bad {
			return newLine("throttling", gpuprof.Limited, strings.Join(d.Reasons, ", "), w[0], w[1])
		}
	}
	l := gpuprof.CheckLine{Name: "throttling", State: gpuprof.OK, Found: "none at present"}
	if len(d.Reasons) > 0 {
		l.Found += " (" + strings.Join(d.Reasons, ", ") + ")"
	}
	return l
}

func (d DeviceInfo) powerLine() gpuprof.CheckLine {
	limit := d.PowerLimit
	if Known(d.PowerEnforced) && (!Known(limit) || d.PowerEnforced < limit) {
		limit = d.PowerEnforced // lower, through a limit set outside of NVML
	}
	if !Known(limit) {
		return unknownLine("power limit", fmt.Sprintf("nvidia-smi -i %d -q -d POWER", d.Index))
	}
	l := gpuprof.CheckLine{Name: "power limit", State: gpuprof.OK, Found: fmt.Sprintf("%.4g W", float64(limit))}
	if !Known(d.PowerDefault) {
		l.State, l.Reason, l.Fix = gpuprof.Missing, "the default limit is unknown, so it is not known whether this one is lowered", fmt.Sprintf("nvidia-smi -i %d -q -d POWER", d.Index)
		return l
	}
	if l.Found += fmt.Sprintf(", default %.4g W", float64(d.PowerDefault)); limit < d.PowerDefault {
		l.State, l.Reason = gpuprof.Limited, "the limit is below the default, so heavy kernels run at lower clocks"
		l.Fix = fmt.Sprintf("nvidia-smi -i %d -pl %.4g", d.Index, float64(d.PowerDefault))
	}
	return l
}

func (d DeviceInfo) eccLine() gpuprof.CheckLine {
	l := gpuprof.CheckLine{Name: "ecc", State: gpuprof.OK, Found: string(d.ECC)}
	bad := func(reason, fix string) gpuprof.CheckLine {
		l.State, l.Reason, l.Fix = gpuprof.Limited, reason, fix
		return l
	}
	if Known(d.Uncorrected) {
		l.Found = strings.TrimPrefix(fmt.Sprintf("%s, %g uncorrected errors since the driver was loaded", d.ECC, float64(d.Uncorrected)), ", ")
	}
	fault, fix, note := d.RepairHealth()
	errors, errorsFix := d.ECCHealth()
	if note != "" {
		l.Found = strings.TrimPrefix(l.Found+"; "+note, "; ")
	}
	switch {
	case fault != "":
		return bad(fault, fix)
	case errors != "":
		return bad("memory returned wrong data that ECC could not correct", errorsFix)
	case d.ECC != "" && d.ECCPending != "" && d.ECC != d.ECCPending:
		return bad("ECC will be "+string(d.ECCPending)+" after the next reboot, which changes memory size and bandwidth", "reboot before measuring")
	case d.ECC == "":
		return newLine("ecc", gpuprof.Missing, "unknown", "this GPU has no ECC, or NVML does not report it", "none needed on a GPU without ECC")
	}
	return l
}

func (d DeviceInfo) linkLine() gpuprof.CheckLine {
	if !Known(d.PCIeWidth) || !Known(d.PCIeWidthMax) || !Known(d.PCIeGen) || !Known(d.PCIeGenMax) {
		return unknownLine("pcie link", "in a virtual machine look at the host's lspci -vv; doctor --bench measures the link")
	}
	l := gpuprof.CheckLine{Name: "pcie link", State: gpuprof.OK, Found: fmt.Sprintf("gen %g x%g, at most gen %g x%g",
		float64(d.PCIeGen), float64(d.PCIeWidth), float64(d.PCIeGenMax), float64(d.PCIeWidthMax))}
	if d.PCIeWidth < d.PCIeWidthMax {
		l.State, l.Reason = gpuprof.Limited, "the link has fewer lanes than GPU and slot allow, so copies between host and device are slower in proportion"
		l.Fix = "reseat the GPU or its riser, and check the slot's lanes and bifurcation in the firmware"
	} else if d.PCIeGen < d.PCIeGenMax {
		l.Found += " (an idle link runs at a lower generation; doctor --bench measures it under load)"
	}
	return l
}

func (d DeviceInfo) usersLine() gpuprof.CheckLine {
	if !d.ProcessesKnown {
		return unknownLine("users", "nvidia-smi shows them to root")
	}
	var others []string
	for _, p := range d.Processes {
		if !p.Own {
			others = append(others, fmt.Sprintf("%s (%d, %s, %s)", cmp.Or(p.Name, "unknown"), p.PID, p.Kind, formatSize(p.Memory)))
		}
	}
	if len(others) == 0 {
		return gpuprof.CheckLine{Name: "users", State: gpuprof.OK, Found: "no other process"}
	}
	return newLine("users", gpuprof.Limited, strings.Join(others, ", "),
		"other programs share the GPU's time, memory and power, which changes every figure", "stop them, or take another GPU")
}

func formatSize(n gpuprof.Number) string { return gpuprof.FormatBytes(float64(n)) }

func formatHertz(n gpuprof.Number) string { return gpuprof.FormatSI(float64(n), "Hz") }

func uniqueNames(list []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
