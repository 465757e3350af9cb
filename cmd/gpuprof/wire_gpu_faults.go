package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/doctor"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/probes/nvml"
)

// This file finds GPU faults without a measurement: from NVML's counters and errors, the driver's recovery action and
// the kernel log.

// machineRoot is the folder with /proc, /sys, /dev/kmsg and /usr; tests set another.
func (w *wiring) machineRoot() string { return cmp.Or(w.root, "/") }

// accounts returns a health.Card, with fault reports, for each GPU that NVML lists or the kernel log names. of has the
// index of a card by the UUID of its GPU or MIG instance. If NVML lists no GPU, the first card has the device
// health.AllGPUs and, as the reason, noNVML: the error of opening NVML.
func (w *wiring) accounts(ctx context.Context, lib *nvml.Library, noNVML error) (cards []health.Card, of map[string]int) {
	of = map[string]int{}
	devices, located := lib.Devices(), nvml.Locate(w.machineRoot())
	nvml.Identify(devices, located)
	w.askNVIDIASMI(ctx, devices)
	for i, d := range devices {
		for _, in := range d.Instances {
			of[in.UUID] = i
		}
		of[d.UUID] = i
		cards = append(cards, accountOf(d))
	}
	delete(of, "")
	if len(cards) == 0 {
		if noNVML == nil {
			noNVML = gpuprof.Errorf(gpuprof.ErrDevice, "listing the GPUs: NVML lists none").
				WithFix("check that the driver of this machine sees its GPUs (nvidia-smi -L)")
		}
		return w.readKernelLog(doctor.FailedCard(health.AllGPUs, noNVML)), of
	}
	for _, g := range nvml.Unlisted(devices, located) {
		cards = append(cards, health.Card{Device: health.PCIAddress(g.PCI), PCI: health.PCIAddress(g.PCI), UUID: g.UUID,
			Sources: []health.Source{{Name: health.SourceNVML, Answer: health.Unanswered, Text: "the driver has this GPU, and NVML does not list it"}}})
	}
	return w.readKernelLog(cards), of
}

func (w *wiring) machineAccounts(ctx context.Context) ([]health.Card, error) {
	lib, noNVML := nvml.Open()
	cards, _ := w.accounts(ctx, lib, noNVML)
	return cards, lib.Close()
}

// readKernelLog adds the GPU faults of the kernel log to the cards of their GPUs.
func (w *wiring) readKernelLog(cards []health.Card) []health.Card {
	text, err := kernelLog(filepath.Join(w.machineRoot(), "dev", "kmsg"))
	why := ""
	if err != nil {
		why = "it cannot be read: " + err.Error()
	}
	return health.AssignLog(cards, health.ReadLog(text), why)
}

// accountOf returns the health.Card of a GPU with its identity, condition and fault reports from NVML, and without
// measurements.
func accountOf(d nvml.DeviceInfo) health.Card {
	c := health.Card{Device: fmt.Sprint("gpu", d.Index), Name: d.Name, UUID: d.UUID, PCI: health.PCIAddress(d.PCI),
		Condition: conditionOf(d, d.MIG == nvml.On)}
	// Do not judge the link's width: an idle link may be narrower than under load.
	c.Condition.LinkWidth = 0
	switch {
	case d.Fault == nvml.ResetRequired:
		c.Sources = []health.Source{health.FaultOf(health.SourceRecovery, "NVML reports: "+d.Fault, health.FixReset)}
		return c
	case d.Fault != "":
		c.Sources = []health.Source{health.FaultOf(health.SourceNVML, "NVML reports: "+d.Fault, health.FixRestart)}
		return c
	case d.Refused != "":
		c.Sources = []health.Source{{Name: health.SourceNVML, Answer: health.Unanswered, Text: d.Refused}}
		return c
	}
	source := func(name, fault, fix, note string, queries ...string) health.Source {
		s := health.Source{Name: name, Answer: health.NoFault, Decides: true}
		if !slices.ContainsFunc(queries, func(q string) bool { return d.Unanswered[q] == "" }) {
			return health.Source{Name: name, Answer: health.Unanswered, Text: d.Unanswered[queries[0]]}
		}
		if fault != "" {
			return health.FaultOf(name, fault, fix)
		}
		if note != "" {
			s.Notes = []string{note}
		}
		return s
	}
	errorsFault, errorsFix := d.ECCHealth()
	repairFault, repairFix, note := d.RepairHealth()
	recovery := health.Source{Name: health.SourceRecovery, Answer: health.Unanswered, Text: d.Unanswered[nvml.QueryRecovery]}
	if nvml.Known(d.Recovery) {
		// For a GPU without memory of its own (Jetson, GB10), a recovery action of "none" does not show that the GPU
		// works.
		recovery = health.RecoverySource(int(d.Recovery), nvml.Known(d.MemoryTotal))
	}
	c.Sources = []health.Source{
		{Name: health.SourceNVML, Answer: health.NoFault},
		source(health.SourceECC, errorsFault, errorsFix, "", nvml.QueryECC),
		source(health.SourceRepair, repairFault, repairFix, note, nvml.QueryRows, nvml.QueryPages),
		recovery,
	}
	return c
}

// Accounts adds the current fault reports to the cards of the measured GPUs. With everyGPU, it appends cards of other
// GPUs that are faulty or could not be checked.
func (s *gpuList) Accounts(ctx context.Context, cards []health.Card, everyGPU bool) []health.Card {
	all, of := s.w.accounts(ctx, s.lib, s.noTelemetry)
	used := map[int]bool{}
	for i := range cards {
		c := &cards[i]
		at, ok := of[c.UUID]
		if len(all) == 1 && len(cards) == 1 && all[0].Device != health.AllGPUs {
			at, ok = 0, true // a single GPU needs no UUID
		}
		if !ok {
			why := cmp.Or(all[0].Error, "NVML lists no GPU of this UUID")
			c.Sources = []health.Source{{Name: health.SourceNVML, Answer: health.Unanswered, Text: why}}
			continue
		}
		used[at] = true
		c.PCI, c.Name, c.Sources = all[at].PCI, cmp.Or(c.Name, all[at].Name), all[at].Sources
		c.Condition.MemoryFault = all[at].Condition.MemoryFault
	}
	for i := range all {
		silent := !all[i].Checked() && all[i].Device != health.AllGPUs
		if everyGPU && !used[i] && (all[i].Faulty() || silent) {
			cards = append(cards, all[i])
		}
	}
	return cards
}

// faultLines returns doctor's line about the faults of each GPU.
func faultLines(cards []health.Card) []gpuprof.CheckLine {
	var lines []gpuprof.CheckLine
	for i := range cards {
		c := &cards[i]
		if c.Device == health.AllGPUs && !c.Faulty() {
			continue // the line about telemetry has the reason
		}
		l := gpuprof.CheckLine{Name: strings.Replace(c.Device, "gpu", "gpu ", 1) + " faults", State: gpuprof.OK, Found: "none reported"}
		if off := c.Faults(); len(off) > 0 {
			l.State, l.Found, l.Reason, l.Fix = gpuprof.Limited, c.Identity()+" is at fault", off[0].Cause, off[0].Fix
			for _, o := range off[1:] {
				l.Reason += "; " + o.Cause
			}
		} else if silent := c.Silent(); silent != "" {
			l.State, l.Reason = gpuprof.Limited, "not answered: "+silent
			l.Fix = "run as root on the node itself, with a driver that has these answers"
			if !c.Checked() {
				l.State, l.Found = gpuprof.Missing, "not checked"
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// Drivers report the recovery action since release recoveryDriver. If NVML does not report it, nvidia-smi is run once,
// for at most nvidiaSMIWithin, because the whole check has 2 s. At most nvidiaSMIAnswers bytes are read.
const (
	recoveryDriver   = 565
	nvidiaSMIWithin  = 500 * time.Millisecond
	nvidiaSMIAnswers = 1 << 16
)

// nvidiaSMIPlaces lists the folders in which drivers and containers install nvidia-smi. PATH is not used, because the
// prolog of a job scheduler runs without one.
var nvidiaSMIPlaces = [...]string{"usr/bin", "usr/local/bin", "usr/local/nvidia/bin", "opt/nvidia/bin",
	"run/nvidia/driver/usr/bin", "run/current-system/sw/bin", "usr/lib/wsl/lib"}

// askNVIDIASMI sets the recovery actions that NVML did not report. They stay unknown if nvidia-smi fails.
func (w *wiring) askNVIDIASMI(ctx context.Context, devices []nvml.DeviceInfo) {
	wants := func(d nvml.DeviceInfo) bool {
		release, _, _ := strings.Cut(d.Driver, ".")
		n, err := strconv.Atoi(release)
		return err == nil && n >= recoveryDriver && d.Fault == "" && d.Refused == "" && d.PCI != "" && !nvml.Known(d.Recovery)
	}
	if !slices.ContainsFunc(devices, wants) {
		return
	}
	for _, dir := range nvidiaSMIPlaces {
		file := filepath.Join(w.machineRoot(), dir, "nvidia-smi")
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			continue
		}
		// An error leaves the actions unknown, and the report shows that.
		out, _, _ := child.Command{Args: []string{file, "--query-gpu=pci.bus_id,gpu_recovery_action", "--format=csv,noheader"},
			Limit: nvidiaSMIWithin, Leave: nvidiaSMIWithin, Most: nvidiaSMIAnswers}.Run(ctx)
		known := readRecoveryActions(string(out))
		for i := range devices {
			if n, ok := known[health.PCIAddress(devices[i].PCI)]; ok && wants(devices[i]) {
				devices[i].Recovery = gpuprof.Number(n)
			}
		}
		return
	}
}

// readRecoveryActions parses the lines of nvidia-smi, such as "00000000:CA:00.0, Reset". It returns NVML's number of
// the recovery action by PCI address.
func readRecoveryActions(text string) map[string]int {
	numbers := map[string]int{"none": 0, "reset": 1, "gpu reset": 1, "reboot": 2, "node reboot": 2, "drain p2p": 3, "drain and reset": 4}
	out := map[string]int{}
	for line := range strings.Lines(text) {
		address, word, ok := strings.Cut(strings.TrimSpace(line), ",")
		if n, known := numbers[strings.ToLower(strings.TrimSpace(word))]; ok && known {
			out[health.PCIAddress(strings.TrimSpace(address))] = n
		}
	}
	return out
}
