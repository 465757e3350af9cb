package workloads

import (
	"strings"

	"github.com/gpuprof/gpuprof"
)

// AllStages as an entry of Knob.Acts means every stage.
const AllStages = "*"

// AnyValue as a key of Knob.Advice and Knob.PyTorch covers every value without an entry of its own.
const AnyValue = "*"

// Remedy is a way in which changing a knob can help a step. The advice derives remedies from a step's problems; the
// workload declares which knob provides a remedy.
type Remedy uint8

// The first five make the caller wait for the device less often.
const (
	ReadTogether   Remedy = iota + 1 // read results in one copy instead of one by one
	LeavePeak                        // do not wait before the peak-memory counter is reset
	KeepPool                         // do not give pooled memory back in the loop
	CopyUnwaited                     // do not wait for copies
	SkipSync                         // do not synchronise in the loop
	PinMemory                        // copy from pinned memory
	PinOnce                          // pin host memory once, not for every batch
	CopyBeside                       // copy on a stream of its own
	CollateFaster                    // assemble batches in blocks
	AddWorkers                       // let workers, or more of them, make batches
	KeepWorkers                      // keep workers from epoch to epoch
	FeedWorkers                      // use another kind of worker, or prepare more batches ahead
	CaptureGraph                     // replay the launches of a step as one graph
	AllowAnyOrder                    // let sums be added in any order
	SkipFill                         // do not fill memory before it is used
	LowerPrecision                   // round the inputs of matrix products
	Fuse                             // one kernel instead of one per operation
	UseLibrary                       // matrix products by the vendor's library
	UseThreads                       // let kernels of the host device have every CPU
	GrowBatch                        // more work per step
	CopyLess                         // copy to the host only results that are read
	Detach                           // release earlier windows' records for a backward pass
	WriteFirst                       // write the first gradients in place of zeros to which they are added
)

// Answer declares that a knob provides a remedy, under which settings, and the value to set.
type Answer struct {
	Remedy Remedy
	To     string // suggested value; empty if the measured figures decide it
	// The answer applies if the settings agree with all of When and none of Unless. Knobs that the settings do not have
	// are ignored.
	When, Unless gpuprof.Settings
	// Waits returns how many times a step waits for the device with these settings; the first five remedies need it.
	// counters holds measured counts per step.
	Waits func(set gpuprof.Settings, counters map[string]float64) float64
	// Targets are the parts of the step that the remedy shortens, the most important first. AllowAnyOrder, SkipFill,
	// WriteFirst and Fuse need them. For CollateFaster they name the host thread's stage that a GPU takes over.
	Targets []Target
	// Keeps is for CopyLess. It returns the share of the targets' time that remains under the settings set.
	Keeps func(set gpuprof.Settings) float64
	// Limit is the key in Session.Input of the maximum for GrowBatch.
	Limit string
	// PyTorch, unless "", is the advice for a PyTorch program in findings with this remedy, in place of the text in
	// Knob.Advice.
	PyTorch string
}

// Target is a stage ("" for any). With Kernels it covers only kernels of this stage whose names end with one of these.
type Target struct {
	Stage   string
	Kernels []string
	// Whole reports that Kernels are complete names.
	Whole bool
	// Keeps is the share of the kernels' bytes that must still be moved.
	Keeps float64
}

// Has reports whether a kernel belongs to the target.
func (t Target) Has(kernel string) bool {
	for _, end := range t.Kernels {
		if kernel == end || !t.Whole && strings.HasSuffix(kernel, end) {
			return true
		}
	}
	return false
}

// Applies reports whether the answer holds for these settings.
func (a Answer) Applies(set gpuprof.Settings) bool {
	for knob, v := range a.When {
		if has, ok := set[knob]; ok && has != v {
			return false
		}
	}
	for knob, v := range a.Unless {
		if set[knob] == v {
			return false
		}
	}
	return true
}

// LineFor returns the entry of Knob.Advice or Knob.PyTorch for a value, with the value in place of %s, or "" if there
// is none.
func LineFor(lines map[string]string, value string) string {
	if line, ok := lines[value]; ok {
		return line
	}
	return strings.ReplaceAll(lines[AnyValue], "%s", strings.TrimPrefix(value, "every:"))
}

// FindKnob looks up a workload's knob by name; false if the workload is nil or has no such knob.
func FindKnob(w Workload, name string) (Knob, bool) {
	if w == nil {
		return Knob{}, false
	}
	for _, k := range w.Knobs() {
		if k.Name == name {
			return k, true
		}
	}
	return Knob{}, false
}
