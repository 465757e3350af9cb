package health

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Answer is what a source reports about the faults of a GPU.
type Answer string

// Values of Answer. Unanswered is no evidence that the GPU works.
const (
	NoFault    Answer = "no fault"
	HasFault   Answer = "fault"
	Unanswered Answer = "not answered"
)

// Sources of fault reports.
const (
	SourceNVML     = "nvml"            // whether NVML reaches the GPU
	SourceECC      = "ecc_errors"      // uncorrected memory errors since the driver was loaded
	SourceRepair   = "memory_repair"   // memory rows or pages that wait for replacement, or could not be replaced
	SourceRecovery = "recovery_action" // the recovery action that the driver requests
	SourceLog      = "kernel_log"      // XIDs and other messages of the driver
)

// Source is a place where faults of a GPU are reported, with its answer.
type Source struct {
	Name   string `json:"name"`
	Answer Answer `json:"answer"`
	// Decides marks a source whose "no fault" is enough to call the GPU checked.
	Decides bool     `json:"decides,omitempty"`
	Text    string   `json:"text,omitempty"` // the fault, or the reason for no answer
	Fix     string   `json:"fix,omitempty"`
	Notes   []string `json:"notes,omitempty"` // information that is no fault
}

// faultMetrics maps a source to the metric of its faults in Report.Off.
var faultMetrics = map[string]string{SourceNVML: "lost", SourceECC: "memory_errors", SourceRepair: "memory_errors",
	SourceRecovery: "recovery_action", SourceLog: "xid"}

// FaultOf returns a source that answers with a fault, its text and its remedy.
func FaultOf(name, text, fix string) Source {
	return Source{Name: name, Answer: HasFault, Text: text, Fix: fix}
}

// Faulty reports whether a source answered with a fault of the device.
func (c *Card) Faulty() bool {
	return slices.ContainsFunc(c.Sources, func(s Source) bool { return s.Answer == HasFault })
}

// Checked reports whether the device is faulty, or a decisive source answered "no fault".
func (c *Card) Checked() bool {
	return c.Faulty() || slices.ContainsFunc(c.Sources, func(s Source) bool { return s.Decides && s.Answer == NoFault })
}

// Silent lists the sources without an answer, with the reasons.
func (c *Card) Silent() string {
	if len(c.Sources) == 0 {
		return "no source of faults was asked"
	}
	var out []string
	for _, s := range c.Sources {
		if s.Answer == Unanswered {
			out = append(out, fmt.Sprintf("%s (%s)", s.Name, s.Text))
		}
	}
	return strings.Join(out, ", ")
}

// Identity names the device. A device without measurements may be unknown by its name, so the known addresses follow:
// "gpu1 (PCI 0000:ca:00.0, GPU-…)".
func (c *Card) Identity() string {
	switch {
	case len(c.Metrics) > 0:
		return c.Device
	case c.Device == AllGPUs && c.Faulty():
		return "a GPU of unknown address"
	}
	var known []string
	if c.PCI != "" && c.PCI != c.Device {
		known = append(known, "PCI "+c.PCI)
	}
	if c.UUID != "" && c.UUID != c.Device {
		known = append(known, c.UUID)
	}
	if len(known) == 0 {
		return c.Device
	}
	return c.Device + " (" + strings.Join(known, ", ") + ")"
}

// Faults returns the sources' faults as entries of Report.Off, one per metric.
func (c *Card) Faults() []Off {
	var out []Off
	for _, s := range c.Sources {
		if s.Answer != HasFault {
			continue
		}
		metric := faultMetrics[s.Name]
		if i := slices.IndexFunc(out, func(o Off) bool { return o.Metric == metric }); i >= 0 {
			out[i].Cause += "; " + s.Text
			continue
		}
		unknown := gpuprof.Number(math.NaN())
		out = append(out, Off{Device: c.Device, Metric: metric, Unit: "1", Value: unknown, Worse: unknown,
			Against: "itself", Cause: s.Text, Evidence: true, Fix: s.Fix})
	}
	return out
}

// deviceTexts collects texts about devices, and lists the devices of equal texts together.
type deviceTexts struct {
	texts   []string // in order of first occurrence
	devices map[string][]string
}

func (s *deviceTexts) add(device, text string) {
	if s.devices == nil {
		s.devices = map[string][]string{}
	}
	if s.devices[text] == nil {
		s.texts = append(s.texts, text)
	}
	s.devices[text] = append(s.devices[text], device)
}

func (s *deviceTexts) formatLines() []string {
	var out []string
	for _, text := range s.texts {
		out = append(out, joinNames(s.devices[text])+": "+text)
	}
	return out
}

// sourceNotes returns the sources' notes, and which sources gave no answer.
func sourceNotes(cards []Card) []string {
	var notes deviceTexts
	for i := range cards {
		c := &cards[i]
		for _, s := range c.Sources {
			for _, n := range s.Notes {
				notes.add(c.Device, n)
			}
		}
		if silent := c.Silent(); c.Checked() && silent != "" && !c.Faulty() {
			notes.add(c.Device, "not answered: "+silent)
		}
	}
	return notes.formatLines()
}

type action struct {
	means, fix string
	note       bool // a note, not a fault of the GPU
}

// Fixes of faults.
const (
	FixReset   = "stop the programs on the GPU and reset it (nvidia-smi -r); if the fault returns, replace the GPU"
	FixRestart = "drain the node and restart it; if the fault returns, replace the GPU"
)

// actions maps the numbers of recovery actions, which XID 154 logs: nvmlDeviceGpuRecoveryAction_t in nvml.h,
// NV2080_CTRL_GPU_RECOVERY_ACTION in the driver.
var actions = map[int]action{
	1: {means: "reset the GPU", fix: FixReset},
	2: {means: "restart the node", fix: FixRestart},
	3: {means: "stop the programs that copy between GPUs (drain P2P)",
		fix: "stop the programs on this GPU and on those that it exchanges data with"},
	4: {means: "stop the programs that copy between GPUs, and reset the GPU (drain and reset)", fix: FixReset},
	5: {means: "recover the IMEX domain", note: true},
	6: {means: "reset the PCIe bus of the GPU", fix: FixRestart},
	7: {means: "restart the system", fix: FixRestart},
}

func (a action) requestText() string { return "the driver asks for a recovery action: " + a.means }

func actionOf(number int) action {
	if a, ok := actions[number]; ok {
		return a
	}
	return action{means: fmt.Sprintf("action %d, which this gpuprof does not know", number),
		fix: "look at nvidia-smi -q (GPU Recovery Action), and at the manual of the driver"}
}

// RecoverySource returns the source with the driver's recovery action; number 0 means none.
func RecoverySource(number int, decides bool) Source {
	s := Source{Name: SourceRecovery, Answer: NoFault, Decides: decides}
	switch a := actionOf(number); {
	case number == 0:
	case a.note:
		s.Notes = []string{a.requestText()}
	default:
		return FaultOf(SourceRecovery, a.requestText(), a.fix)
	}
	return s
}
